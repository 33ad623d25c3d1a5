#include "kernels/cuda/cuda_ops.h"

/// An operation without a source of its own is refused by name, so that the module loads without it: a real
/// definition comes before a weak one.
namespace kernels::cuda {

__attribute__((weak)) gpu::Status embedding(Context&, const RowBatch&, const EmbeddingArgs&) {
  return gpu::refused("embedding: not in this backend");
}
__attribute__((weak)) gpu::Status gather_rows(Context&, const GatherRowsArgs&) {
  return gpu::refused("gather_rows: not in this backend");
}
__attribute__((weak)) gpu::Status add(Context&, const AddArgs&) {
  return gpu::refused("add: not in this backend");
}
__attribute__((weak)) gpu::Status scaled_silu(Context&, const ScaledSiluArgs&) {
  return gpu::refused("scaled_silu: not in this backend");
}
__attribute__((weak)) gpu::Status swiglu(Context&, const SwigluArgs&) {
  return gpu::refused("swiglu: not in this backend");
}
__attribute__((weak)) gpu::Status gemm(Context&, const GemmArgs&) {
  return gpu::refused("gemm: not in this backend");
}
__attribute__((weak)) gpu::Status gemm_group(Context&, const GemmGroupArgs&) {
  return gpu::refused("gemm_group: not in this backend");
}
__attribute__((weak)) gpu::Status rms_norm(Context&, const RmsNormArgs&) {
  return gpu::refused("rms_norm: not in this backend");
}
__attribute__((weak)) gpu::Status gated_rms_norm(Context&, const GatedRmsNormArgs&) {
  return gpu::refused("gated_rms_norm: not in this backend");
}
__attribute__((weak)) gpu::Status head_norm_rope(Context&, const RowBatch&, const HeadNormRopeArgs&) {
  return gpu::refused("head_norm_rope: not in this backend");
}
__attribute__((weak)) gpu::Status kv_append(Context&, const RowBatch&, const KvAppendArgs&) {
  return gpu::refused("kv_append: not in this backend");
}
__attribute__((weak)) gpu::Status attention(Context&, const RowBatch&, const AttentionArgs&) {
  return gpu::refused("attention: not in this backend");
}
__attribute__((weak)) gpu::Status head_gate(Context&, const HeadGateArgs&) {
  return gpu::refused("head_gate: not in this backend");
}
__attribute__((weak)) gpu::Status qsa_index_append(Context&, const RowBatch&, const QsaIndexAppendArgs&) {
  return gpu::refused("qsa_index_append: not in this backend");
}
__attribute__((weak)) gpu::Status qsa_select(Context&, const RowBatch&, const QsaSelectArgs&) {
  return gpu::refused("qsa_select: not in this backend");
}
__attribute__((weak)) gpu::Status causal_conv(Context&, const RowBatch&, const CausalConvArgs&) {
  return gpu::refused("causal_conv: not in this backend");
}
__attribute__((weak)) gpu::Status gdn(Context&, const RowBatch&, const GdnArgs&) {
  return gpu::refused("gdn: not in this backend");
}
__attribute__((weak)) gpu::Status repeat_streams(Context&, const RepeatStreamsArgs&) {
  return gpu::refused("repeat_streams: not in this backend");
}
__attribute__((weak)) gpu::Status mix_streams(Context&, const MixStreamsArgs&) {
  return gpu::refused("mix_streams: not in this backend");
}
__attribute__((weak)) gpu::Status inject_streams(Context&, const InjectStreamsArgs&) {
  return gpu::refused("inject_streams: not in this backend");
}
__attribute__((weak)) gpu::Status ngram_rows(Context&, const RowBatch&, const NgramRowsArgs&) {
  return gpu::refused("ngram_rows: not in this backend");
}
__attribute__((weak)) gpu::Status gather_table(Context&, const GatherTableArgs&) {
  return gpu::refused("gather_table: not in this backend");
}
__attribute__((weak)) gpu::Status ple_gate(Context&, const PleGateArgs&) {
  return gpu::refused("ple_gate: not in this backend");
}
__attribute__((weak)) gpu::Status moe_route(Context&, const MoeRouteArgs&) {
  return gpu::refused("moe_route: not in this backend");
}
__attribute__((weak)) gpu::Status moe_experts(Context&, const MoeExpertsArgs&) {
  return gpu::refused("moe_experts: not in this backend");
}
__attribute__((weak)) gpu::Status shared_expert_add(Context&, const SharedExpertAddArgs&) {
  return gpu::refused("shared_expert_add: not in this backend");
}
__attribute__((weak)) gpu::Status sample(Context&, const SampleArgs&) {
  return gpu::refused("sample: not in this backend");
}

}  // namespace kernels::cuda
