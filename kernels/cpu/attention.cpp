#include "kernels/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/page_rows.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/accumulate-inl.h"
#include "kernels/cpu/dots-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// List entries per tile. A tile's largest score, sum and weighted values are made of the tile alone and then
/// joined in ascending order: this number is part of the reduction order.
constexpr std::int32_t kTile = 64;

/// What one (row, head) has gathered so far.
struct Softmax {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
};

/// Working memory of one worker; grows to the largest run and stays.
struct AttentionScratch {
  std::vector<float> weights;  ///< [queries, kTile]
  std::vector<float> partial;  ///< [queries, head_dim], this tile's
  std::vector<float> total;    ///< [queries, head_dim]
  std::vector<const float*> q_rows;
  std::vector<Softmax> tile;  ///< [queries]
  std::vector<Softmax> all;   ///< [queries]

  void reset(std::int64_t queries, std::int64_t head_dim) {
    weights.resize(static_cast<std::size_t>(queries * kTile));
    partial.resize(static_cast<std::size_t>(queries * head_dim));
    total.assign(static_cast<std::size_t>(queries * head_dim), 0.0F);
    q_rows.resize(static_cast<std::size_t>(queries));
    tile.resize(static_cast<std::size_t>(queries));
    all.assign(static_cast<std::size_t>(queries), {});
  }
};

/// y = y * scale + x * x_scale.
HWY_INLINE void rescale_add(float* y, float scale, const float* x, float x_scale, std::int64_t n) {
  const Lanes16 a = splat(scale), b = splat(x_scale);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(fma(load(y + i), a, mul(load(x + i), b)), y + i);
  if (i == n) return;
  store_first(fma(load_first(y + i, n - i), a, mul(load_first(x + i, n - i), b)), y + i, n - i);
}

/// Scores become weights exp(score - largest of the tile); entries from `count` on weigh nothing.
HWY_INLINE Softmax weigh_tile(float* weights, std::int32_t count, float scale) {
  static_assert(kTile == 4 * kLanes);
  std::fill(weights + count, weights + kTile, -std::numeric_limits<float>::infinity());
  Lanes16 s[4];
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) s[i] = mul(load(weights + 16 * i), splat(scale));
  Softmax tile;
  tile.largest = max_lane(max(max(s[0], s[1]), max(s[2], s[3])));
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    s[i] = exp(sub(s[i], splat(tile.largest)));
    store(s[i], weights + 16 * i);
  }
  tile.sum = sum(add(add(s[0], s[1]), add(s[2], s[3])));
  return tile;
}

/// Joins one tile to those before it.
HWY_INLINE void join_tile(Softmax& all, float* total, const Softmax& tile, const float* partial,
                          std::int64_t head_dim) {
  const float largest = std::max(all.largest, tile.largest);
  const float before = exp1(all.largest - largest), now = exp1(tile.largest - largest);
  all = {largest, all.sum * before + tile.sum * now};
  rescale_add(total, before, partial, now, head_dim);
}

/// Starts fetching a key or value: one head's part of a cache row is too short for a processor to foresee. To
/// the second cache: a tile of keys and one of values fill the first.
HWY_INLINE void ask_for(const float* row, std::int64_t head_dim) {
  for (std::int64_t i = 0; i < head_dim; i += 16) __builtin_prefetch(row + i, 0, 2);
}

/// Rows [first_row, first_row + num_rows) for the heads of one kv head. The rows share a slot and the list of
/// each is a prefix of the last row's: one row, or consecutive identity lists. Keys and values are then
/// fetched once for all.
void attend_run(const RowBatch& batch, const AttentionArgs& args, std::int64_t first_row,
                std::int64_t num_rows, std::int64_t kv_head) {
  const MatrixView<const float> q = gpu::typed<float>(args.q);
  const MatrixView<const float> keys = gpu::typed<float>(args.k_cache);
  const MatrixView<const float> values = gpu::typed<float>(args.v_cache);
  const MatrixView<float> o = gpu::typed<float>(args.o);
  const std::int64_t head_dim = args.head_dim;
  const std::int64_t group = args.num_heads / args.num_kv_heads;
  const std::int64_t queries = num_rows * group;
  const std::int64_t last_row = first_row + num_rows - 1;
  const std::int32_t slot = batch.row_slot.base[last_row];
  const PositionList list(args.selection, last_row, batch.row_position.base[last_row]);
  const auto row_of = [&](std::int64_t m) { return first_row + m / group; };
  const auto column_of = [&](std::int64_t m) { return (kv_head * group + m % group) * head_dim; };

  static thread_local AttentionScratch scratch;
  scratch.reset(queries, head_dim);
  float* const weights = scratch.weights.data();
  float* const partial = scratch.partial.data();
  float* const total = scratch.total.data();
  const float** const q_rows = scratch.q_rows.data();
  for (std::int64_t m = 0; m < queries; ++m) q_rows[m] = q.row({row_of(m)}) + column_of(m);
  Softmax* const tile = scratch.tile.data();
  Softmax* const all = scratch.all.data();
  for (std::int32_t start = 0; start < list.size(); start += kTile) {
    const std::int32_t entries = std::min(kTile, list.size() - start);
    const auto in_tile = [&](std::int64_t m) {
      const auto shorter = static_cast<std::int32_t>(last_row - row_of(m));
      return std::clamp(list.size() - shorter - start, 0, entries);
    };
    const float* k_rows[kTile];
    const float* v_rows[kTile];
    for (std::int32_t i = 0; i < entries; ++i) {
      const gpu::Rows row{page_row(args.pages, slot, list.position(start + i))};
      k_rows[i] = keys.row(row) + kv_head * head_dim;
      v_rows[i] = values.row(row) + kv_head * head_dim;
      if (start == 0) ask_for(k_rows[i], head_dim);
      ask_for(v_rows[i], head_dim);
      if (start + kTile + i < list.size()) {
        const gpu::Rows next{page_row(args.pages, slot, list.position(start + kTile + i))};
        ask_for(keys.row(next) + kv_head * head_dim, head_dim);
      }
    }
    // A row's own list may end before the tile does: those scores are made and dropped.
    dots(q_rows, queries, k_rows, entries, head_dim, weights, kTile);
    for (std::int64_t m = 0; m < queries; ++m) {
      if (in_tile(m) == 0) continue;
      tile[m] = weigh_tile(weights + m * kTile, in_tile(m), args.scale);
    }
    std::fill_n(partial, queries * head_dim, 0.0F);
    accumulate({partial, head_dim, weights, kTile, v_rows, head_dim}, queries, in_tile);
    for (std::int64_t m = 0; m < queries; ++m) {
      if (in_tile(m) == 0) continue;
      join_tile(all[m], total + m * head_dim, tile[m], partial + m * head_dim, head_dim);
    }
  }
  for (std::int64_t m = 0; m < queries; ++m) {
    const float share = 1.0F / all[m].sum;
    float* const out = o.row({row_of(m)}) + column_of(m);
    for (std::int64_t i = 0; i < head_dim; ++i) out[i] = total[m * head_dim + i] * share;
  }
}

/// Rows [first_row, end_row), cut into runs that can share what they fetch.
void attend_rows(const RowBatch& batch, const AttentionArgs& args, std::int64_t first_row,
                 std::int64_t end_row, std::int64_t kv_head) {
  const std::int32_t* const slot = batch.row_slot.base;
  const std::int32_t* const position = batch.row_position.base;
  const auto identity = [&](std::int64_t row) {
    return PositionList(args.selection, row, position[row]).is_identity();
  };
  for (std::int64_t row = first_row; row < end_row;) {
    std::int64_t end = row + 1;
    if (identity(row)) {
      while (end < end_row && slot[end] == slot[row] && position[end] == position[end - 1] + 1 &&
             identity(end))
        ++end;
    }
    attend_run(batch, args, row, end - row, kv_head);
    row = end;
  }
}

gpu::Status attention_impl(gpu::HostStream& stream, const RowBatch& batch, const AttentionArgs& args) {
  // Rows of a prompt share keys and values; decode rows are spread over the workers one by one.
  constexpr std::int64_t kMaxQueries = 48;
  const std::int64_t group = args.num_heads / args.num_kv_heads;
  const std::int64_t rows_per_block =
      batch.form == Form::prefill ? std::clamp<std::int64_t>(kMaxQueries / group, 1, 8) : 1;
  const std::int64_t blocks = gpu::ceil_div(batch.num_rows.n, rows_per_block);
  const double entries = batch.max_position + 1.0;
  // Arithmetic, or fetching keys and values: caches of many layers lie in memory, their rows far apart.
  const double cost = entries * static_cast<double>(args.head_dim) *
                      std::max(0.1 * static_cast<double>(rows_per_block * group), 0.8);
  return parallel_ranges(stream, "attention", blocks * args.num_kv_heads, cost,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t unit = first; unit < last; ++unit) {
                             const std::int64_t row = unit / args.num_kv_heads * rows_per_block;
                             attend_rows(batch, args, row, std::min(row + rows_per_block, batch.num_rows.n),
                                         unit % args.num_kv_heads);
                           }
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {

HWY_EXPORT(attention_impl);

gpu::Status attention(gpu::HostStream& stream, const RowBatch& batch, const AttentionArgs& args) {
  return HWY_DYNAMIC_DISPATCH(attention_impl)(stream, batch, args);
}

}  // namespace kernels::cpu
#endif
