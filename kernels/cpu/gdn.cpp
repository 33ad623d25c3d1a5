#include <algorithm>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gdn.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/gdn_chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// N*16 columns, or the last `width` < 16, of one recurrent step: decay S, m = S^T k, d = beta*(v - m), S +=
/// k d^T, o = S^T q. Sums run over k_dim ascending in every lane, so the width changes nothing.
template <int N, bool kWhole = true>
HWY_INLINE void step_columns(float* state, std::int64_t k_dim, std::int64_t v_dim, const float* q,
                             const float* k, const float* v, float decay, float beta, float* o,
                             std::int64_t width = kLanes) {
  const auto read = [width](const float* p) HWY_ATTR { return kWhole ? load(p) : load_first(p, width); };
  const auto write = [width](Lanes16 x, float* p)
                         HWY_ATTR { kWhole ? store(x, p) : store_first(x, p, width); };
  const Lanes16 factor = splat(decay);
  Lanes16 sums[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) sums[n] = zero();
  for (std::int64_t i = 0; i < k_dim; ++i) {
    const Lanes16 key = splat(k[i]);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float* const s = state + i * v_dim + n * kLanes;
      const Lanes16 decayed = mul(read(s), factor);
      write(decayed, s);
      sums[n] = fma(key, decayed, sums[n]);
    }
  }
  Lanes16 delta[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) {
    delta[n] = mul(splat(beta), sub(read(v + n * kLanes), sums[n]));
    sums[n] = zero();
  }
  for (std::int64_t i = 0; i < k_dim; ++i) {
    const Lanes16 key = splat(k[i]), query = splat(q[i]);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float* const s = state + i * v_dim + n * kLanes;
      const Lanes16 updated = fma(key, delta[n], read(s));
      write(updated, s);
      sums[n] = fma(query, updated, sums[n]);
    }
  }
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) write(sums[n], o + n * kLanes);
}

/// Form decode: `num_rows` single steps.
void gdn_steps(const GdnHead& h, std::int64_t num_rows) {
  const std::int64_t k_dim = h.args.k_dim, v_dim = h.args.v_dim;
  GdnScratch& scratch = gdn_scratch(h.args);
  float* const q = scratch.q.data();
  float* const k = scratch.k.data();
  for (std::int64_t t = 0; t < num_rows; ++t) {
    normalize(h.q(t), k_dim, rsqrt1(static_cast<float>(k_dim)), q);
    normalize(h.k(t), k_dim, 1.0F, k);
    const float decay = exp1(h.decay(t)), beta = h.beta(t);
    std::int64_t n = 0;
    for (; n + 4 * kLanes <= v_dim; n += 4 * kLanes) {
      step_columns<4>(h.state + n, k_dim, v_dim, q, k, h.v(t) + n, decay, beta, h.o(t) + n);
    }
    for (; n + kLanes <= v_dim; n += kLanes) {
      step_columns<1>(h.state + n, k_dim, v_dim, q, k, h.v(t) + n, decay, beta, h.o(t) + n);
    }
    if (n < v_dim) {
      step_columns<1, false>(h.state + n, k_dim, v_dim, q, k, h.v(t) + n, decay, beta, h.o(t) + n, v_dim - n);
    }
  }
}

gpu::Status gdn_impl(gpu::HostStream& stream, const RowBatch& batch, const GdnArgs& args) {
  const MatrixView<float> state = gpu::typed<float>(args.state);
  const double cost = 0.3 * args.k_dim * args.v_dim * std::max(1, batch.max_segment_rows);
  return parallel_ranges(stream, "gdn", std::int64_t{batch.num_segments} * args.num_v_heads, cost,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t unit = first; unit < last; ++unit) {
                             const std::int64_t segment = unit / args.num_v_heads,
                                                head = unit % args.num_v_heads;
                             const std::int64_t slot = batch.segment_slot.base[segment];
                             const std::int64_t num_rows = batch.segment_num_rows.base[segment];
                             const GdnHead h{args, head, batch.segment_first_row.base[segment],
                                             state.row({slot * args.num_v_heads + head})};
                             if (batch.form == Form::decode) {
                               gdn_steps(h, num_rows);
                               continue;
                             }
                             for (std::int64_t t = 0; t < num_rows; t += kGdnChunk) {
                               gdn_chunk(h, t, std::min<std::int64_t>(kGdnChunk, num_rows - t));
                             }
                           }
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {

HWY_EXPORT(gdn_impl);

gpu::Status gdn(gpu::HostStream& stream, const RowBatch& batch, const GdnArgs& args) {
  for (std::int32_t s = 0; batch.form == Form::prefill && s < batch.num_segments; ++s) {
    const std::int32_t position = batch.row_position.base[batch.segment_first_row.base[s]];
    if (position % kGdnChunk == 0) continue;
    return gpu::refused("gdn: segment " + std::to_string(s) + " starts at position " +
                        std::to_string(position) + ", which is not a multiple of " +
                        std::to_string(kGdnChunk));
  }
  return HWY_DYNAMIC_DISPATCH(gdn_impl)(stream, batch, args);
}

}  // namespace kernels::cpu
#endif
