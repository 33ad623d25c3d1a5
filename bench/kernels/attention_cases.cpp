#include <algorithm>
#include <optional>

#include "bench/kernels/batches.h"

// Paged attention and the indexer. Decode rows lie at each context; prefill rows are one sequence from its
// start.
namespace bench {
namespace {

/// One layer's caches and the pages of every slot.
struct Caches {
  Caches(Memory& memory, const Shapes& s) {
    std::int64_t positions = *std::max_element(s.contexts.begin(), s.contexts.end());
    positions = std::max(positions, *std::max_element(s.prefill_rows.begin(), s.prefill_rows.end()));
    pages = page_tables(memory, s, positions);
    const std::int64_t rows = pages.table.rows.n * pages.table.cols.n * s.block;
    k = memory.activation(rows, s.kv_width());
    v = memory.activation(rows, s.kv_width());
    closed = memory.activation(rows / s.ratio, s.index_dim);
    ring = memory.activation(std::int64_t{s.slots} * s.ratio, s.index_dim);
  }
  kernels::PageTables pages;
  Matrix k, v, closed, ring;
};

/// How many positions the rows of a batch attend to, how many of them they read where rows share them, and
/// how many index keys they score and read.
struct Extent {
  double attended = 0.0, read = 0.0, scored = 0.0, keys_read = 0.0;
};
Extent extent_of(const Shapes& s, const kernels::RowBatch& batch, std::int32_t context) {
  Extent extent;
  const auto rows = static_cast<std::int32_t>(batch.num_rows.n);
  const bool prefill = batch.form == kernels::Form::prefill;
  for (std::int32_t r = 0; r < rows; ++r) {
    const std::int32_t n = prefill ? r + 1 : context;
    const std::int32_t closed = n / s.ratio;
    const bool selects = closed > s.top_blocks;
    extent.attended += selects ? s.ratio * s.top_blocks + n % s.ratio : n;
    extent.scored += selects ? closed : 0;
  }
  const double rows_of_cache = static_cast<double>(rows);
  extent.read = prefill ? rows_of_cache : extent.attended;
  extent.keys_read = prefill ? std::min(extent.scored, rows_of_cache / s.ratio) : extent.scored;
  return extent;
}

void bench_batches(Rig& rig, const Caches& caches, const std::vector<kernels::RowBatch>& batches,
                   std::int32_t context, const std::string& where) {
  const Shapes& s = rig.shapes();
  const kernels::RowBatch& like = batches.front();
  const std::int64_t rows = like.num_rows.n;
  const Extent extent = extent_of(s, like, context);
  Memory memory(rig);
  const Matrix q = memory.activation(rows, s.query_width()), o = memory.activation(rows, s.query_width());
  const Matrix k = memory.activation(rows, s.kv_width()), v = memory.activation(rows, s.kv_width());
  const Matrix raw = memory.activation(rows, s.index_dim),
               index_q = memory.activation(rows, std::int64_t{s.index_heads} * s.index_dim);
  const ConstVector k_norm = memory.vector(s.index_dim);
  const kernels::Rope rope{memory.of(std::vector<float>(static_cast<std::size_t>(s.rotary_dim / 2), 0.01F)),
                           1.0F};
  const std::string shape = std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + "x" +
                            std::to_string(s.head_dim) + ", " + where;
  const std::string index_shape =
      std::to_string(s.index_heads) + "x" + std::to_string(s.index_dim) + ", " + where;

  if (rig.wants("kv_append")) {
    rig.row(
        "kv_append", shape, rows, {activation_bytes(s, rows, 4 * s.kv_width()), 0.0}, [&](std::int64_t t) {
          return rig.ops().kv_append(rig.stream(), nth(batches, t), {caches.k, caches.v, k, v, caches.pages});
        });
  }
  if (rig.wants("qsa_index_append")) {
    kernels::QsaIndexAppendArgs args;
    args.closed = caches.closed, args.ring = caches.ring, args.raw = raw;
    args.ring_rows = args.ratio = s.ratio;
    args.pages = caches.pages, args.k_norm = k_norm, args.rope = rope;
    rig.row("qsa_index_append", index_shape, rows,
            {activation_bytes(s, rows, s.index_dim) * (2.0 + 1.0 / s.ratio), 0.0},
            [&](std::int64_t t) { return rig.ops().qsa_index_append(rig.stream(), nth(batches, t), args); });
  }
  // The selection of every turn's rows, so that attention walks real ones.
  std::vector<MatrixView<std::int32_t>> blocks;
  kernels::QsaSelectArgs select;
  select.scores = memory.zeros(DType::f32, rows, like.max_position / s.ratio + 1);
  select.q = index_q, select.closed = caches.closed, select.pages = caches.pages;
  select.num_heads = s.index_heads, select.dim = s.index_dim;
  select.ratio = s.ratio, select.top_blocks = s.top_blocks;
  for (const kernels::RowBatch& batch : batches) {
    blocks.push_back(gpu::typed<std::int32_t>(memory.zeros(DType::i32, rows, s.top_blocks)));
    select.blocks = blocks.back();
    const auto selected = rig.ops().qsa_select(rig.stream(), batch, select);
    if (!selected.ok()) {
      rig.row("qsa_select", index_shape, rows, {}, [&](std::int64_t) { return selected; });
      return;
    }
  }
  if (rig.wants("qsa_select") && extent.scored > 0.0) {
    const double per_key = 2.0 * s.index_heads * s.index_dim;
    rig.row("qsa_select", index_shape, rows,
            {static_cast<double>(s.index_dim * size_of(s.activation)) * extent.keys_read +
                 4.0 * static_cast<double>(rows * s.top_blocks),
             per_key * extent.scored},
            [&](std::int64_t t) {
              select.blocks = nth(blocks, t);
              return rig.ops().qsa_select(rig.stream(), nth(batches, t), select);
            });
  }
  if (rig.wants("attention")) {
    rig.row("attention", shape, rows,
            {2.0 * static_cast<double>(s.kv_width() * size_of(s.activation)) * extent.read +
                 activation_bytes(s, rows, 2 * s.query_width()),
             4.0 * static_cast<double>(s.query_width()) * extent.attended},
            [&](std::int64_t t) {
              kernels::AttentionArgs args;
              args.o = o, args.q = q, args.k_cache = caches.k, args.v_cache = caches.v;
              args.pages = caches.pages;
              args.num_heads = s.heads, args.num_kv_heads = s.kv_heads, args.head_dim = s.head_dim;
              args.scale = 0.0625F;
              args.selection = {nth(blocks, t), s.ratio, s.top_blocks};
              return rig.ops().attention(rig.stream(), nth(batches, t), args);
            });
  }
}

}  // namespace

void bench_attention(Rig& rig) {
  if (!rig.wants("kv_append") && !rig.wants("qsa_index_append") && !rig.wants("qsa_select") &&
      !rig.wants("attention"))
    return;
  const Shapes& s = rig.shapes();
  Memory memory(rig);
  const Caches caches(memory, s);
  for (const std::int32_t context : s.contexts) {
    for (const std::int64_t rows : s.decode_rows) {
      Memory of_batch(rig);
      bench_batches(rig, caches, decode_batches(of_batch, s, rows, context), context,
                    "context " + std::to_string(context));
    }
  }
  for (const std::int64_t rows : s.prefill_rows) {
    Memory of_batch(rig);
    bench_batches(rig, caches, prefill_batches(of_batch, s, rows), 0, "from the start");
  }
}

}  // namespace bench
