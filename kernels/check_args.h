#pragma once

#include <optional>

#include "gpu/error.h"
#include "kernels/ops.h"

/// What every backend checks before it launches anything. None: the arguments hold. Otherwise refused, naming
/// op, operand and numbers. Pure; O(1) per call except where a contract says that values are checked.
namespace kernels {

using Refusal = std::optional<gpu::DeviceError>;

Refusal check_args(const RowBatch&, const EmbeddingArgs&);
Refusal check_args(const GatherRowsArgs&);
Refusal check_args(const AddArgs&);
Refusal check_args(const ScaledSiluArgs&);
Refusal check_args(const SwigluArgs&);
Refusal check_args(const GemmArgs&);
Refusal check_args(const GemmGroupArgs&);
Refusal check_args(const RmsNormArgs&);
Refusal check_args(const GatedRmsNormArgs&);
Refusal check_args(const RowBatch&, const HeadNormRopeArgs&);
Refusal check_args(const RowBatch&, const KvAppendArgs&);
Refusal check_args(const RowBatch&, const AttentionArgs&);
Refusal check_args(const HeadGateArgs&);
Refusal check_args(const RowBatch&, const QsaIndexAppendArgs&);
Refusal check_args(const RowBatch&, const QsaSelectArgs&);
Refusal check_args(const RowBatch&, const CausalConvArgs&);
Refusal check_args(const RowBatch&, const GdnArgs&);
Refusal check_args(const RepeatStreamsArgs&);
Refusal check_args(const MixStreamsArgs&);
Refusal check_args(const InjectStreamsArgs&);
Refusal check_args(const RowBatch&, const NgramRowsArgs&);
Refusal check_args(const GatherTableArgs&);
Refusal check_args(const PleGateArgs&);
Refusal check_args(const MoeRouteArgs&);
Refusal check_args(const MoeExpertsArgs&);
Refusal check_args(const SharedExpertAddArgs&);
Refusal check_args(const SampleArgs&);

}  // namespace kernels
