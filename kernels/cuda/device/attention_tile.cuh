#pragma once

#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/shared_rows.cuh"
#include "kernels/page_rows.h"

/// One tile of attention: kTile list entries against the queries of a run of rows and one kv head. Whatever
/// walks tiles (a thread block down a list, or one thread block a tile) uses these steps, so a row's value is
/// made of the same operations in the same order.
namespace kernels::cuda {

/// List entries per tile. A tile's largest score, sum and weighted values are made of the tile alone and
/// joined in ascending order: this number is part of the reduction order.
inline constexpr int kTile = 64;
/// Eight warps: of the scores each makes eight entries' columns, of the values an eighth of the head.
inline constexpr int kTileThreads = 256;
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kScorePitch = kTile + 8;
inline constexpr int kMaxHeadDim = 256;

struct Softmax {
  float largest;
  float sum;
};
inline constexpr float kLowest = -INFINITY;

/// What the values gathered before and a tile's own are multiplied with when they are joined.
struct Factors {
  float before, now;
};
struct Joined {
  Softmax all;
  Factors factors;
};
__device__ inline Joined join(const Softmax& all, const Softmax& tile) {
  const float largest = fmaxf(all.largest, tile.largest);
  const float before = expf(all.largest - largest), now = expf(tile.largest - largest);
  return {{largest, fmaf(all.sum, before, tile.sum * now)}, {before, now}};
}
__device__ inline float join_value(float all, float of_tile, const Factors& factors) {
  return fmaf(all, factors.before, of_tile * factors.now);
}

template <class T>
struct AttentionRows {
  MatrixView<T> o;
  MatrixView<const T> q, keys, values;
  const std::int32_t* slot;
  const std::int32_t* position;
  PageTables pages;
  Selection selection;
  std::int64_t num_rows;
  std::int32_t num_heads, group, head_dim, rows_per_block;
  float scale;
  bool wide;

  __device__ PositionList list(std::int64_t row) const { return {selection, row, position[row]}; }
};

/// Consecutive rows of one slot whose lists are prefixes of the last row's (identity lists), or one row; and
/// the heads that share a kv head. Entries behind a row's own list weigh exactly 0 in it; since 0 * inf is
/// NaN, a value of a later position that is not finite does show in the earlier rows of its own sequence and
/// run.
struct Run {
  std::int64_t first_row;
  int num_rows, group;
  std::int32_t kv_head;
  std::int32_t slot;
  PositionList list;  ///< of the last row

  __device__ int num_queries() const { return num_rows * group; }
  __device__ std::int64_t row_of(int m) const { return first_row + m / group; }
  __device__ std::int64_t column_of(int m, int head_dim) const {
    return (std::int64_t{kv_head} * group + m % group) * head_dim;
  }
  /// Of the tile at `start`, the entries on the list of query m.
  __device__ int entries(int m, std::int32_t start) const {
    if (m >= num_queries()) return 0;
    return min(max(list.size() - (num_rows - 1 - m / group) - start, 0), kTile);
  }
  __device__ int num_tiles() const { return (list.size() + kTile - 1) / kTile; }
};

/// Shared memory of a thread block: for head_dim 256 in bf16 82 KB with 16 queries (two blocks an SM), 128 KB
/// with 64; in f32 157 KB with 16.
template <class T>
struct TileMemory {
  T *q, *keys, *values, *weights;
  float* scores;             ///< [queries, kTile]
  std::int64_t* cache_rows;  ///< [2][kTile] of this tile and the next; -1 beyond the list
  Softmax* all;              ///< [queries]
  Factors* factors;          ///< [queries]

  static std::int64_t bytes(std::int64_t queries, int head_dim) {
    return (queries + 2 * kTile) * shared_pitch<T>(head_dim) * static_cast<std::int64_t>(sizeof(T)) +
           queries * kScorePitch * static_cast<std::int64_t>(sizeof(T) + 4) +
           queries * static_cast<std::int64_t>(sizeof(Softmax) + sizeof(Factors)) + 2 * kTile * 8;
  }
  __device__ TileMemory(unsigned char* base, int queries, int head_dim) {
    const int pitch = shared_pitch<T>(head_dim);
    q = reinterpret_cast<T*>(base);
    keys = q + queries * pitch;
    values = keys + kTile * pitch;
    weights = values + kTile * pitch;
    scores = reinterpret_cast<float*>(weights + queries * kScorePitch);
    cache_rows = reinterpret_cast<std::int64_t*>(scores + queries * kScorePitch);
    all = reinterpret_cast<Softmax*>(cache_rows + 2 * kTile);
    factors = reinterpret_cast<Factors*>(all + queries);
  }
};

/// Where the entries of tile `index` lie. By the first kTile threads; for others after a barrier.
template <class T>
__device__ void find_entries(const AttentionRows<T>& a, const Run& run, int index, std::int64_t* cache_rows) {
  if (threadIdx.x >= kTile) return;
  const std::int32_t entry = index * kTile + static_cast<std::int32_t>(threadIdx.x);
  cache_rows[index % 2 * kTile + static_cast<int>(threadIdx.x)] =
      entry < run.list.size() ? page_row(a.pages, run.slot, run.list.position(entry)) : -1;
}

template <class T>
__device__ void fetch_queries(const AttentionRows<T>& a, const Run& run, int num_rows, T* q) {
  fetch_rows<kTileThreads>(q, num_rows, a.head_dim, a.wide, a.q.base, [&](int m) -> const T* {
    if (m >= run.num_queries()) return nullptr;
    return a.q.row(Rows{run.row_of(m)}) + run.column_of(m, a.head_dim);
  });
}
/// One tile of keys or of values; entries beyond the list are zeros and never read from the cache.
template <class T>
__device__ void fetch_entries(const AttentionRows<T>& a, const Run& run, const MatrixView<const T>& cache,
                              const std::int64_t* cache_rows, T* to) {
  fetch_rows<kTileThreads>(to, kTile, a.head_dim, a.wide, cache.base, [&](int i) -> const T* {
    if (cache_rows[i] < 0) return nullptr;
    return cache.row(Rows{cache_rows[i]}) + std::int64_t{run.kv_head} * a.head_dim;
  });
}

/// scores = q keys^T of `tiles` times 16 queries.
template <class T>
__device__ void score_tile(const TileMemory<T>& m, int tiles, int head_dim) {
  const int pitch = shared_pitch<T>(head_dim), entry = static_cast<int>(threadIdx.x) / 32 * 8;
  for (int tile = 0; tile < tiles; ++tile) {
    float d[4] = {};
    multiply_rows(d, m.q + tile * 16 * pitch, pitch, m.keys + entry * pitch, pitch, padded_columns(head_dim));
    store_product(m.scores + tile * 16 * kScorePitch + entry, kScorePitch, d);
  }
}

/// Scores become weights exp(scale * score - largest of the tile), rounded to T, in which they are multiplied
/// and summed; entries off a query's list weigh exactly nothing. done(query, softmax, entries) by one lane.
template <class T, class Done>
__device__ void weigh_tile(const TileMemory<T>& m, const Run& run, int num_queries, std::int32_t start,
                           float scale, const Done& done) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int query = static_cast<int>(threadIdx.x) / 32; query < num_queries; query += kTileWarps) {
    const int entries = run.entries(query, start);
    float s[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int entry = lane + 32 * i;
      s[i] = entry < entries ? m.scores[query * kScorePitch + entry] * scale : kLowest;
    }
    const float largest = warp_max(fmaxf(s[0], s[1]));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int entry = lane + 32 * i;
      const T weight = from_float<T>(entry < entries ? expf(s[i] - largest) : 0.0F);
      m.weights[query * kScorePitch + entry] = weight;
      s[i] = to_float(weight);
    }
    const float sum = warp_sum(s[0] + s[1]);
    if (lane == 0) done(query, Softmax{largest, sum}, entries);
  }
}

/// First of the kColumns * 8 columns of a head that this warp makes.
template <int kColumns>
__device__ int first_column() {
  return static_cast<int>(threadIdx.x) / 32 * kColumns * 8;
}

/// d = weights values, for kQueries * 16 queries and this warp's columns; entries in ascending order. Tiles
/// of queries from `tiles` on are left alone.
template <int kQueries, int kColumns>
__device__ void weighted_values(float (&d)[kQueries][kColumns][4], const TileMemory<gpu::bf16>& m, int tiles,
                                int head_dim) {
  const int pitch = shared_pitch<gpu::bf16>(head_dim), lane = static_cast<int>(threadIdx.x) % 32;
  const int column = first_column<kColumns>();
#pragma unroll
  for (int entry = 0; entry < kTile; entry += 32) {
    std::uint32_t right[kColumns][4] = {};
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (column + 8 * c < head_dim)
        load_matrices_transposed(right[c], m.values + (entry + lane) * pitch + column + 8 * c);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int tile = 0; tile < kQueries; ++tile) {
        if (tile >= tiles) continue;
        const gpu::bf16* const top =
            m.weights + (tile * 16 + lane / 4) * kScorePitch + entry + 16 * half + 2 * (lane % 4);
        const gpu::bf16* const bottom = top + 8 * kScorePitch;
        const std::uint32_t left[4] = {pair_at(top), pair_at(bottom), pair_at(top + 8), pair_at(bottom + 8)};
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const std::uint32_t of_half[2] = {right[c][2 * half], right[c][2 * half + 1]};
          if (column + 8 * c < head_dim) mma_bf16(d[tile][c], left, of_half);
        }
      }
    }
  }
}
template <int kQueries, int kColumns>
__device__ void weighted_values(float (&d)[kQueries][kColumns][4], const TileMemory<float>& m, int tiles,
                                int head_dim) {
  const int pitch = shared_pitch<float>(head_dim), lane = static_cast<int>(threadIdx.x) % 32;
  const int column = first_column<kColumns>() + 2 * (lane % 4);
  for (int entry = 0; entry < kTile; ++entry) {
    const float* const right = m.values + entry * pitch + column;
#pragma unroll
    for (int tile = 0; tile < kQueries; ++tile) {
      if (tile >= tiles) continue;
      const float top = m.weights[(tile * 16 + lane / 4) * kScorePitch + entry];
      const float bottom = m.weights[(tile * 16 + lane / 4 + 8) * kScorePitch + entry];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (column + 8 * c >= padded_columns(head_dim)) continue;
        d[tile][c][0] = fmaf(top, right[8 * c], d[tile][c][0]);
        d[tile][c][1] = fmaf(top, right[8 * c + 1], d[tile][c][1]);
        d[tile][c][2] = fmaf(bottom, right[8 * c], d[tile][c][2]);
        d[tile][c][3] = fmaf(bottom, right[8 * c + 1], d[tile][c][3]);
      }
    }
  }
}

/// f(tile, c, i, query, column) for each place of a lane's results that is part of a head.
template <int kQueries, int kColumns, class F>
__device__ void for_results(int num_queries, int head_dim, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int tile = 0; tile < kQueries; ++tile) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = tile * 16 + lane / 4 + i / 2 * 8;
        const int column = first_column<kColumns>() + 8 * c + 2 * (lane % 4) + i % 2;
        if (query < num_queries && column < head_dim) f(tile, c, i, query, column);
      }
    }
  }
}

}  // namespace kernels::cuda
