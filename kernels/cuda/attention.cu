#include "kernels/attention.h"

#include <string>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/attention_tile.cuh"
#include "kernels/cuda/launch.h"

namespace kernels::cuda {
namespace {

/// Queries of one thread block, in tiles of 16: one tile, or four, which share the keys and values they
/// fetch.
constexpr int kFew = 1, kMany = 4;
/// What a thread block may have.
constexpr std::int64_t kMaxSharedBytes = 227 * 1024;
/// Thread blocks of one wave on the devices that are served; below this, lists are spread over blocks.
constexpr std::int64_t kBlocksOfAFullDevice = 264;

/// A thread block walks the lists of rows_per_block rows (blockIdx.x) for one kv head (blockIdx.y), run by
/// run; keys and values of the next tile are on their way while this tile is weighed. Bytes: a run's keys and
/// values once for all its queries. Flops: 4 head_dim an entry and query, on the tensor cores; they wait
/// while a tile is weighed, which two groups of warps that take turns would hide.
template <class T, int kQueries, int kColumns>
__device__ void attend_run(const AttentionRows<T>& a, const TileMemory<T>& m, const Run& run) {
  const int num_queries = run.num_queries(), num_tiles = run.num_tiles();
  const int tiles = (num_queries + 15) / 16;
  const int t = static_cast<int>(threadIdx.x);
  for (int query = t; query < tiles * 16; query += kTileThreads) m.all[query] = {kLowest, 0.0F};
  find_entries(a, run, 0, m.cache_rows);
  __syncthreads();
  fetch_queries(a, run, tiles * 16, m.q);
  fetch_entries(a, run, a.keys, m.cache_rows, m.keys);
  commit_copies();
  fetch_entries(a, run, a.values, m.cache_rows, m.values);
  commit_copies();

  float total[kQueries][kColumns][4] = {};
  for (int index = 0; index < num_tiles; ++index) {
    const bool more = index + 1 < num_tiles;
    const std::int64_t* const next_rows = m.cache_rows + (index + 1) % 2 * kTile;
    if (more) find_entries(a, run, index + 1, m.cache_rows);
    wait_copies<1>();  // keys are here; values may not be
    __syncthreads();
    score_tile(m, tiles, a.head_dim);
    __syncthreads();
    if (more) fetch_entries(a, run, a.keys, next_rows, m.keys);
    commit_copies();
    weigh_tile(m, run, tiles * 16, index * kTile, a.scale, [&](int query, const Softmax& tile, int entries) {
      if (entries == 0) {
        m.factors[query] = {1.0F, 0.0F};
        return;
      }
      const Joined joined = join(m.all[query], tile);
      m.all[query] = joined.all;
      m.factors[query] = joined.factors;
    });
    wait_copies<1>();  // values are here
    __syncthreads();
    float of_tile[kQueries][kColumns][4] = {};
    weighted_values(of_tile, m, tiles, a.head_dim);
    for_results<kQueries, kColumns>(num_queries, a.head_dim, [&](int tile, int c, int i, int query, int) {
      total[tile][c][i] = join_value(total[tile][c][i], of_tile[tile][c][i], m.factors[query]);
    });
    __syncthreads();
    if (more) fetch_entries(a, run, a.values, next_rows, m.values);
    commit_copies();
  }
  for_results<kQueries, kColumns>(
      num_queries, a.head_dim, [&](int tile, int c, int i, int query, int column) {
        T* const o = a.o.row(Rows{run.row_of(query)}) + run.column_of(query, a.head_dim);
        o[column] = from_float<T>(total[tile][c][i] / m.all[query].sum);
      });
  __syncthreads();  // the next run begins with other queries
}

template <class T, int kQueries, int kColumns>
__global__ void __launch_bounds__(kTileThreads) walk_kernel(AttentionRows<T> a) {
  const TileMemory<T> memory(dynamic_shared(), kQueries * 16, a.head_dim);
  const std::int64_t first = std::int64_t{blockIdx.x} * a.rows_per_block;
  const std::int64_t end = min(a.num_rows, first + a.rows_per_block);
  for (std::int64_t row = first, next; row < end; row = next) {
    next = row + 1;
    if (a.list(row).is_identity()) {
      while (next < end && a.slot[next] == a.slot[row] && a.position[next] == a.position[next - 1] + 1 &&
             a.list(next).is_identity())
        ++next;
    }
    attend_run<T, kQueries, kColumns>(a, memory,
                                      {row, static_cast<int>(next - row), a.group,
                                       static_cast<std::int32_t>(blockIdx.y), a.slot[row], a.list(next - 1)});
  }
}

/// What spread tiles leave for the join: of each (row, head) `num_slots` places, the last for what earlier
/// waves gathered.
struct Partials {
  float* values;  ///< [row * num_heads + head][num_slots][head_dim]
  Softmax* softmax;
  std::int64_t num_slots;

  __device__ std::int64_t place(std::int64_t unit, std::int64_t slot) const {
    return unit * num_slots + slot;
  }
};

/// A thread block makes one tile (first_tile + blockIdx.x) of one row (blockIdx.z) and kv head (blockIdx.y).
/// Bytes: the tile's keys and values once, and (head_dim + 2) * 4 of each head written and read again.
template <class T, int kQueries, int kColumns>
__global__ void __launch_bounds__(kTileThreads)
    spread_kernel(AttentionRows<T> a, Partials partials, std::int32_t first_tile) {
  const TileMemory<T> m(dynamic_shared(), kQueries * 16, a.head_dim);
  const std::int64_t row = blockIdx.z;
  const Run run = {row, 1, a.group, static_cast<std::int32_t>(blockIdx.y), a.slot[row], a.list(row)};
  const auto slot = static_cast<std::int32_t>(blockIdx.x);
  if (first_tile + slot >= run.num_tiles()) return;
  const int tiles = (a.group + 15) / 16;
  find_entries(a, run, first_tile + slot, m.cache_rows);
  __syncthreads();
  const std::int64_t* const cache_rows = m.cache_rows + (first_tile + slot) % 2 * kTile;
  fetch_queries(a, run, tiles * 16, m.q);
  fetch_entries(a, run, a.keys, cache_rows, m.keys);
  commit_copies();
  fetch_entries(a, run, a.values, cache_rows, m.values);
  commit_copies();
  wait_copies<1>();
  __syncthreads();
  score_tile(m, tiles, a.head_dim);
  __syncthreads();
  const std::int64_t first_unit = row * a.num_heads + std::int64_t{run.kv_head} * a.group;
  weigh_tile(m, run, tiles * 16, (first_tile + slot) * kTile, a.scale,
             [&](int query, const Softmax& tile, int) {
               if (query < a.group) partials.softmax[partials.place(first_unit + query, slot)] = tile;
             });
  wait_copies<0>();
  __syncthreads();
  float of_tile[kQueries][kColumns][4] = {};
  weighted_values(of_tile, m, tiles, a.head_dim);
  for_results<kQueries, kColumns>(a.group, a.head_dim, [&](int tile, int c, int i, int query, int column) {
    partials.values[partials.place(first_unit + query, slot) * a.head_dim + column] = of_tile[tile][c][i];
  });
}

/// A thread block a (row, head), a thread a column: joins the tiles of one wave in ascending order to those
/// of the waves before, and finishes the row when its list ends here.
template <class T>
__global__ void __launch_bounds__(kMaxHeadDim)
    join_kernel(AttentionRows<T> a, Partials partials, std::int32_t first_tile) {
  const std::int64_t unit = blockIdx.x;
  const std::int64_t row = unit / a.num_heads, head = unit % a.num_heads;
  const std::int32_t num_tiles = (a.list(row).size() + kTile - 1) / kTile;
  if (first_tile >= num_tiles) return;
  const auto column = static_cast<std::int32_t>(threadIdx.x);
  const bool owns = column < a.head_dim;
  const auto per_wave = static_cast<std::int32_t>(partials.num_slots - 1);
  const std::int64_t carry = partials.place(unit, per_wave);
  Softmax all = {kLowest, 0.0F};
  float total = 0.0F;
  if (first_tile > 0) {
    all = partials.softmax[carry];
    if (owns) total = partials.values[carry * a.head_dim + column];
    __syncthreads();  // the first thread replaces it below
  }
  if (!owns) return;
  const std::int32_t here = min(num_tiles - first_tile, per_wave);
  const float* const values = partials.values + partials.place(unit, 0) * a.head_dim + column;
  const Softmax* const softmax = partials.softmax + partials.place(unit, 0);
#pragma unroll 4
  for (std::int32_t i = 0; i < here; ++i) {
    const Joined joined = join(all, softmax[i]);
    total = join_value(total, values[std::int64_t{i} * a.head_dim], joined.factors);
    all = joined.all;
  }
  if (first_tile + here == num_tiles) {
    a.o.row(Rows{row})[head * a.head_dim + column] = from_float<T>(total / all.sum);
    return;
  }
  partials.values[carry * a.head_dim + column] = total;
  if (column == 0) partials.softmax[carry] = all;
}

template <class T, int kQueries, int kColumns>
gpu::Status walk(Context& context, const AttentionRows<T>& a) {
  const Grid grid{{to_grid(gpu::ceil_div(a.num_rows, a.rows_per_block)), to_grid(a.num_heads / a.group)},
                  {kTileThreads},
                  TileMemory<T>::bytes(kQueries * 16, a.head_dim)};
  return launch(context.stream, "attention", grid, walk_kernel<T, kQueries, kColumns>, a);
}

template <class T, int kQueries, int kColumns>
gpu::Status spread(Context& context, const AttentionRows<T>& a, const Partials& partials,
                   std::int32_t most_tiles) {
  const auto per_wave = static_cast<std::int32_t>(partials.num_slots - 1);
  for (std::int32_t first = 0; first < most_tiles; first += per_wave) {
    const Grid grid{{to_grid(std::min(per_wave, most_tiles - first)), to_grid(a.num_heads / a.group),
                     to_grid(a.num_rows)},
                    {kTileThreads},
                    TileMemory<T>::bytes(kQueries * 16, a.head_dim)};
    RETURN_IF_ERROR(launch(context.stream, "attention tiles", grid, spread_kernel<T, kQueries, kColumns>, a,
                           partials, first));
    RETURN_IF_ERROR(launch(context.stream, "attention join",
                           {{to_grid(a.num_rows * a.num_heads)}, {to_grid(gpu::round_up(a.head_dim, 32))}},
                           join_kernel<T>, a, partials, first));
  }
  return gpu::Done{};
}

/// The longest list of the batch.
std::int32_t most_entries(const RowBatch& batch, const Selection& selection) {
  const std::int32_t all = batch.max_position + 1;
  if (selection.blocks.base == nullptr) return all;
  return std::min(all, selection.ratio * selection.top_blocks + selection.ratio - 1);
}

/// Cuts the context's scratch into places for as many tiles of each (row, head) as it holds.
Partials partials_of(const Context& context, std::int64_t units, std::int32_t head_dim,
                     std::int32_t num_tiles) {
  const std::int64_t place = head_dim + 2;
  const std::int64_t slots = context.partials.size.n / (std::max<std::int64_t>(units, 1) * place);
  Partials p = {};
  p.num_slots = std::min<std::int64_t>(slots, num_tiles + 1);
  p.softmax = reinterpret_cast<Softmax*>(context.partials.base);
  p.values = context.partials.base + units * p.num_slots * 2;
  return p;
}

/// Walking and spreading give the same bits, so this choice may look at the batch: lists are spread over
/// thread blocks where rows and kv heads alone would leave most of the device idle.
template <class T, int kQueries, int kColumns>
gpu::Status attend(Context& context, const RowBatch& batch, const AttentionArgs& args,
                   const AttentionRows<T>& a) {
  constexpr std::int64_t kFewestSlots = 5;
  const auto tiles = static_cast<std::int32_t>(gpu::ceil_div(most_entries(batch, args.selection), kTile));
  const Partials partials = partials_of(context, a.num_rows * a.num_heads, a.head_dim, tiles);
  const bool idle = a.num_rows * args.num_kv_heads < kBlocksOfAFullDevice;
  if (tiles > 1 && idle && partials.num_slots >= std::min<std::int64_t>(kFewestSlots, tiles + 1)) {
    // One row a thread block: a tile of 16 queries is enough unless a kv head serves more heads.
    if (a.group <= 16) return spread<T, kFew, kColumns>(context, a, partials, tiles);
    return spread<T, kMany, kColumns>(context, a, partials, tiles);
  }
  return walk<T, kQueries, kColumns>(context, a);
}

template <class T, int kQueries>
gpu::Status attend(Context& context, const RowBatch& batch, const AttentionArgs& args) {
  AttentionRows<T> a = {};
  a.o = gpu::typed<T>(args.o);
  a.q = gpu::typed<T>(args.q);
  a.keys = gpu::typed<T>(args.k_cache);
  a.values = gpu::typed<T>(args.v_cache);
  a.slot = batch.row_slot.base;
  a.position = batch.row_position.base;
  a.pages = args.pages;
  a.selection = args.selection;
  a.num_rows = batch.num_rows.n;
  a.num_heads = args.num_heads;
  a.group = args.num_heads / args.num_kv_heads;
  a.head_dim = args.head_dim;
  a.rows_per_block = std::max(1, kQueries * 16 / a.group);
  a.scale = args.scale;
  a.wide = args.head_dim % kPer16<T> == 0 && in_16_bytes(args.q) && in_16_bytes(args.k_cache) &&
           in_16_bytes(args.v_cache);
  if (args.head_dim <= 64) return attend<T, kQueries, 1>(context, batch, args, a);
  if (args.head_dim <= 128) return attend<T, kQueries, 2>(context, batch, args, a);
  return attend<T, kQueries, 4>(context, batch, args, a);
}

}  // namespace

gpu::Status attention(Context& context, const RowBatch& batch, const AttentionArgs& args) {
  if (batch.num_rows.n == 0) return gpu::Done{};
  const std::int32_t group = args.num_heads / args.num_kv_heads;
  // Rows of a prompt share keys and values until they select: then each has its own.
  const bool all_select =
      args.selection.blocks.base != nullptr &&
      batch.max_position + 1 - batch.max_segment_rows >= most_entries(batch, args.selection);
  const bool share = (batch.form == Form::prefill && !all_select) || group > 16;
  return with_activation(args.q.dtype, [&](auto zero) -> gpu::Status {
    using T = decltype(zero);
    // f32, which is there to be compared, keeps to one tile of queries: beside its keys four hardly fit.
    const bool many = share && (sizeof(T) == 2 || group > 16);
    if (args.head_dim > kMaxHeadDim || group > kMany * 16 ||
        TileMemory<T>::bytes((many ? kMany : kFew) * 16, args.head_dim) > kMaxSharedBytes) {
      return gpu::refused("attention: " + std::string(gpu::to_string(args.q.dtype)) + " heads of " +
                          std::to_string(args.head_dim) + ", " + std::to_string(group) +
                          " a kv head, are more than a tile holds");
    }
    return many ? attend<T, kMany>(context, batch, args) : attend<T, kFew>(context, batch, args);
  });
}

}  // namespace kernels::cuda
