#include <algorithm>
#include <random>

#include "bench/kernels/batches.h"

// Rows picked from large tables by token: embedding and n-gram rows.
namespace bench {
namespace {

struct Tables {
  Tables(Memory& memory, const Shapes& s) {
    std::int64_t positions = *std::max_element(s.contexts.begin(), s.contexts.end());
    positions = std::max(positions, *std::max_element(s.prefill_rows.begin(), s.prefill_rows.end()));
    std::mt19937 random(5);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(s.slots * positions));
    for (auto& token : tokens)
      token = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(s.vocab));
    ids = memory.of(tokens, positions);
    embeddings = memory.weight(s.vocab, s.hidden);
    ngrams = memory.weight(s.ngram_rows, s.ngram_dim);
    const auto heads = static_cast<std::size_t>(s.ngram_heads);
    multipliers = memory.of(std::vector<std::int64_t>{1, 0x9E3779B1, 0x85EBCA77});
    sizes = memory.of(std::vector<std::int64_t>(heads, s.ngram_rows));
    offsets = memory.of(std::vector<std::int64_t>(heads, 0));
  }
  MatrixView<std::int32_t> ids;
  Matrix embeddings, ngrams;
  VectorView<std::int64_t> multipliers, sizes, offsets;
};

void bench_batches(Rig& rig, const Tables& tables, const std::vector<kernels::RowBatch>& batches) {
  const Shapes& s = rig.shapes();
  const std::int64_t rows = batches.front().num_rows.n;
  Memory memory(rig);
  const Matrix y = memory.activation(rows, s.hidden), of_ngrams = memory.activation(rows, s.ngram_width());
  std::mt19937_64 random(6);
  const auto row_ids = memory.rotating(activation_bytes(s, rows, s.ngram_width()), [&] {
    std::vector<std::int64_t> values(static_cast<std::size_t>(rows * s.ngram_heads));
    for (auto& value : values)
      value = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(s.ngram_rows));
    return memory.of(values, s.ngram_heads);
  });
  if (rig.wants("embedding")) {
    rig.row("embedding", std::to_string(s.vocab) + "x" + std::to_string(s.hidden), rows,
            {2.0 * static_cast<double>(rows * s.hidden) + activation_bytes(s, rows, s.hidden), 0.0},
            [&](std::int64_t t) {
              return rig.ops().embedding(rig.stream(), nth(batches, t), {y, tables.embeddings, tables.ids});
            });
  }
  if (rig.wants("ngram_rows")) {
    kernels::NgramRowsArgs args;
    args.rows = row_ids.front();
    args.ids = tables.ids;
    args.multipliers = tables.multipliers;
    args.sizes = tables.sizes;
    args.offsets = tables.offsets;
    args.ngram_size = s.ngram_size;
    args.heads_per_ngram = s.ngram_heads / (s.ngram_size - 1);
    args.eos = -1;
    rig.row("ngram_rows", std::to_string(s.ngram_heads) + " heads", rows,
            {static_cast<double>(rows * (8 * s.ngram_heads + 4 * s.ngram_size)), 0.0},
            [&](std::int64_t t) { return rig.ops().ngram_rows(rig.stream(), nth(batches, t), args); });
  }
  if (rig.wants("gather_table")) {
    rig.row(
        "gather_table", std::to_string(s.ngram_heads) + "x" + std::to_string(s.ngram_dim), rows,
        {2.0 * static_cast<double>(rows * s.ngram_width()) + activation_bytes(s, rows, s.ngram_width()), 0.0},
        [&](std::int64_t t) {
          return rig.ops().gather_table(rig.stream(), {of_ngrams, tables.ngrams, nth(row_ids, t)});
        });
  }
}

}  // namespace

void bench_tables(Rig& rig) {
  if (!rig.wants("embedding") && !rig.wants("ngram_rows") && !rig.wants("gather_table")) return;
  const Shapes& s = rig.shapes();
  Memory memory(rig);
  const Tables tables(memory, s);
  for (const std::int64_t rows : s.decode_rows) {
    Memory of_batch(rig);
    bench_batches(rig, tables, decode_batches(of_batch, s, rows, s.contexts.front()));
  }
  for (const std::int64_t rows : s.prefill_rows) {
    Memory of_batch(rig);
    bench_batches(rig, tables, prefill_batches(of_batch, s, rows));
  }
}

}  // namespace bench
