#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/ops.h"

namespace kernels {

/// Every operation of the table, by the name that a hook hears.
inline constexpr std::array<std::string_view, 27> kOpNames = {
    "embedding",
    "gather_rows",
    "add",
    "scaled_silu",
    "swiglu",
    "gemm",
    "gemm_group",
    "rms_norm",
    "gated_rms_norm",
    "head_norm_rope",
    "kv_append",
    "attention",
    "head_gate",
    "qsa_index_append",
    "qsa_select",
    "causal_conv",
    "gdn",
    "repeat_streams",
    "mix_streams",
    "inject_streams",
    "ngram_rows",
    "gather_table",
    "ple_gate",
    "moe_route",
    "moe_experts",
    "shared_expert_add",
    "sample",
};

/// A backend's operations, and something that happens before each of them: what drills and tests make go
/// wrong there. Not in the way of a server without a drill.
class HookedOps : public Ops {
 protected:
  using Stream = gpu::Stream;
  using Status = gpu::Status;
  using Batch = RowBatch;

 public:
  /// An error takes the operation's place.
  using Hook = std::function<Status(Stream&, std::string_view op)>;

  explicit HookedOps(std::unique_ptr<Ops> inner, Hook before = nullptr)
      : before(std::move(before)), inner_(std::move(inner)) {}
  Hook before;

  Status embedding(Stream& s, const Batch& b, const EmbeddingArgs& a) override {
    return pass("embedding", &Ops::embedding, s, b, a);
  }
  Status gather_rows(Stream& s, const GatherRowsArgs& a) override {
    return pass("gather_rows", &Ops::gather_rows, s, a);
  }
  Status add(Stream& s, const AddArgs& a) override { return pass("add", &Ops::add, s, a); }
  Status scaled_silu(Stream& s, const ScaledSiluArgs& a) override {
    return pass("scaled_silu", &Ops::scaled_silu, s, a);
  }
  Status swiglu(Stream& s, const SwigluArgs& a) override { return pass("swiglu", &Ops::swiglu, s, a); }
  Status gemm(Stream& s, const GemmArgs& a) override { return pass("gemm", &Ops::gemm, s, a); }
  Status gemm_group(Stream& s, const GemmGroupArgs& a) override {
    return pass("gemm_group", &Ops::gemm_group, s, a);
  }
  Status rms_norm(Stream& s, const RmsNormArgs& a) override { return pass("rms_norm", &Ops::rms_norm, s, a); }
  Status gated_rms_norm(Stream& s, const GatedRmsNormArgs& a) override {
    return pass("gated_rms_norm", &Ops::gated_rms_norm, s, a);
  }
  Status head_norm_rope(Stream& s, const Batch& b, const HeadNormRopeArgs& a) override {
    return pass("head_norm_rope", &Ops::head_norm_rope, s, b, a);
  }
  Status kv_append(Stream& s, const Batch& b, const KvAppendArgs& a) override {
    return pass("kv_append", &Ops::kv_append, s, b, a);
  }
  Status attention(Stream& s, const Batch& b, const AttentionArgs& a) override {
    return pass("attention", &Ops::attention, s, b, a);
  }
  Status head_gate(Stream& s, const HeadGateArgs& a) override {
    return pass("head_gate", &Ops::head_gate, s, a);
  }
  Status qsa_index_append(Stream& s, const Batch& b, const QsaIndexAppendArgs& a) override {
    return pass("qsa_index_append", &Ops::qsa_index_append, s, b, a);
  }
  Status qsa_select(Stream& s, const Batch& b, const QsaSelectArgs& a) override {
    return pass("qsa_select", &Ops::qsa_select, s, b, a);
  }
  Status causal_conv(Stream& s, const Batch& b, const CausalConvArgs& a) override {
    return pass("causal_conv", &Ops::causal_conv, s, b, a);
  }
  Status gdn(Stream& s, const Batch& b, const GdnArgs& a) override { return pass("gdn", &Ops::gdn, s, b, a); }
  Status repeat_streams(Stream& s, const RepeatStreamsArgs& a) override {
    return pass("repeat_streams", &Ops::repeat_streams, s, a);
  }
  Status mix_streams(Stream& s, const MixStreamsArgs& a) override {
    return pass("mix_streams", &Ops::mix_streams, s, a);
  }
  Status inject_streams(Stream& s, const InjectStreamsArgs& a) override {
    return pass("inject_streams", &Ops::inject_streams, s, a);
  }
  Status ngram_rows(Stream& s, const Batch& b, const NgramRowsArgs& a) override {
    return pass("ngram_rows", &Ops::ngram_rows, s, b, a);
  }
  Status gather_table(Stream& s, const GatherTableArgs& a) override {
    return pass("gather_table", &Ops::gather_table, s, a);
  }
  Status ple_gate(Stream& s, const PleGateArgs& a) override { return pass("ple_gate", &Ops::ple_gate, s, a); }
  Status moe_route(Stream& s, const MoeRouteArgs& a) override {
    return pass("moe_route", &Ops::moe_route, s, a);
  }
  Status moe_experts(Stream& s, const MoeExpertsArgs& a) override {
    return pass("moe_experts", &Ops::moe_experts, s, a);
  }
  Status shared_expert_add(Stream& s, const SharedExpertAddArgs& a) override {
    return pass("shared_expert_add", &Ops::shared_expert_add, s, a);
  }
  Status sample(Stream& s, const SampleArgs& a) override { return pass("sample", &Ops::sample, s, a); }

  std::vector<GemmFallbacks> take_fallbacks() override { return inner_->take_fallbacks(); }
  void refuse_products(int count) override { inner_->refuse_products(count); }
  void allow_split_k(bool allowed) override { inner_->allow_split_k(allowed); }
  std::string describe_choice(const GemmArgs& args) override { return inner_->describe_choice(args); }

 private:
  template <class... Parameters, class... Arguments>
  Status pass(std::string_view name, Status (Ops::*op)(Stream&, Parameters...), Stream& stream,
              const Arguments&... arguments) {
    if (before) RETURN_IF_ERROR(before(stream, name));
    return (inner_.get()->*op)(stream, arguments...);
  }
  std::unique_ptr<Ops> inner_;
};

}  // namespace kernels
