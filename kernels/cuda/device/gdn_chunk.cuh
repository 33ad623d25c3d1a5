#pragma once

#include "kernels/cuda/device/faults.cuh"
#include "kernels/cuda/device/gdn.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/recurrent.h"

/// One chunk of the gated delta net for one value head and some of its columns, by a block of 256 threads
/// with fp32 in shared memory. Every element is one chain of fused multiply-adds in ascending order, as on
/// the CPU; no element's order depends on the rows of the chunk, and no row reads a later one.
///
/// Flops of a chunk and value head of 128 x 128: 2.1 M for the products of keys and queries with keys (1.6 M
/// are done: two of eight warps have nothing below the diagonal), made again by each of the four column
/// blocks; 4.2 M for S^T k and S^T q, 2.1 M for the state, 0.5 M each for the substitution and the outputs:
/// 13.6 M where 8.4 M are needed. 48 heads make 0.65 G a chunk, 11 us at 60 Tflop/s; 192 blocks on 132
/// multiprocessors are uneven, so expect 20: 1.3 ms for 4096 rows of a layer. Bytes are no matter: 128 KB of
/// q, k, v and o a chunk and head, most of it from the L2 cache.
///
/// What would close the gap: the five products on the tensor cores, in bf16 with fp32 sums where the form's
/// tolerance allows, else each operand split into bf16 terms (three products, still four times fp32); then
/// the substitution and the loads are left, which the next chunk's loads under this one's products would
/// hide. Scratch memory for the weights, made once a head and in parallel for all chunks, saves 35 % alone.
namespace kernels::cuda {

inline constexpr int kChunkThreads = 256;
inline constexpr int kChunkColumns = 32;
inline constexpr int kWeightPitch = kGdnChunk + 4;

/// Dynamic shared memory of a block. Rows of q and k are four floats longer than k_dim: eight rows that a
/// warp reads 16 bytes each lie in different banks.
struct ChunkMemory {
  float* q;        ///< [64, k_pitch] normalised
  float* k;        ///< [64, k_pitch] normalised; scaled by `until` once the weights are made
  float* s;        ///< [k_dim, 32] state
  float* weights;  ///< [64, kWeightPitch] first A, then those of the outputs
  float* values;   ///< [64, 32] what enters the state
  float* since;    ///< [64] G_t: logarithm of the decay since the chunk's start, row t included
  float* grown;    ///< [64] exp(G_t)
  float* until;    ///< [64] exp(G_last - G_t)
  float* beta;     ///< [64]
  int k_pitch;

  __device__ explicit ChunkMemory(int k_dim) : k_pitch(k_dim + 4) {
    q = reinterpret_cast<float*>(dynamic_shared());
    k = q + kGdnChunk * k_pitch;
    s = k + kGdnChunk * k_pitch;
    weights = s + k_dim * kChunkColumns;
    values = weights + kGdnChunk * kWeightPitch;
    since = values + kGdnChunk * kChunkColumns;
    grown = since + kGdnChunk;
    until = grown + kGdnChunk;
    beta = until + kGdnChunk;
  }
  /// 110,592 at k_dim 128: two blocks a multiprocessor. 192,512 at 256.
  static std::int64_t bytes(std::int64_t k_dim) {
    return static_cast<std::int64_t>(sizeof(float)) * (2 * kGdnChunk * (k_dim + 4) + k_dim * kChunkColumns +
                                                       kGdnChunk * (kWeightPitch + kChunkColumns + 4));
  }
};

template <class T, bool kWide>
class GdnChunk {
 public:
  __device__ GdnChunk(const Gdn<T>& g, int head, int first_column)
      : g_(g),
        m_(g.k_dim),
        head_(head),
        first_column_(first_column),
        rate_(g.rate(head)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        lane_row_(lane_ / 8),
        lane_column_(lane_ % 8) {}

  __device__ void load_state(const float* state) const {
    each_state_four([&](int key, int column) {
      float four[4] = {};
      if (first_column_ + column < g_.v_dim) {
        load_16(state + std::int64_t{key} * g_.v_dim + first_column_ + column, four);
      }
      store_16(m_.s + key * kChunkColumns + column, four);
    });
  }
  __device__ void store_state(float* state) const {
    each_state_four([&](int key, int column) {
      float four[4];
      load_16(m_.s + key * kChunkColumns + column, four);
      if (first_column_ + column < g_.v_dim) {
        store_16(state + std::int64_t{key} * g_.v_dim + first_column_ + column, four);
      }
    });
  }

  /// Rows [first, first + num_rows) of the operands; rows up to 64 act as zeros that decay nothing.
  __device__ void run(std::int64_t first, int num_rows) const {
    float v[2][4] = {};  // asked for early
    for (int i = 0; i < 2; ++i) {
      const int t = own_row(i);
      if (t < num_rows && own_column() < g_.v_dim)
        load_four<kWide>(g_.v(first + t, head_) + own_column(), v[i]);
    }
    load_rows(first, num_rows);
    __syncthreads();
    float pairs[4][4], o[2][4];
    weigh_pairs(pairs);
    multiply_state(v, o);
    __syncthreads();
    solve();
    place_output_weights(pairs);
    scale_keys();
    __syncthreads();
    write_outputs(first, num_rows, o);
    update_state(num_rows);
    __syncthreads();
  }

 private:
  /// The two rows and four columns of [64, 32] that a thread computes.
  __device__ int own_row(int i) const { return 8 * warp_ + 4 * i + lane_row_; }
  __device__ int own_column() const { return first_column_ + 4 * lane_column_; }
  /// The four rows and columns of [64, 64]: a warp has 16 rows and 32 columns of it.
  __device__ int pair_row(int i) const { return warp_ / 2 * 16 + 4 * i + lane_row_; }
  __device__ int pair_column(int j) const { return warp_ % 2 * 32 + 8 * j + lane_column_; }
  __device__ bool has_pairs() const { return warp_ % 2 * 32 < warp_ / 2 * 16 + 16; }

  template <class F>
  __device__ void each_state_four(const F& f) const {
    for (int i = static_cast<int>(threadIdx.x); i < g_.k_dim * (kChunkColumns / 4); i += kChunkThreads) {
      f(i / (kChunkColumns / 4), i % (kChunkColumns / 4) * 4);
    }
  }

  /// Normalised queries and keys, a warp a row; decays and betas by the first warp.
  __device__ void load_rows(std::int64_t first, int num_rows) const {
    if (warp_ == 0) load_gates(first, num_rows);
    const float q_scale = 1.0F / sqrtf(static_cast<float>(g_.k_dim));
    const int key = lane_ * kPiece;
#pragma unroll 2
    for (int t = warp_; t < kGdnChunk; t += kChunkThreads / 32) {
      float q[kPiece] = {}, k[kPiece] = {};
      if (t < num_rows && key < g_.k_dim) {
        load_piece<kWide>(g_.q(first + t, head_) + key, kPiece, q);
        load_piece<kWide>(g_.k(first + t, head_) + key, kPiece, k);
      }
      place_unit(q, q_scale, m_.q + t * m_.k_pitch);
      place_unit(k, 1.0F, m_.k + t * m_.k_pitch);
    }
  }
  __device__ void place_unit(float (&x)[kPiece], float scale, float* row) const {
    float squares = 0.0F;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) squares = fmaf(x[i], x[i], squares);
    const float factor = to_unit(warp_sum(squares)) * scale;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) x[i] *= factor;
    if (lane_ * kPiece < g_.k_dim) store_piece<true>(row + lane_ * kPiece, kPiece, x);
  }
  __device__ void load_gates(std::int64_t first, int num_rows) const {
#pragma unroll
    for (int t = lane_; t < kGdnChunk; t += 32) {
      m_.since[t] = t < num_rows ? g_.log_decay(first + t, head_, rate_) : 0.0F;
      m_.beta[t] = t < num_rows ? g_.beta(first + t, head_) : 0.0F;
    }
    __syncwarp();
    if (lane_ == 0) {
      float since_start = 0.0F;
#pragma unroll 16
      for (int t = 0; t < kGdnChunk; ++t) m_.since[t] = since_start += m_.since[t];
    }
    __syncwarp();
    const float last = m_.since[kGdnChunk - 1];
#pragma unroll
    for (int t = lane_; t < kGdnChunk; t += 32) {
      m_.grown[t] = expf(m_.since[t]);
      m_.until[t] = expf(fminf(last - m_.since[t], 0.0F));
    }
  }

  /// weights[t][i] = -beta_t (k_t . k_i) exp(G_t - G_i) for i < t, and pairs, those of the outputs,
  /// (q_t . k_i) exp(G_t - G_i) for i <= t. Exponents are never positive.
  __device__ void weigh_pairs(float (&pairs)[4][4]) const {
    if (!has_pairs()) return;
    float of_keys[4][4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) pairs[i][j] = 0.0F;
    }
    for (int key = 0; key < g_.k_dim; key += 4) {
      float columns[4][4];
#pragma unroll
      for (int j = 0; j < 4; ++j) load_16(m_.k + pair_column(j) * m_.k_pitch + key, columns[j]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float k[4], q[4];
        load_16(m_.k + pair_row(i) * m_.k_pitch + key, k);
        load_16(m_.q + pair_row(i) * m_.k_pitch + key, q);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            of_keys[i][j] = fmaf(k[e], columns[j][e], of_keys[i][j]);
            pairs[i][j] = fmaf(q[e], columns[j][e], pairs[i][j]);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int t = pair_row(i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float decay = expf(fminf(m_.since[t] - m_.since[pair_column(j)], 0.0F));
        m_.weights[t * kWeightPitch + pair_column(j)] = of_keys[i][j] * -m_.beta[t] * decay;
        pairs[i][j] *= decay;
      }
    }
  }

  /// values = beta (v - exp(G_t) S^T k_t), o = exp(G_t) S^T q_t.
  __device__ void multiply_state(const float (&v)[2][4], float (&o)[2][4]) const {
    float of_keys[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) o[i][c] = 0.0F;
    }
#pragma unroll 2
    for (int key = 0; key < g_.k_dim; key += 4) {
      float s[4][4];
#pragma unroll
      for (int e = 0; e < 4; ++e) load_16(m_.s + (key + e) * kChunkColumns + 4 * lane_column_, s[e]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float k[4], q[4];
        load_16(m_.k + own_row(i) * m_.k_pitch + key, k);
        load_16(m_.q + own_row(i) * m_.k_pitch + key, q);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            of_keys[i][c] = fmaf(k[e], s[e][c], of_keys[i][c]);
            o[i][c] = fmaf(q[e], s[e][c], o[i][c]);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int t = own_row(i);
      const float decay = m_.grown[t], beta = m_.beta[t];
      float values[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        values[c] = beta * (v[i][c] - decay * of_keys[i][c]);
        o[i][c] *= decay;
      }
      store_16(m_.values + t * kChunkColumns + 4 * lane_column_, values);
    }
  }

  /// values = (I + A)^-1 values by forward substitution in bands of sixteen rows: all warps add what earlier
  /// bands give, one warp solves within the band, a lane a column. Ends with a barrier.
  __device__ void solve() const {
    constexpr int kBand = 16;
    for (int band = 0; band < kGdnChunk; band += kBand) {
      if (band > 0) {
        const int t = band + 2 * warp_;
        float sums[2] = {m_.values[t * kChunkColumns + lane_], m_.values[(t + 1) * kChunkColumns + lane_]};
#pragma unroll 4
        for (int i = 0; i < band; i += 4) {
          float w[2][4];
          load_16(m_.weights + t * kWeightPitch + i, w[0]);
          load_16(m_.weights + (t + 1) * kWeightPitch + i, w[1]);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float value = m_.values[(i + e) * kChunkColumns + lane_];
            sums[0] = fmaf(w[0][e], value, sums[0]);
            sums[1] = fmaf(w[1][e], value, sums[1]);
          }
        }
        m_.values[t * kChunkColumns + lane_] = sums[0];
        m_.values[(t + 1) * kChunkColumns + lane_] = sums[1];
        __syncthreads();
      }
      if (warp_ == 0) {
        float x[kBand];
#pragma unroll
        for (int t = 0; t < kBand; ++t) {
          x[t] = m_.values[(band + t) * kChunkColumns + lane_];
          float w[kBand];
#pragma unroll
          for (int i = 0; i < t; i += 4) {
            float four[4];
            load_16(m_.weights + (band + t) * kWeightPitch + band + i, four);
#pragma unroll
            for (int e = 0; e < 4; ++e) w[i + e] = four[e];
          }
#pragma unroll
          for (int i = 0; i < t; ++i) x[t] = fmaf(w[i], x[i], x[t]);
        }
#pragma unroll
        for (int t = 0; t < kBand; ++t) m_.values[(band + t) * kChunkColumns + lane_] = x[t];
      }
      __syncthreads();
    }
  }

  __device__ void place_output_weights(const float (&pairs)[4][4]) const {
    if (!has_pairs()) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) m_.weights[pair_row(i) * kWeightPitch + pair_column(j)] = pairs[i][j];
    }
  }
  __device__ void scale_keys() const {
    const int fours = g_.k_dim / 4;
    for (int i = static_cast<int>(threadIdx.x); i < kGdnChunk * fours; i += kChunkThreads) {
      const int t = i / fours;
      float* const place = m_.k + t * m_.k_pitch + i % fours * 4;
      float four[4];
      load_16(place, four);
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] *= m_.until[t];
      store_16(place, four);
    }
  }

  /// o_t += sum_{i<=t} weights[t][i] values_i.
  __device__ void write_outputs(std::int64_t first, int num_rows, float (&o)[2][4]) const {
    const int rows_before = 8 * warp_;  // those of the warp need a look
    for (int i = 0; i < rows_before + 8; i += 4) {
      float values[4][4];
#pragma unroll
      for (int e = 0; e < 4; ++e) load_16(m_.values + (i + e) * kChunkColumns + 4 * lane_column_, values[e]);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float w[4];
        load_16(m_.weights + own_row(n) * kWeightPitch + i, w);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (i >= rows_before && i + e > own_row(n)) continue;
#pragma unroll
          for (int c = 0; c < 4; ++c) o[n][c] = fmaf(w[e], values[e][c], o[n][c]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int t = own_row(n);
      if (t >= num_rows || own_column() >= g_.v_dim) continue;
      store_four<kWide>(g_.o.row(Rows{first + t}) + head_ * g_.v_dim + own_column(), o[n]);
    }
  }

  /// S = exp(G_last) S + sum_i exp(G_last - G_i) k_i values_i^T: four keys and four columns a thread.
  __device__ void update_state(int num_rows) const {
    const float decay = m_.grown[kGdnChunk - 1];
    for (int key = 4 * (4 * warp_ + lane_row_); key < g_.k_dim; key += kChunkThreads / 2) {
      float* const place = m_.s + key * kChunkColumns + 4 * lane_column_;
      float s[4][4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        load_16(place + e * kChunkColumns, s[e]);
#pragma unroll
        for (int c = 0; c < 4; ++c) s[e][c] *= decay;
      }
#pragma unroll 4
      for (int t = 0; t < num_rows; ++t) {
        float k[4], values[4];
        load_16(m_.k + t * m_.k_pitch + key, k);
        load_16(m_.values + t * kChunkColumns + 4 * lane_column_, values);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
          for (int c = 0; c < 4; ++c) s[e][c] = fmaf(k[e], values[c], s[e][c]);
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) store_16(place + e * kChunkColumns, s[e]);
    }
  }

  const Gdn<T>& g_;
  ChunkMemory m_;
  int head_, first_column_;
  float rate_;
  int warp_, lane_, lane_row_, lane_column_;
};

}  // namespace kernels::cuda
