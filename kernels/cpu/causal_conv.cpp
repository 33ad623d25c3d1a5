#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/causal_conv.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Channels that one worker carries through a segment.
constexpr std::int64_t kChannels = 256;

/// Working memory of one worker: the weights of its channels tap by tap, and the inputs before the segment.
struct ConvScratch {
  std::vector<const float*> inputs;  ///< of one row, tap by tap
  std::vector<float> weights;        ///< [taps, kChannels]
  std::vector<float> history;        ///< [(taps-1)*dilation, kChannels], oldest first
};

/// y = act(sum_j w_j * x_j), taps ascending.
HWY_INLINE void convolve(const float* const* inputs, const float* weights, std::int64_t taps,
                         std::int64_t channels, ConvActivation activation, float* y) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    const std::int64_t n = std::min(kLanes, channels - c);
    Lanes16 acc = zero();
    for (std::int64_t j = 0; j < taps; ++j) {
      const Lanes16 x = n == kLanes ? load(inputs[j] + c) : load_first(inputs[j] + c, n);
      acc = fma(load(weights + j * kChannels + c), x, acc);
    }
    if (activation == ConvActivation::silu) acc = silu(acc);
    if (n == kLanes) {
      store(acc, y + c);
    } else {
      store_first(acc, y + c, n);
    }
  }
}

/// Channels [first_channel, first_channel + channels) of one segment.
void convolve_segment(const RowBatch& batch, const CausalConvArgs& args, std::int64_t segment,
                      std::int64_t first_channel, std::int64_t channels) {
  const MatrixView<float> y = gpu::typed<float>(args.y);
  const MatrixView<const float> x = gpu::typed<float>(args.x);
  const MatrixView<const float> w = gpu::typed<float>(args.w);
  const MatrixView<float> ring = gpu::typed<float>(args.ring);
  const std::int64_t first_row = batch.segment_first_row.base[segment];
  const std::int64_t num_rows = batch.segment_num_rows.base[segment];
  const std::int64_t first_position = batch.row_position.base[first_row];
  const std::int64_t slot = batch.segment_slot.base[segment];
  const auto ring_row = [&](std::int64_t position) {
    return ring.row({slot * args.ring_rows + position % args.ring_rows}) + first_channel;
  };

  static thread_local ConvScratch scratch;
  scratch.weights.resize(static_cast<std::size_t>(args.taps * kChannels));
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* const of_channel = w.row({first_channel + c});
    for (std::int64_t j = 0; j < args.taps; ++j) scratch.weights.data()[j * kChannels + c] = of_channel[j];
  }
  // A copy, because the ring is written below. Positions before the sequence are zero, whatever the ring
  // holds.
  const std::int64_t reach = std::int64_t{args.taps - 1} * args.dilation;
  scratch.history.assign(static_cast<std::size_t>(reach * kChannels), 0.0F);
  for (std::int64_t back = 1; back <= std::min(reach, first_position); ++back) {
    std::copy_n(ring_row(first_position - back), channels,
                scratch.history.data() + (reach - back) * kChannels);
  }
  scratch.inputs.resize(static_cast<std::size_t>(args.taps));
  const float** const inputs = scratch.inputs.data();
  for (std::int64_t t = 0; t < num_rows; ++t) {
    for (std::int64_t j = 0; j < args.taps; ++j) {
      const std::int64_t from = t - (args.taps - 1 - j) * args.dilation;
      inputs[j] = from >= 0 ? x.row({first_row + from}) + first_channel
                            : scratch.history.data() + (reach + from) * kChannels;
    }
    convolve(inputs, scratch.weights.data(), args.taps, channels, args.activation,
             y.row({first_row + t}) + first_channel);
  }
  for (std::int64_t t = std::max<std::int64_t>(0, num_rows - args.ring_rows); t < num_rows; ++t) {
    std::copy_n(x.row({first_row + t}) + first_channel, channels, ring_row(first_position + t));
  }
}

gpu::Status causal_conv_impl(gpu::HostStream& stream, const RowBatch& batch, const CausalConvArgs& args) {
  const std::int64_t channels = args.x.cols.n;
  const std::int64_t blocks = gpu::ceil_div(channels, kChannels);
  const double cost = 0.3 * kChannels * (2.0 + batch.max_segment_rows) * args.taps;
  return parallel_ranges(stream, "causal_conv", batch.num_segments * blocks, cost,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t unit = first; unit < last; ++unit) {
                             const std::int64_t first_channel = unit % blocks * kChannels;
                             convolve_segment(batch, args, unit / blocks, first_channel,
                                              std::min(kChannels, channels - first_channel));
                           }
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {

HWY_EXPORT(causal_conv_impl);

gpu::Status causal_conv(gpu::HostStream& stream, const RowBatch& batch, const CausalConvArgs& args) {
  return HWY_DYNAMIC_DISPATCH(causal_conv_impl)(stream, batch, args);
}

}  // namespace kernels::cpu
#endif
