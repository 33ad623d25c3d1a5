#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// 1 / sqrt(mean(x^2) + eps).
HWY_INLINE float inverse_rms(const float* x, std::int64_t n, float eps) {
  return rsqrt1(sum_of_squares(x, n) / static_cast<float>(n) + eps);
}

/// y = (x * scale) * w, or (x * scale) * (1 + w).
HWY_INLINE void scale_by_weight(const float* x, float scale, const float* w, NormWeight kind, float* y,
                                std::int64_t n) {
  const Lanes16 s = splat(scale);
  if (kind == NormWeight::plain) {
    for_lanes(n, [&](auto at, std::int64_t i)
                     HWY_ATTR { at.store(mul(mul(at.load(x + i), s), at.load(w + i)), y + i); });
  } else {
    const Lanes16 one = splat(1.0F);
    for_lanes(n, [&](auto at, std::int64_t i)
                     HWY_ATTR { at.store(mul(mul(at.load(x + i), s), add(one, at.load(w + i))), y + i); });
  }
}

gpu::Status rms_norm_impl(gpu::HostStream& stream, const RmsNormArgs& args) {
  const auto x = gpu::typed<float>(args.x);
  const auto y = gpu::typed<float>(args.y);
  const float* w = gpu::typed<float>(args.w).base;
  const std::int64_t group = args.group.n;
  const std::int64_t w_step =
      args.w.size == args.group ? 0 : group;  // one weight for all groups, or one a column
  const std::int64_t num_groups = x.cols.n / group;
  return parallel_ranges(stream, "rms_norm", x.rows.n, static_cast<double>(x.cols.n) * 0.3,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             for (std::int64_t g = 0; g < num_groups; ++g) {
                               const float* from = x.row(Rows{r}) + g * group;
                               scale_by_weight(from, inverse_rms(from, group, args.eps), w + g * w_step,
                                               args.weight, y.row(Rows{r}) + g * group, group);
                             }
                           }
                         });
}

gpu::Status gated_rms_norm_impl(gpu::HostStream& stream, const GatedRmsNormArgs& args) {
  const auto x = gpu::typed<float>(args.x);
  const auto z = gpu::typed<float>(args.z);
  const auto y = gpu::typed<float>(args.y);
  const float* w = gpu::typed<float>(args.w).base;
  const std::int64_t group = args.group.n;
  return parallel_ranges(stream, "gated_rms_norm", x.rows.n, static_cast<double>(x.cols.n),
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             for (std::int64_t column = 0; column < x.cols.n; column += group) {
                               const float* from = x.row(Rows{r}) + column;
                               const float* gate = z.row(Rows{r}) + column;
                               float* to = y.row(Rows{r}) + column;
                               const Lanes16 scale = splat(inverse_rms(from, group, args.eps));
                               const auto normed = [&](auto at, std::int64_t i) HWY_ATTR {
                                 return mul(mul(at.load(from + i), scale), at.load(w + i));
                               };
                               if (args.activation == GateActivation::sigmoid) {
                                 for_lanes(group, [&](auto at, std::int64_t i) HWY_ATTR {
                                   at.store(mul(normed(at, i), sigmoid(at.load(gate + i))), to + i);
                                 });
                               } else {
                                 for_lanes(group, [&](auto at, std::int64_t i) HWY_ATTR {
                                   at.store(mul(normed(at, i), silu(at.load(gate + i))), to + i);
                                 });
                               }
                             }
                           }
                         });
}

/// Rotates pairs (i, i + half) of each head of a row in place, 128 pairs at a time so that the angles of all
/// heads are made once.
void rotate_row(float* row, std::int64_t num_heads, std::int64_t head_dim, const Rope& rope,
                std::int32_t position) {
  constexpr std::int64_t kPairs = 128;
  alignas(64) float cosine[kPairs];
  alignas(64) float sine[kPairs];
  const std::int64_t half = rope.inv_freq.size.n;
  for (std::int64_t first = 0; first < half; first += kPairs) {
    const std::int64_t n = std::min(kPairs, half - first);
    for (std::int64_t i = 0; i < n; ++i) {
      const float angle = static_cast<float>(position) * rope.inv_freq.base[first + i];
      cosine[i] = std::cos(angle) * rope.attention_factor;
      sine[i] = std::sin(angle) * rope.attention_factor;
    }
    for (std::int64_t h = 0; h < num_heads; ++h) {
      float* low = row + h * head_dim + first;
      float* high = low + half;
      for_lanes(n, [&](auto at, std::int64_t i) HWY_ATTR {
        const Lanes16 a = at.load(low + i), b = at.load(high + i);
        const Lanes16 c = at.load(cosine + i), s = at.load(sine + i);
        at.store(sub(mul(a, c), mul(b, s)), low + i);
        at.store(add(mul(b, c), mul(a, s)), high + i);
      });
    }
  }
}

gpu::Status head_norm_rope_impl(gpu::HostStream& stream, const RowBatch& batch,
                                const HeadNormRopeArgs& args) {
  const auto x = gpu::typed<float>(args.x);
  const auto y = gpu::typed<float>(args.y);
  const float* w = args.w.empty() ? nullptr : gpu::typed<float>(args.w).base;
  const double cost =
      static_cast<double>(y.cols.n) * 0.5 + static_cast<double>(args.rope.inv_freq.size.n) * 20.0;
  return parallel_ranges(
      stream, "head_norm_rope", batch.num_rows.n, cost, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
          for (std::int64_t h = 0; h < args.num_heads; ++h) {
            const float* from = x.row(Rows{r}) + h * args.head_stride;
            float* to = y.row(Rows{r}) + h * args.head_dim;
            if (w != nullptr) {
              scale_by_weight(from, inverse_rms(from, args.head_dim, args.eps), w, args.weight, to,
                              args.head_dim);
            } else if (to != from) {
              std::memcpy(to, from, static_cast<std::size_t>(args.head_dim) * sizeof(float));
            }
          }
          rotate_row(y.row(Rows{r}), args.num_heads, args.head_dim, args.rope, batch.row_position.base[r]);
        }
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
HWY_EXPORT(rms_norm_impl);
HWY_EXPORT(gated_rms_norm_impl);
HWY_EXPORT(head_norm_rope_impl);

gpu::Status rms_norm(gpu::HostStream& stream, const RmsNormArgs& args) {
  return HWY_DYNAMIC_DISPATCH(rms_norm_impl)(stream, args);
}
gpu::Status gated_rms_norm(gpu::HostStream& stream, const GatedRmsNormArgs& args) {
  return HWY_DYNAMIC_DISPATCH(gated_rms_norm_impl)(stream, args);
}
gpu::Status head_norm_rope(gpu::HostStream& stream, const RowBatch& batch, const HeadNormRopeArgs& args) {
  return HWY_DYNAMIC_DISPATCH(head_norm_rope_impl)(stream, batch, args);
}

}  // namespace kernels::cpu
#endif
