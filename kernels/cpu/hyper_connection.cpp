#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/hyper_connection.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

gpu::Status mix_streams_impl(gpu::HostStream& stream, const MixStreamsArgs& args) {
  const auto x = gpu::typed<float>(args.x);
  const auto g = gpu::typed<float>(args.g);
  const auto xn = gpu::typed<float>(args.xn);
  const std::int64_t hidden = x.cols.n;
  return parallel_ranges(stream, "mix_streams", x.rows.n, static_cast<double>(g.cols.n) * 0.7,
                         [&](std::int64_t first, std::int64_t last) {
                           const Lanes16 count = splat(static_cast<float>(args.num_streams));
                           for (std::int64_t r = first; r < last; ++r) {
                             const float* gate = g.row(Rows{r});
                             const float* value = xn.row(Rows{r});
                             float* to = x.row(Rows{r});
                             for_lanes(hidden, [&](auto at, std::int64_t i) HWY_ATTR {
                               Lanes16 acc = zero();
                               for (std::int64_t s = 0; s < args.num_streams; ++s) {
                                 acc = fma(sigmoid(at.load(gate + s * hidden + i)),
                                           at.load(value + s * hidden + i), acc);
                               }
                               at.store(div(acc, count), to + i);
                             });
                           }
                         });
}

gpu::Status inject_streams_impl(gpu::HostStream& stream, const InjectStreamsArgs& args) {
  const auto h = gpu::typed<float>(args.h);
  const auto y = gpu::typed<float>(args.y);
  const auto inject = gpu::typed<float>(args.inject);
  const std::int64_t hidden = y.cols.n;
  return parallel_ranges(stream, "inject_streams", y.rows.n, static_cast<double>(h.cols.n) * 0.2,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             for (std::int64_t s = 0; s < args.num_streams; ++s) {
                               const float weight = 2.0F * sigmoid1(inject.row(Rows{r})[s] /
                                                                    static_cast<float>(args.num_streams));
                               add_scaled(weight, y.row(Rows{r}), h.row(Rows{r}) + s * hidden, hidden);
                             }
                           }
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
HWY_EXPORT(mix_streams_impl);
HWY_EXPORT(inject_streams_impl);

gpu::Status repeat_streams(gpu::HostStream& stream, const RepeatStreamsArgs& args) {
  const auto h = gpu::typed<float>(args.h);
  const auto x = gpu::typed<float>(args.x);
  return parallel_ranges(stream, "repeat_streams", x.rows.n, static_cast<double>(h.cols.n) * 0.2,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             for (std::int64_t s = 0; s < args.num_streams; ++s) {
                               std::memcpy(h.row(Rows{r}) + s * x.cols.n, x.row(Rows{r}),
                                           static_cast<std::size_t>(x.cols.n) * sizeof(float));
                             }
                           }
                         });
}
gpu::Status mix_streams(gpu::HostStream& stream, const MixStreamsArgs& args) {
  return HWY_DYNAMIC_DISPATCH(mix_streams_impl)(stream, args);
}
gpu::Status inject_streams(gpu::HostStream& stream, const InjectStreamsArgs& args) {
  return HWY_DYNAMIC_DISPATCH(inject_streams_impl)(stream, args);
}

}  // namespace kernels::cpu
#endif
