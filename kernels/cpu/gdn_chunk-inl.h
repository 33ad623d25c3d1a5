// The chunked form of the gated delta net. Included once per Highway target.

#if defined(KERNELS_CPU_GDN_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KERNELS_CPU_GDN_CHUNK_INL_H_
#undef KERNELS_CPU_GDN_CHUNK_INL_H_
#else
#define KERNELS_CPU_GDN_CHUNK_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "kernels/cpu/accumulate-inl.h"
#include "kernels/recurrent.h"

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
  std::int64_t key_head() const {
    return args.value_heads == ValueHeads::tiled ? head % args.num_k_heads
                                                 : head / (args.num_v_heads / args.num_k_heads);
  }
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
    const float stored = gpu::typed<float>(args.a_log).base[head];
    const float rate = args.decay == GdnDecay::negative_rate ? -stored : exp1(stored);
    const float a = gpu::typed<float>(args.a).row({first_row + t})[head];
    return -rate * softplus1(a + gpu::typed<float>(args.dt_bias).base[head]);
  }
};

/// to = x / sqrt(sum x^2 + 1e-6) * scale.
HWY_INLINE void normalize(const float* x, std::int64_t n, float scale, float* to) {
  const float factor = rsqrt1(dot(x, x, n) + 1e-6F) * scale;
  for (std::int64_t i = 0; i < n; ++i) to[i] = x[i] * factor;
}

/// Working memory of one worker. Rows are those of one chunk.
struct GdnScratch {
  std::vector<float> q, k;     ///< [kGdnChunk, k_dim] normalised
  std::vector<float> k_t;      ///< [k_dim, kGdnChunk]
  std::vector<float> weights;  ///< [kGdnChunk, kGdnChunk]
  std::vector<float> values;   ///< [kGdnChunk, v_dim] what enters the state
  std::vector<const float*> state_rows, key_rows, value_rows;
  float beta[kGdnChunk];
  float decayed[kGdnChunk];  ///< G_t: logarithm of the decay since the chunk's start, row t included

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

GdnScratch& gdn_scratch(const GdnArgs& args) {
  static thread_local GdnScratch scratch;
  scratch.resize(args.k_dim, args.v_dim);
  return scratch;
}

/// Rows [first, first + num_rows) of a head: a chunk, or the beginning of one. No row's value, and no term of
/// the state, is added in an order that depends on num_rows.
struct GdnChunk {
  const GdnHead& h;
  std::int64_t first, num_rows;
  GdnScratch& s;
  std::int64_t k_dim = h.args.k_dim, v_dim = h.args.v_dim;

  float decay(std::int64_t t) const { return exp1(s.decayed[t]); }
  float* values(std::int64_t t) const { return s.values.data() + t * v_dim; }
};

/// Fills the scratch with what the products below read.
void prepare(const GdnChunk& c) {
  GdnScratch& s = c.s;
  float since_start = 0.0F;
  for (std::int64_t t = 0; t < c.num_rows; ++t) {
    normalize(c.h.q(c.first + t), c.k_dim, rsqrt1(static_cast<float>(c.k_dim)), s.q.data() + t * c.k_dim);
    normalize(c.h.k(c.first + t), c.k_dim, 1.0F, s.k.data() + t * c.k_dim);
    since_start += c.h.decay(c.first + t);
    s.decayed[t] = since_start;
    s.beta[t] = c.h.beta(c.first + t);
    s.value_rows[static_cast<std::size_t>(t)] = c.values(t);
  }
  const std::int64_t padded = gpu::round_up(c.num_rows, kLanes);
  std::fill(s.decayed + c.num_rows, s.decayed + padded, since_start);
  for (std::int64_t i = 0; i < c.k_dim; ++i) {
    float* const key_row = s.k_t.data() + i * kGdnChunk;
    for (std::int64_t t = 0; t < c.num_rows; ++t) key_row[t] = s.k.data()[t * c.k_dim + i];
    std::fill(key_row + c.num_rows, key_row + padded, 0.0F);
    s.key_rows[static_cast<std::size_t>(i)] = key_row;
    s.state_rows[static_cast<std::size_t>(i)] = c.h.state + i * c.v_dim;
  }
}

/// weights[t][i] = factor(t) * (rows[t] . k_i) * exp(G_t - G_i) for i <= t, where the exponent is never
/// positive. Beyond the diagonal they mean nothing.
template <class Factor>
HWY_INLINE void weigh_pairs(const GdnChunk& c, const float* rows, const Factor& factor) {
  float* const weights = c.s.weights.data();
  std::fill_n(weights, c.num_rows * kGdnChunk, 0.0F);
  for (std::int64_t band = 0; band < c.num_rows;
       band += kLanes) {  // sixteen rows end left of column band + 16
    accumulate({weights + band * kGdnChunk, kGdnChunk, rows + band * c.k_dim, c.k_dim, c.s.key_rows.data(),
                band + kLanes},
               std::min(kLanes, c.num_rows - band), [&](std::int64_t) { return c.k_dim; });
  }
  for (std::int64_t t = 0; t < c.num_rows; ++t) {
    const Lanes16 scale = splat(factor(t)), since_start = splat(c.s.decayed[t]);
    for (std::int64_t i = 0; i <= t; i += kLanes) {
      float* const w = weights + t * kGdnChunk + i;
      const Lanes16 between = min(sub(since_start, load(c.s.decayed + i)), zero());
      store(mul(mul(load(w), scale), exp(between)), w);
    }
  }
}

/// values = (I + A)^-1 diag(beta) (V - diag(exp G) K S), A[t][i] = beta_t (k_t . k_i) exp(G_t - G_i) for i <
/// t: forward substitution.
void correct_values(const GdnChunk& c) {
  float* const values = c.s.values.data();
  std::fill_n(values, c.num_rows * c.v_dim, 0.0F);
  accumulate({values, c.v_dim, c.s.k.data(), c.k_dim, c.s.state_rows.data(), c.v_dim}, c.num_rows,
             [&](std::int64_t) { return c.k_dim; });
  for (std::int64_t t = 0; t < c.num_rows; ++t) {
    const float decay = c.decay(t), beta = c.s.beta[t];
    const float* const v = c.h.v(c.first + t);
    float* const value = c.values(t);
    for (std::int64_t i = 0; i < c.v_dim; ++i) value[i] = beta * (v[i] - decay * value[i]);
  }
  weigh_pairs(c, c.s.k.data(), [&](std::int64_t t) { return -c.s.beta[t]; });
  accumulate({values, c.v_dim, c.s.weights.data(), kGdnChunk, c.s.value_rows.data(), c.v_dim}, c.num_rows,
             [](std::int64_t t) { return t; });
}

/// o_t = exp(G_t) S^T q_t + sum_{i<=t} (q_t . k_i) exp(G_t - G_i) values_i.
void write_outputs(const GdnChunk& c) {
  const std::int64_t pitch = c.h.args.o.pitch.n;
  float* const o = c.h.o(c.first);
  for (std::int64_t t = 0; t < c.num_rows; ++t) std::fill_n(o + t * pitch, c.v_dim, 0.0F);
  accumulate({o, pitch, c.s.q.data(), c.k_dim, c.s.state_rows.data(), c.v_dim}, c.num_rows,
             [&](std::int64_t) { return c.k_dim; });
  for (std::int64_t t = 0; t < c.num_rows; ++t) {
    const float decay = c.decay(t);
    for (std::int64_t i = 0; i < c.v_dim; ++i) o[t * pitch + i] *= decay;
  }
  weigh_pairs(c, c.s.q.data(), [](std::int64_t) { return 1.0F; });
  accumulate({o, pitch, c.s.weights.data(), kGdnChunk, c.s.value_rows.data(), c.v_dim}, c.num_rows,
             [](std::int64_t t) { return t + 1; });
}

/// S = exp(G_last) S + sum_i exp(G_last - G_i) k_i values_i^T. Scales the transposed keys in place.
void update_state(const GdnChunk& c) {
  const float last = c.s.decayed[c.num_rows - 1], decay = exp1(last);
  for (std::int64_t i = 0; i < c.k_dim * c.v_dim; ++i) c.h.state[i] *= decay;
  float since[kGdnChunk];
  for (std::int64_t t = 0; t < c.num_rows; ++t) since[t] = exp1(std::min(last - c.s.decayed[t], 0.0F));
  for (std::int64_t i = 0; i < c.k_dim; ++i) {
    float* const key_row = c.s.k_t.data() + i * kGdnChunk;
    for (std::int64_t t = 0; t < c.num_rows; ++t) key_row[t] *= since[t];
  }
  accumulate({c.h.state, c.v_dim, c.s.k_t.data(), kGdnChunk, c.s.value_rows.data(), c.v_dim}, c.k_dim,
             [&](std::int64_t) { return c.num_rows; });
}

/// Form prefill.
void gdn_chunk(const GdnHead& h, std::int64_t first, std::int64_t num_rows) {
  const GdnChunk chunk{h, first, num_rows, gdn_scratch(h.args)};
  prepare(chunk);
  correct_values(chunk);
  write_outputs(chunk);
  update_state(chunk);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
