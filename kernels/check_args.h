#pragma once

#include <optional>

#include "gpu/error.h"
#include "kernels/ops.h"

/// What every backend checks before it launches anything. None: the arguments hold. Otherwise refused, naming
/// op, operand and numbers. Pure; O(1) per call except where a contract says that values are checked.
namespace kernels {

using Refusal = std::optional<gpu::DeviceError>;

/// What a backend computes activations in. The activations of one call are of one type, but for a product's
/// y.
enum class Activations : std::uint8_t { f32, f32_or_bf16 };

Refusal check_args(const RowBatch&, const EmbeddingArgs&, Activations = Activations::f32);
Refusal check_args(const GatherRowsArgs&, Activations = Activations::f32);
Refusal check_args(const AddArgs&, Activations = Activations::f32);
Refusal check_args(const ScaledSiluArgs&, Activations = Activations::f32);
Refusal check_args(const SwigluArgs&, Activations = Activations::f32);
Refusal check_args(const GemmArgs&, Activations = Activations::f32);
Refusal check_args(const GemmGroupArgs&, Activations = Activations::f32);
Refusal check_args(const RmsNormArgs&, Activations = Activations::f32);
Refusal check_args(const GatedRmsNormArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const HeadNormRopeArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const KvAppendArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const AttentionArgs&, Activations = Activations::f32);
Refusal check_args(const HeadGateArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const QsaIndexAppendArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const QsaSelectArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const CausalConvArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const GdnArgs&, Activations = Activations::f32);
Refusal check_args(const RepeatStreamsArgs&, Activations = Activations::f32);
Refusal check_args(const MixStreamsArgs&, Activations = Activations::f32);
Refusal check_args(const InjectStreamsArgs&, Activations = Activations::f32);
Refusal check_args(const RowBatch&, const NgramRowsArgs&, Activations = Activations::f32);
Refusal check_args(const GatherTableArgs&, Activations = Activations::f32);
Refusal check_args(const PleGateArgs&, Activations = Activations::f32);
Refusal check_args(const MoeRouteArgs&, Activations = Activations::f32);
Refusal check_args(const MoeExpertsArgs&, Activations = Activations::f32);
Refusal check_args(const SharedExpertAddArgs&, Activations = Activations::f32);
Refusal check_args(const SampleArgs&, Activations = Activations::f32);

}  // namespace kernels
