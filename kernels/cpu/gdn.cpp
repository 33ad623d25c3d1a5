#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gdn.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/accumulate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// One value head of one segment: where its operands lie, row by row.
struct GdnHead {
  const GdnArgs& args;
  std::int64_t head;
  std::int64_t first_row;
  float* state;  ///< [k_dim, v_dim]

  const float* qkv(std::int64_t t) const { return gpu::typed<float>(args.qkv).row({first_row + t}); }
  std::int64_t key_head() const { return head / (args.num_v_heads / args.num_k_heads); }
  const float* q(std::int64_t t) const { return qkv(t) + key_head() * args.k_dim; }
  const float* k(std::int64_t t) const { return qkv(t) + (args.num_k_heads + key_head()) * args.k_dim; }
  const float* v(std::int64_t t) const {
    return qkv(t) + std::int64_t{2} * args.num_k_heads * args.k_dim + head * args.v_dim;
  }
  float* o(std::int64_t t) const {
    return gpu::typed<float>(args.o).row({first_row + t}) + head * args.v_dim;
  }
  float beta(std::int64_t t) const { return sigmoid1(gpu::typed<float>(args.b).row({first_row + t})[head]); }
  /// Logarithm of the decay; never positive.
  float decay(std::int64_t t) const {
    const float rate = exp1(gpu::typed<float>(args.a_log).base[head]);
    const float a = gpu::typed<float>(args.a).row({first_row + t})[head];
    return -rate * softplus1(a + gpu::typed<float>(args.dt_bias).base[head]);
  }
};

/// to = x / sqrt(sum x^2 + 1e-6) * scale.
HWY_INLINE void normalize(const float* x, std::int64_t n, float scale, float* to) {
  const float factor = rsqrt1(dot(x, x, n) + 1e-6F) * scale;
  for (std::int64_t i = 0; i < n; ++i) to[i] = x[i] * factor;
}

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
  for (int n = 0; n < N; ++n) sums[n] = zero();
  for (std::int64_t i = 0; i < k_dim; ++i) {
    const Lanes16 key = splat(k[i]);
    for (int n = 0; n < N; ++n) {
      float* const s = state + i * v_dim + n * kLanes;
      const Lanes16 decayed = mul(read(s), factor);
      write(decayed, s);
      sums[n] = fma(key, decayed, sums[n]);
    }
  }
  Lanes16 delta[N];
  for (int n = 0; n < N; ++n) {
    delta[n] = mul(splat(beta), sub(read(v + n * kLanes), sums[n]));
    sums[n] = zero();
  }
  for (std::int64_t i = 0; i < k_dim; ++i) {
    const Lanes16 key = splat(k[i]), query = splat(q[i]);
    for (int n = 0; n < N; ++n) {
      float* const s = state + i * v_dim + n * kLanes;
      const Lanes16 updated = fma(key, delta[n], read(s));
      write(updated, s);
      sums[n] = fma(query, updated, sums[n]);
    }
  }
  for (int n = 0; n < N; ++n) write(sums[n], o + n * kLanes);
}

/// Working memory of one worker.
struct GdnScratch {
  std::vector<float> q, k;     ///< [kGdnChunk, k_dim] normalised
  std::vector<float> k_t;      ///< [k_dim, kGdnChunk]
  std::vector<float> weights;  ///< [kGdnChunk, kGdnChunk]
  std::vector<float> values;   ///< [kGdnChunk, v_dim] what enters the state
  std::vector<const float*> state_rows, key_rows, value_rows;
  std::array<float, kGdnChunk> beta,
      decayed;  ///< decayed: G_t, the logarithm of the decay since the chunk's start

  void resize(std::int64_t k_dim, std::int64_t v_dim) {
    q.resize(static_cast<std::size_t>(kGdnChunk * k_dim));
    k.resize(static_cast<std::size_t>(kGdnChunk * k_dim));
    k_t.resize(static_cast<std::size_t>(kGdnChunk * k_dim));
    weights.resize(std::size_t{kGdnChunk} * kGdnChunk);
    values.resize(static_cast<std::size_t>(kGdnChunk * v_dim));
    state_rows.resize(static_cast<std::size_t>(k_dim));
    key_rows.resize(static_cast<std::size_t>(k_dim));
    value_rows.resize(kGdnChunk);
  }
};

GdnScratch& gdn_scratch() {
  static thread_local GdnScratch scratch;
  return scratch;
}

/// Form decode: `num_rows` single steps.
void gdn_steps(const GdnHead& h, std::int64_t num_rows) {
  const std::int64_t k_dim = h.args.k_dim, v_dim = h.args.v_dim;
  GdnScratch& scratch = gdn_scratch();
  scratch.resize(k_dim, v_dim);
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

/// weights[t][i] = factor_t * (row_t . k_i) * exp(G_t - G_i) for i <= t. The exponent is never positive
/// there; beyond, nothing is read.
template <class Factor>
HWY_INLINE void weigh_pairs(GdnScratch& s, const float* rows, std::int64_t num_rows, std::int64_t k_dim,
                            const Factor& factor) {
  float* const weights = s.weights.data();
  std::fill_n(weights, num_rows * kGdnChunk, 0.0F);
  accumulate({weights, kGdnChunk, rows, k_dim, s.key_rows.data(), gpu::round_up(num_rows, kLanes)}, num_rows,
             [&](std::int64_t) { return k_dim; });
  for (std::int64_t t = 0; t < num_rows; ++t) {
    const Lanes16 scale = splat(factor(t)), since_start = splat(s.decayed[static_cast<std::size_t>(t)]);
    for (std::int64_t i = 0; i <= t; i += kLanes) {
      float* const w = weights + t * kGdnChunk + i;
      const Lanes16 between = min(sub(since_start, load(s.decayed.data() + i)), zero());
      store(mul(mul(load(w), scale), exp(between)), w);
    }
  }
}

/// Form prefill: rows [first, first + num_rows), a chunk or the beginning of one. No row's value, and no term
/// of the state, is added in an order that depends on num_rows.
void gdn_chunk(const GdnHead& h, std::int64_t first, std::int64_t num_rows) {
  const std::int64_t k_dim = h.args.k_dim, v_dim = h.args.v_dim;
  GdnScratch& s = gdn_scratch();
  s.resize(k_dim, v_dim);
  s.decayed.fill(0.0F);
  float since_start = 0.0F;
  std::fill(s.k_t.begin(), s.k_t.end(), 0.0F);
  for (std::int64_t t = 0; t < num_rows; ++t) {
    normalize(h.q(first + t), k_dim, rsqrt1(static_cast<float>(k_dim)), s.q.data() + t * k_dim);
    normalize(h.k(first + t), k_dim, 1.0F, s.k.data() + t * k_dim);
    for (std::int64_t i = 0; i < k_dim; ++i)
      s.k_t[static_cast<std::size_t>(i * kGdnChunk + t)] = s.k[static_cast<std::size_t>(t * k_dim + i)];
    since_start += h.decay(first + t);
    s.beta[static_cast<std::size_t>(t)] = h.beta(first + t);
    s.decayed[static_cast<std::size_t>(t)] = since_start;
    s.value_rows[static_cast<std::size_t>(t)] = s.values.data() + t * v_dim;
  }
  for (std::int64_t i = 0; i < k_dim; ++i) {
    s.state_rows[static_cast<std::size_t>(i)] = h.state + i * v_dim;
    s.key_rows[static_cast<std::size_t>(i)] = s.k_t.data() + i * kGdnChunk;
  }
  const auto whole = [&](std::int64_t) { return k_dim; };

  // values = (I + A)^-1 diag(beta) (V - diag(exp G) K S), by forward substitution.
  float* const values = s.values.data();
  std::fill_n(values, num_rows * v_dim, 0.0F);
  accumulate({values, v_dim, s.k.data(), k_dim, s.state_rows.data(), v_dim}, num_rows, whole);
  for (std::int64_t t = 0; t < num_rows; ++t) {
    const float decay = exp1(s.decayed[static_cast<std::size_t>(t)]),
                beta = s.beta[static_cast<std::size_t>(t)];
    const float* const v = h.v(first + t);
    for (std::int64_t i = 0; i < v_dim; ++i)
      values[t * v_dim + i] = beta * (v[i] - decay * values[t * v_dim + i]);
  }
  weigh_pairs(s, s.k.data(), num_rows, k_dim,
              [&](std::int64_t t) { return -s.beta[static_cast<std::size_t>(t)]; });
  accumulate({values, v_dim, s.weights.data(), kGdnChunk, s.value_rows.data(), v_dim}, num_rows,
             [](std::int64_t t) { return t; });

  // o = diag(exp G) Q S + (Q K^T * exp(G_t - G_i), lower with diagonal) values.
  const std::int64_t o_pitch = h.args.o.pitch.n;
  float* const o = h.o(first);
  for (std::int64_t t = 0; t < num_rows; ++t) std::fill_n(o + t * o_pitch, v_dim, 0.0F);
  accumulate({o, o_pitch, s.q.data(), k_dim, s.state_rows.data(), v_dim}, num_rows, whole);
  for (std::int64_t t = 0; t < num_rows; ++t) {
    const float decay = exp1(s.decayed[static_cast<std::size_t>(t)]);
    for (std::int64_t i = 0; i < v_dim; ++i) o[t * o_pitch + i] *= decay;
  }
  weigh_pairs(s, s.q.data(), num_rows, k_dim, [](std::int64_t) { return 1.0F; });
  accumulate({o, o_pitch, s.weights.data(), kGdnChunk, s.value_rows.data(), v_dim}, num_rows,
             [](std::int64_t t) { return t + 1; });

  // S = exp(G_last) S + sum_i exp(G_last - G_i) k_i values_i^T.
  const float decay = exp1(since_start);
  for (std::int64_t i = 0; i < k_dim * v_dim; ++i) h.state[i] *= decay;
  for (std::int64_t t = 0; t < num_rows; ++t) {
    const float factor = exp1(std::min(since_start - s.decayed[static_cast<std::size_t>(t)], 0.0F));
    for (std::int64_t i = 0; i < k_dim; ++i) s.k_t[static_cast<std::size_t>(i * kGdnChunk + t)] *= factor;
  }
  accumulate({h.state, v_dim, s.k_t.data(), kGdnChunk, s.value_rows.data(), v_dim}, k_dim,
             [&](std::int64_t) { return num_rows; });
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
