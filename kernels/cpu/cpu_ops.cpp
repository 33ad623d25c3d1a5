#include "kernels/cpu/cpu_ops.h"

#include <string>
#include <utility>

#include "kernels/check_args.h"

namespace kernels {
namespace {

/// Checks, then runs. The streams of this backend are host streams: main makes the pair together.
class CpuOps final : public Ops {
 public:
  explicit CpuOps(BackendLog warn) : warn_(std::move(warn)) {}

  gpu::Status embedding(gpu::Stream& stream, const RowBatch& batch, const EmbeddingArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::embedding(host(stream), batch, args);
  }
  gpu::Status gather_rows(gpu::Stream& stream, const GatherRowsArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::gather_rows(host(stream), args);
  }
  gpu::Status add(gpu::Stream& stream, const AddArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::add(host(stream), args);
  }
  gpu::Status scaled_silu(gpu::Stream& stream, const ScaledSiluArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::scaled_silu(host(stream), args);
  }
  gpu::Status swiglu(gpu::Stream& stream, const SwigluArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::swiglu(host(stream), args);
  }
  gpu::Status gemm(gpu::Stream& stream, const GemmArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    meet_refusal(args.w, args.y, args.name);
    return cpu::gemm(host(stream), args);
  }
  gpu::Status gemm_group(gpu::Stream& stream, const GemmGroupArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    for (const GemmGroupArgs::Output& output : args.outputs) meet_refusal(output.w, output.y, output.name);
    return cpu::gemm_group(host(stream), args);
  }
  gpu::Status rms_norm(gpu::Stream& stream, const RmsNormArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::rms_norm(host(stream), args);
  }
  gpu::Status gated_rms_norm(gpu::Stream& stream, const GatedRmsNormArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::gated_rms_norm(host(stream), args);
  }
  gpu::Status head_norm_rope(gpu::Stream& stream, const RowBatch& batch,
                             const HeadNormRopeArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::head_norm_rope(host(stream), batch, args);
  }
  gpu::Status kv_append(gpu::Stream& stream, const RowBatch& batch, const KvAppendArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::kv_append(host(stream), batch, args);
  }
  gpu::Status attention(gpu::Stream& stream, const RowBatch& batch, const AttentionArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::attention(host(stream), batch, args);
  }
  gpu::Status head_gate(gpu::Stream& stream, const HeadGateArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::head_gate(host(stream), args);
  }
  gpu::Status qsa_index_append(gpu::Stream& stream, const RowBatch& batch,
                               const QsaIndexAppendArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::qsa_index_append(host(stream), batch, args);
  }
  gpu::Status qsa_select(gpu::Stream& stream, const RowBatch& batch, const QsaSelectArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::qsa_select(host(stream), batch, args);
  }
  gpu::Status causal_conv(gpu::Stream& stream, const RowBatch& batch, const CausalConvArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::causal_conv(host(stream), batch, args);
  }
  gpu::Status gdn(gpu::Stream& stream, const RowBatch& batch, const GdnArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::gdn(host(stream), batch, args);
  }
  gpu::Status repeat_streams(gpu::Stream& stream, const RepeatStreamsArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::repeat_streams(host(stream), args);
  }
  gpu::Status mix_streams(gpu::Stream& stream, const MixStreamsArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::mix_streams(host(stream), args);
  }
  gpu::Status inject_streams(gpu::Stream& stream, const InjectStreamsArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::inject_streams(host(stream), args);
  }
  gpu::Status ngram_rows(gpu::Stream& stream, const RowBatch& batch, const NgramRowsArgs& args) override {
    if (auto refusal = check_args(batch, args)) return *std::move(refusal);
    return cpu::ngram_rows(host(stream), batch, args);
  }
  gpu::Status gather_table(gpu::Stream& stream, const GatherTableArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::gather_table(host(stream), args);
  }
  gpu::Status ple_gate(gpu::Stream& stream, const PleGateArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::ple_gate(host(stream), args);
  }
  gpu::Status moe_route(gpu::Stream& stream, const MoeRouteArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::moe_route(host(stream), args);
  }
  gpu::Status moe_experts(gpu::Stream& stream, const MoeExpertsArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::moe_experts(host(stream), args);
  }
  gpu::Status shared_expert_add(gpu::Stream& stream, const SharedExpertAddArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::shared_expert_add(host(stream), args);
  }
  gpu::Status sample(gpu::Stream& stream, const SampleArgs& args) override {
    if (auto refusal = check_args(args)) return *std::move(refusal);
    return cpu::sample(host(stream), args);
  }

  std::vector<GemmFallbacks> take_fallbacks() override { return fallbacks_.take(); }
  void refuse_products(int count) override { num_to_refuse_ = count; }

 private:
  static gpu::HostStream& host(gpu::Stream& stream) { return static_cast<gpu::HostStream&>(stream); }

  void meet_refusal(const Weight& w, const Matrix& y, const char* name) {
    if (num_to_refuse_ == 0) return;
    --num_to_refuse_;
    fallbacks_.add(w.rows().n, w.cols().n, y.dtype);
    if (!warn_) return;
    warn_(std::string("gemm ") + name + ": a refusal was injected (M " + std::to_string(y.rows.n) + ", N " +
          std::to_string(w.rows().n) + ", K " + std::to_string(w.cols().n) +
          "); the CPU has one path for products and took it");
  }

  BackendLog warn_;
  FallbackCounts fallbacks_;
  int num_to_refuse_ = 0;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(BackendLog warn) { return std::make_unique<CpuOps>(std::move(warn)); }

}  // namespace kernels
