#pragma once

#include "gpu/stream.h"
#include "kernels/ops.h"

/// The CPU backend's operations as free functions, one source file per header of contracts. Arguments were
/// checked before.
namespace kernels::cpu {

gpu::Status embedding(gpu::HostStream&, const RowBatch&, const EmbeddingArgs&);
gpu::Status gather_rows(gpu::HostStream&, const GatherRowsArgs&);
gpu::Status add(gpu::HostStream&, const AddArgs&);
gpu::Status scaled_silu(gpu::HostStream&, const ScaledSiluArgs&);
gpu::Status swiglu(gpu::HostStream&, const SwigluArgs&);
gpu::Status gemm(gpu::HostStream&, const GemmArgs&);
gpu::Status gemm_group(gpu::HostStream&, const GemmGroupArgs&);
gpu::Status rms_norm(gpu::HostStream&, const RmsNormArgs&);
gpu::Status gated_rms_norm(gpu::HostStream&, const GatedRmsNormArgs&);
gpu::Status head_norm_rope(gpu::HostStream&, const RowBatch&, const HeadNormRopeArgs&);
gpu::Status kv_append(gpu::HostStream&, const RowBatch&, const KvAppendArgs&);
gpu::Status attention(gpu::HostStream&, const RowBatch&, const AttentionArgs&);
gpu::Status head_gate(gpu::HostStream&, const HeadGateArgs&);
gpu::Status qsa_index_append(gpu::HostStream&, const RowBatch&, const QsaIndexAppendArgs&);
gpu::Status qsa_select(gpu::HostStream&, const RowBatch&, const QsaSelectArgs&);
gpu::Status causal_conv(gpu::HostStream&, const RowBatch&, const CausalConvArgs&);
gpu::Status gdn(gpu::HostStream&, const RowBatch&, const GdnArgs&);
gpu::Status repeat_streams(gpu::HostStream&, const RepeatStreamsArgs&);
gpu::Status mix_streams(gpu::HostStream&, const MixStreamsArgs&);
gpu::Status inject_streams(gpu::HostStream&, const InjectStreamsArgs&);
gpu::Status ngram_rows(gpu::HostStream&, const RowBatch&, const NgramRowsArgs&);
gpu::Status gather_table(gpu::HostStream&, const GatherTableArgs&);
gpu::Status ple_gate(gpu::HostStream&, const PleGateArgs&);
gpu::Status moe_route(gpu::HostStream&, const MoeRouteArgs&);
gpu::Status moe_experts(gpu::HostStream&, const MoeExpertsArgs&);
gpu::Status shared_expert_add(gpu::HostStream&, const SharedExpertAddArgs&);
gpu::Status sample(gpu::HostStream&, const SampleArgs&);

}  // namespace kernels::cpu
