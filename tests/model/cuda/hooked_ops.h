#pragma once

#include <functional>
#include <memory>

#include "kernels/ops.h"

namespace model::testing {

/// A backend's operations, and something that happens before each of them.
class HookedOps final : public kernels::Ops {
  using Stream = gpu::Stream;
  using Status = gpu::Status;
  using Batch = kernels::RowBatch;

 public:
  /// What goes wrong before operation `index` (from 0) of the backend; an error takes the operation's place.
  using Hook = std::function<Status(Stream&, int index)>;
  /// The same before an embedding, which is given where the ids lie.
  using EmbeddingHook = std::function<Status(Stream&, const kernels::EmbeddingArgs&)>;

  explicit HookedOps(std::unique_ptr<kernels::Ops> inner) : inner_(std::move(inner)) {}
  Hook before;
  EmbeddingHook before_embedding;
  int num_operations() const { return num_operations_; }

  Status embedding(Stream& s, const Batch& b, const kernels::EmbeddingArgs& a) override {
    if (before_embedding) RETURN_IF_ERROR(before_embedding(s, a));
    return pass(&Ops::embedding, s, b, a);
  }
  Status gather_rows(Stream& s, const kernels::GatherRowsArgs& a) override {
    return pass(&Ops::gather_rows, s, a);
  }
  Status add(Stream& s, const kernels::AddArgs& a) override { return pass(&Ops::add, s, a); }
  Status scaled_silu(Stream& s, const kernels::ScaledSiluArgs& a) override {
    return pass(&Ops::scaled_silu, s, a);
  }
  Status swiglu(Stream& s, const kernels::SwigluArgs& a) override { return pass(&Ops::swiglu, s, a); }
  Status gemm(Stream& s, const kernels::GemmArgs& a) override { return pass(&Ops::gemm, s, a); }
  Status gemm_group(Stream& s, const kernels::GemmGroupArgs& a) override {
    return pass(&Ops::gemm_group, s, a);
  }
  Status rms_norm(Stream& s, const kernels::RmsNormArgs& a) override { return pass(&Ops::rms_norm, s, a); }
  Status gated_rms_norm(Stream& s, const kernels::GatedRmsNormArgs& a) override {
    return pass(&Ops::gated_rms_norm, s, a);
  }
  Status head_norm_rope(Stream& s, const Batch& b, const kernels::HeadNormRopeArgs& a) override {
    return pass(&Ops::head_norm_rope, s, b, a);
  }
  Status kv_append(Stream& s, const Batch& b, const kernels::KvAppendArgs& a) override {
    return pass(&Ops::kv_append, s, b, a);
  }
  Status attention(Stream& s, const Batch& b, const kernels::AttentionArgs& a) override {
    return pass(&Ops::attention, s, b, a);
  }
  Status head_gate(Stream& s, const kernels::HeadGateArgs& a) override { return pass(&Ops::head_gate, s, a); }
  Status qsa_index_append(Stream& s, const Batch& b, const kernels::QsaIndexAppendArgs& a) override {
    return pass(&Ops::qsa_index_append, s, b, a);
  }
  Status qsa_select(Stream& s, const Batch& b, const kernels::QsaSelectArgs& a) override {
    return pass(&Ops::qsa_select, s, b, a);
  }
  Status causal_conv(Stream& s, const Batch& b, const kernels::CausalConvArgs& a) override {
    return pass(&Ops::causal_conv, s, b, a);
  }
  Status gdn(Stream& s, const Batch& b, const kernels::GdnArgs& a) override {
    return pass(&Ops::gdn, s, b, a);
  }
  Status repeat_streams(Stream& s, const kernels::RepeatStreamsArgs& a) override {
    return pass(&Ops::repeat_streams, s, a);
  }
  Status mix_streams(Stream& s, const kernels::MixStreamsArgs& a) override {
    return pass(&Ops::mix_streams, s, a);
  }
  Status inject_streams(Stream& s, const kernels::InjectStreamsArgs& a) override {
    return pass(&Ops::inject_streams, s, a);
  }
  Status ngram_rows(Stream& s, const Batch& b, const kernels::NgramRowsArgs& a) override {
    return pass(&Ops::ngram_rows, s, b, a);
  }
  Status gather_table(Stream& s, const kernels::GatherTableArgs& a) override {
    return pass(&Ops::gather_table, s, a);
  }
  Status ple_gate(Stream& s, const kernels::PleGateArgs& a) override { return pass(&Ops::ple_gate, s, a); }
  Status moe_route(Stream& s, const kernels::MoeRouteArgs& a) override { return pass(&Ops::moe_route, s, a); }
  Status moe_experts(Stream& s, const kernels::MoeExpertsArgs& a) override {
    return pass(&Ops::moe_experts, s, a);
  }
  Status shared_expert_add(Stream& s, const kernels::SharedExpertAddArgs& a) override {
    return pass(&Ops::shared_expert_add, s, a);
  }
  Status sample(Stream& s, const kernels::SampleArgs& a) override { return pass(&Ops::sample, s, a); }
  std::uint64_t num_fallbacks() const override { return inner_->num_fallbacks(); }

 private:
  template <class... Parameters, class... Arguments>
  Status pass(Status (Ops::*op)(Stream&, Parameters...), Stream& stream, const Arguments&... arguments) {
    const int index = num_operations_++;
    if (before) RETURN_IF_ERROR(before(stream, index));
    return (inner_.get()->*op)(stream, arguments...);
  }
  std::unique_ptr<kernels::Ops> inner_;
  int num_operations_ = 0;
};

}  // namespace model::testing
