#pragma once

#include <memory>

#include "gpu/cuda/cuda_stream.h"
#include "kernels/backend_module.h"
#include "kernels/ops.h"

/// The CUDA backend's operations. Arguments were checked (check_args.h); each enqueues on the context's
/// stream.
namespace kernels::cuda {

class BlasLt;  // blas_lt.h

/// What an op may use beside its arguments.
struct Context {
  gpu::CudaStream& stream;
  BlasLt& blas;
  /// f32 scratch between the launches of one op; what it holds never decides a bit. Empty but for
  /// `attention`.
  gpu::VectorView<float> partials = {};
};

gpu::Status embedding(Context&, const RowBatch&, const EmbeddingArgs&);
gpu::Status gather_rows(Context&, const GatherRowsArgs&);
gpu::Status add(Context&, const AddArgs&);
gpu::Status scaled_silu(Context&, const ScaledSiluArgs&);
gpu::Status swiglu(Context&, const SwigluArgs&);
gpu::Status gemm(Context&, const GemmArgs&);
gpu::Status gemm_group(Context&, const GemmGroupArgs&);
gpu::Status rms_norm(Context&, const RmsNormArgs&);
gpu::Status gated_rms_norm(Context&, const GatedRmsNormArgs&);
gpu::Status head_norm_rope(Context&, const RowBatch&, const HeadNormRopeArgs&);
gpu::Status kv_append(Context&, const RowBatch&, const KvAppendArgs&);
gpu::Status attention(Context&, const RowBatch&, const AttentionArgs&);
gpu::Status head_gate(Context&, const HeadGateArgs&);
gpu::Status qsa_index_append(Context&, const RowBatch&, const QsaIndexAppendArgs&);
gpu::Status qsa_select(Context&, const RowBatch&, const QsaSelectArgs&);
gpu::Status causal_conv(Context&, const RowBatch&, const CausalConvArgs&);
gpu::Status gdn(Context&, const RowBatch&, const GdnArgs&);
gpu::Status repeat_streams(Context&, const RepeatStreamsArgs&);
gpu::Status mix_streams(Context&, const MixStreamsArgs&);
gpu::Status inject_streams(Context&, const InjectStreamsArgs&);
gpu::Status ngram_rows(Context&, const RowBatch&, const NgramRowsArgs&);
gpu::Status gather_table(Context&, const GatherTableArgs&);
gpu::Status ple_gate(Context&, const PleGateArgs&);
gpu::Status moe_route(Context&, const MoeRouteArgs&);
gpu::Status moe_experts(Context&, const MoeExpertsArgs&);
gpu::Status shared_expert_add(Context&, const SharedExpertAddArgs&);
gpu::Status sample(Context&, const SampleArgs&);

gpu::Result<std::unique_ptr<Ops>, gpu::DeviceError> make_cuda_ops(gpu::Device& device, BackendLog warn);

}  // namespace kernels::cuda
