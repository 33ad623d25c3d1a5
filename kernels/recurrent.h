#pragma once

#include "kernels/batch.h"

namespace kernels {

enum class ConvActivation : std::uint8_t { none, silu };

/// Which key head value head h of Hv reads: h / (Hv/Hk) as the reference and safetensors have it, or h % Hk
/// as most GGUF files have it.
enum class ValueHeads : std::uint8_t { grouped, tiled };

/// What `a_log` holds: log(rate) as the reference and safetensors have it, or -rate as GGUF files have it.
enum class GdnDecay : std::uint8_t { log_rate, negative_rate };

/// Depthwise causal convolution with history per slot: y_t[ch] = act( sum_{j<taps} w[ch, j] *
/// x_{t-(taps-1-j)*dilation}[ch] ), positions before 0 count as zero. Inputs before this segment's first row
/// come from the ring: column of position p at ring row slot*ring_rows + p % ring_rows. Afterwards the
/// segment's last ring_rows inputs are in the ring (a shorter segment replaces only its own). Shapes    x, y:
/// [rows, channels], no overlap; w: f32 [channels, taps]; ring: [num_slots*ring_rows, channels], ring_rows >=
/// (taps-1)*dilation. Both forms give bit-identical values (taps are summed j = 0 … taps-1).       Source  HF
/// causal_conv1d reference; model-spec 2.4, 2.5.
struct CausalConvArgs {
  Matrix y;
  ConstMatrix x;
  ConstMatrix w;
  Matrix ring;
  std::int32_t ring_rows = 0;
  std::int32_t taps = 0;
  std::int32_t dilation = 1;
  ConvActivation activation = ConvActivation::silu;
};

/// Gated delta net. Form prefill: chunks of 64 on the grid (a segment's first position is a multiple of 64;
/// the last chunk may be short); form decode: the recurrent step row by row. model-spec 2.4 gives both; they
/// agree algebraically, and each is bit-identical for every way to cut the rows into calls that its form
/// allows. Shapes    qkv: [rows, 2*Hk*dk + Hv*dv] = q | k | v after convolution and silu; a, b: [rows, Hv];
/// a_log, dt_bias: f32 [Hv];
///           o: [rows, Hv*dv]; state: f32 [num_slots*Hv, dk*dv], row slot*Hv + h holds S[dk][dv].
///           Value head h uses the key head that `value_heads` says. q is L2-normalised and scaled by
///           1/sqrt(dk), k L2-normalised (eps 1e-6 added to the sum of squares).
/// beta = sigmoid(b); g = -rate * softplus(a + dt_bias), rate = exp(a_log) or -a_log as `decay` says.
struct GdnArgs {
  Matrix o;
  ConstMatrix qkv;
  ConstMatrix a, b;
  ConstVector a_log, dt_bias;
  Matrix state;
  std::int32_t num_k_heads = 0, num_v_heads = 0, k_dim = 0, v_dim = 0;
  ValueHeads value_heads = ValueHeads::grouped;
  GdnDecay decay = GdnDecay::log_rate;
};

/// The grid of prefill form: chunk starts are multiples of this from the sequence start.
inline constexpr std::int32_t kGdnChunk = 64;

}  // namespace kernels
