#include "kernels/cuda/cuda_ops.h"

#include "kernels/check_args.h"
#include "kernels/cuda/blas_lt.h"

namespace kernels::cuda {
namespace {

constexpr Activations kActivations = Activations::f32_or_bf16;
/// What tiles of attention leave for their join. Its size decides how many tiles one pass makes, nothing
/// else: a row of 24 heads of 256 leaves 25 KB a tile of 64 positions, so 32 MB hold those of 86,000.
constexpr gpu::Bytes kPartials{32 * 1024 * 1024};

/// Checks, then runs. The streams of this backend are CUDA streams: whoever makes the ops makes the pair.
class CudaOps final : public Ops {
 public:
  CudaOps(std::unique_ptr<BlasLt> blas, gpu::Buffer partials)
      : blas_(std::move(blas)), partials_(std::move(partials)) {}

  gpu::Status embedding(gpu::Stream& stream, const RowBatch& batch, const EmbeddingArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::embedding(context, batch, args);
  }
  gpu::Status gather_rows(gpu::Stream& stream, const GatherRowsArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::gather_rows(context, args);
  }
  gpu::Status add(gpu::Stream& stream, const AddArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::add(context, args);
  }
  gpu::Status scaled_silu(gpu::Stream& stream, const ScaledSiluArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::scaled_silu(context, args);
  }
  gpu::Status swiglu(gpu::Stream& stream, const SwigluArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::swiglu(context, args);
  }
  gpu::Status gemm(gpu::Stream& stream, const GemmArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::gemm(context, args);
  }
  gpu::Status gemm_group(gpu::Stream& stream, const GemmGroupArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::gemm_group(context, args);
  }
  gpu::Status rms_norm(gpu::Stream& stream, const RmsNormArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::rms_norm(context, args);
  }
  gpu::Status gated_rms_norm(gpu::Stream& stream, const GatedRmsNormArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::gated_rms_norm(context, args);
  }
  gpu::Status head_norm_rope(gpu::Stream& stream, const RowBatch& batch,
                             const HeadNormRopeArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::head_norm_rope(context, batch, args);
  }
  gpu::Status kv_append(gpu::Stream& stream, const RowBatch& batch, const KvAppendArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::kv_append(context, batch, args);
  }
  gpu::Status attention(gpu::Stream& stream, const RowBatch& batch, const AttentionArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{
        cuda(stream),
        *blas_,
        {reinterpret_cast<float*>(partials_.base()), {partials_.size().n / std::int64_t{sizeof(float)}}}};
    return cuda::attention(context, batch, args);
  }
  gpu::Status head_gate(gpu::Stream& stream, const HeadGateArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::head_gate(context, args);
  }
  gpu::Status qsa_index_append(gpu::Stream& stream, const RowBatch& batch,
                               const QsaIndexAppendArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::qsa_index_append(context, batch, args);
  }
  gpu::Status qsa_select(gpu::Stream& stream, const RowBatch& batch, const QsaSelectArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::qsa_select(context, batch, args);
  }
  gpu::Status causal_conv(gpu::Stream& stream, const RowBatch& batch, const CausalConvArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::causal_conv(context, batch, args);
  }
  gpu::Status gdn(gpu::Stream& stream, const RowBatch& batch, const GdnArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::gdn(context, batch, args);
  }
  gpu::Status repeat_streams(gpu::Stream& stream, const RepeatStreamsArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::repeat_streams(context, args);
  }
  gpu::Status mix_streams(gpu::Stream& stream, const MixStreamsArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::mix_streams(context, args);
  }
  gpu::Status inject_streams(gpu::Stream& stream, const InjectStreamsArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::inject_streams(context, args);
  }
  gpu::Status ngram_rows(gpu::Stream& stream, const RowBatch& batch, const NgramRowsArgs& args) override {
    if (auto refusal = check_args(batch, args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::ngram_rows(context, batch, args);
  }
  gpu::Status gather_table(gpu::Stream& stream, const GatherTableArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::gather_table(context, args);
  }
  gpu::Status ple_gate(gpu::Stream& stream, const PleGateArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::ple_gate(context, args);
  }
  gpu::Status moe_route(gpu::Stream& stream, const MoeRouteArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::moe_route(context, args);
  }
  gpu::Status moe_experts(gpu::Stream& stream, const MoeExpertsArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::moe_experts(context, args);
  }
  gpu::Status shared_expert_add(gpu::Stream& stream, const SharedExpertAddArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::shared_expert_add(context, args);
  }
  gpu::Status sample(gpu::Stream& stream, const SampleArgs& args) override {
    if (auto refusal = check_args(args, kActivations)) return *std::move(refusal);
    Context context{cuda(stream), *blas_};
    return cuda::sample(context, args);
  }

  std::vector<GemmFallbacks> take_fallbacks() override { return blas_->take_fallbacks(); }
  void refuse_products(int count) override { blas_->refuse_next(count); }
  void allow_split_k(bool allowed) override { blas_->allow_split_k(allowed); }
  std::string describe_choice(const GemmArgs& args) override { return blas_->describe_choice(args); }

 private:
  static gpu::CudaStream& cuda(gpu::Stream& stream) { return static_cast<gpu::CudaStream&>(stream); }
  std::unique_ptr<BlasLt> blas_;
  gpu::Buffer partials_;
};

}  // namespace

gpu::Result<std::unique_ptr<Ops>, gpu::DeviceError> make_cuda_ops(gpu::Device& device, BackendLog warn) {
  auto blas = BlasLt::create(device, std::move(warn));
  if (!blas.ok()) return std::move(blas).error();
  auto partials = device.allocate(kPartials, "attention partials");
  if (!partials.ok()) return std::move(partials).error();
  return std::unique_ptr<Ops>(std::make_unique<CudaOps>(*std::move(blas), *std::move(partials)));
}

}  // namespace kernels::cuda
