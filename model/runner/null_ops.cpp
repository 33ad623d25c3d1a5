#include "model/runner/null_ops.h"

namespace model {
namespace {

using gpu::Done;
using gpu::Status;
using gpu::Stream;
using kernels::RowBatch;

class NullOps final : public kernels::Ops {
 public:
  Status embedding(Stream&, const RowBatch&, const kernels::EmbeddingArgs&) override { return Done{}; }
  Status gather_rows(Stream&, const kernels::GatherRowsArgs&) override { return Done{}; }
  Status add(Stream&, const kernels::AddArgs&) override { return Done{}; }
  Status scaled_silu(Stream&, const kernels::ScaledSiluArgs&) override { return Done{}; }
  Status swiglu(Stream&, const kernels::SwigluArgs&) override { return Done{}; }
  Status gemm(Stream&, const kernels::GemmArgs&) override { return Done{}; }
  Status gemm_group(Stream&, const kernels::GemmGroupArgs&) override { return Done{}; }
  Status rms_norm(Stream&, const kernels::RmsNormArgs&) override { return Done{}; }
  Status gated_rms_norm(Stream&, const kernels::GatedRmsNormArgs&) override { return Done{}; }
  Status head_norm_rope(Stream&, const RowBatch&, const kernels::HeadNormRopeArgs&) override {
    return Done{};
  }
  Status kv_append(Stream&, const RowBatch&, const kernels::KvAppendArgs&) override { return Done{}; }
  Status attention(Stream&, const RowBatch&, const kernels::AttentionArgs&) override { return Done{}; }
  Status head_gate(Stream&, const kernels::HeadGateArgs&) override { return Done{}; }
  Status qsa_index_append(Stream&, const RowBatch&, const kernels::QsaIndexAppendArgs&) override {
    return Done{};
  }
  Status qsa_select(Stream&, const RowBatch&, const kernels::QsaSelectArgs&) override { return Done{}; }
  Status causal_conv(Stream&, const RowBatch&, const kernels::CausalConvArgs&) override { return Done{}; }
  Status gdn(Stream&, const RowBatch&, const kernels::GdnArgs&) override { return Done{}; }
  Status repeat_streams(Stream&, const kernels::RepeatStreamsArgs&) override { return Done{}; }
  Status mix_streams(Stream&, const kernels::MixStreamsArgs&) override { return Done{}; }
  Status inject_streams(Stream&, const kernels::InjectStreamsArgs&) override { return Done{}; }
  Status ngram_rows(Stream&, const RowBatch&, const kernels::NgramRowsArgs&) override { return Done{}; }
  Status gather_table(Stream&, const kernels::GatherTableArgs&) override { return Done{}; }
  Status ple_gate(Stream&, const kernels::PleGateArgs&) override { return Done{}; }
  Status moe_route(Stream&, const kernels::MoeRouteArgs&) override { return Done{}; }
  Status moe_experts(Stream&, const kernels::MoeExpertsArgs&) override { return Done{}; }
  Status shared_expert_add(Stream&, const kernels::SharedExpertAddArgs&) override { return Done{}; }
  Status sample(Stream&, const kernels::SampleArgs&) override { return Done{}; }
};

class NullStream final : public Stream {
 public:
  Status synchronize() override { return Done{}; }
  Status fill_zero(std::byte*, gpu::Bytes, const char*) override { return Done{}; }
  Status copy(std::byte*, const std::byte*, gpu::Bytes, const char*) override { return Done{}; }
  Status copy_to_device(std::byte*, const void*, gpu::Bytes, const char*) override { return Done{}; }
  Status copy_to_host(void*, const std::byte*, gpu::Bytes, const char*) override { return Done{}; }
  std::uint64_t progress() const override { return 0; }
  void note_progress() override {}
};

}  // namespace

std::unique_ptr<kernels::Ops> make_null_ops() { return std::make_unique<NullOps>(); }
std::unique_ptr<gpu::Stream> make_null_stream() { return std::make_unique<NullStream>(); }

}  // namespace model
