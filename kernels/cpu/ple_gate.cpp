#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ple_gate.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// The magnitude is clamped before the square root, so it is 0 or at least 1e-3.
inline float signed_root(float score) {
  if (score == 0.0F) return 0.0F;
  return std::copysign(std::sqrt(std::max(std::abs(score), 1e-6F)), score);
}

gpu::Status ple_gate_impl(gpu::HostStream& stream, const PleGateArgs& args) {
  const MatrixView<float> gv = gpu::typed<float>(args.gv);
  const MatrixView<const float> key = gpu::typed<float>(args.key);
  const MatrixView<const float> query = gpu::typed<float>(args.query);
  const MatrixView<const float> value = gpu::typed<float>(args.value);
  const std::int64_t hidden = value.cols.n;
  const float scale = 1.0F / std::sqrt(static_cast<float>(hidden));
  const double cost = 0.3 * static_cast<double>(hidden * args.num_streams);
  return parallel_ranges(
      stream, "ple_gate", gv.rows.n, cost, [&](std::int64_t first, std::int64_t last) HWY_ATTR {
        for (std::int64_t r = first; r < last; ++r) {
          for (std::int64_t j = 0; j < args.num_streams; ++j) {
            const float score = dot(key.row({r}) + j * hidden, query.row({r}) + j * hidden, hidden) * scale;
            const float gate = sigmoid1(signed_root(score));
            float* const to = gv.row({r}) + j * hidden;
            for (std::int64_t i = 0; i < hidden; ++i) to[i] = gate * value.row({r})[i];
          }
        }
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {

HWY_EXPORT(ple_gate_impl);

gpu::Status ple_gate(gpu::HostStream& stream, const PleGateArgs& args) {
  return HWY_DYNAMIC_DISPATCH(ple_gate_impl)(stream, args);
}

}  // namespace kernels::cpu
#endif
