#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/head_gate.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

gpu::Status head_gate_impl(gpu::HostStream& stream, const HeadGateArgs& args) {
  const MatrixView<float> y = gpu::typed<float>(args.y);
  const MatrixView<const float> gate = gpu::typed<float>(args.gate);
  const std::int64_t n = args.head_dim;
  const double cost = 0.5 * static_cast<double>(args.num_heads * n);
  return parallel_ranges(stream, "head_gate", y.rows.n, cost,
                         [&](std::int64_t first, std::int64_t last) HWY_ATTR {
                           for (std::int64_t r = first; r < last; ++r) {
                             for (std::int32_t h = 0; h < args.num_heads; ++h) {
                               float* const to = y.row({r}) + std::int64_t{h} * n;
                               const float* const from = gate.row({r}) + std::int64_t{h} * args.gate_stride;
                               std::int64_t i = 0;
                               for (; i + kLanes <= n; i += kLanes)
                                 store(mul(load(to + i), sigmoid(load(from + i))), to + i);
                               for (; i < n; ++i) to[i] *= sigmoid1(from[i]);
                             }
                           }
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {

HWY_EXPORT(head_gate_impl);

gpu::Status head_gate(gpu::HostStream& stream, const HeadGateArgs& args) {
  return HWY_DYNAMIC_DISPATCH(head_gate_impl)(stream, args);
}

}  // namespace kernels::cpu
#endif
