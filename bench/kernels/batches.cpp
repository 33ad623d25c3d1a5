#include "bench/kernels/batches.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace bench {

std::vector<kernels::RowBatch> decode_batches(Memory& memory, const Shapes& shapes, std::int64_t rows,
                                              std::int32_t context) {
  std::vector<kernels::RowBatch> batches;
  const auto n = static_cast<std::size_t>(rows);
  const auto num_turns = std::max<std::int64_t>(shapes.slots / rows, 1);
  for (std::int64_t turn = 0; turn < num_turns; ++turn) {
    std::vector<std::int32_t> slots(n), first(n);
    std::iota(slots.begin(), slots.end(), static_cast<std::int32_t>(turn * rows));
    std::iota(first.begin(), first.end(), 0);
    kernels::RowBatch batch;
    batch.form = kernels::Form::decode;
    batch.num_rows = {rows};
    batch.row_slot = batch.segment_slot = memory.of(slots);
    batch.row_position = memory.of(std::vector<std::int32_t>(n, context - 1));
    batch.num_segments = static_cast<std::int32_t>(rows);
    batch.segment_first_row = memory.of(first);
    batch.segment_num_rows = memory.of(std::vector<std::int32_t>(n, 1));
    batch.max_segment_rows = 1;
    batch.max_position = context - 1;
    batches.push_back(batch);
  }
  return batches;
}

std::vector<kernels::RowBatch> prefill_batches(Memory& memory, const Shapes& shapes, std::int64_t rows) {
  std::vector<kernels::RowBatch> batches;
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), 0);
  for (std::int32_t slot = 0; slot < std::min(shapes.slots, 8); ++slot) {
    kernels::RowBatch batch;
    batch.form = kernels::Form::prefill;
    batch.num_rows = {rows};
    batch.row_slot = memory.of(std::vector<std::int32_t>(positions.size(), slot));
    batch.row_position = memory.of(positions);
    batch.num_segments = 1;
    batch.segment_slot = memory.of(std::vector<std::int32_t>{slot});
    batch.segment_first_row = memory.of(std::vector<std::int32_t>{0});
    batch.segment_num_rows = memory.of(std::vector<std::int32_t>{static_cast<std::int32_t>(rows)});
    batch.max_segment_rows = static_cast<std::int32_t>(rows);
    batch.max_position = static_cast<std::int32_t>(rows) - 1;
    batches.push_back(batch);
  }
  return batches;
}

kernels::PageTables page_tables(Memory& memory, const Shapes& shapes, std::int64_t positions) {
  const std::int64_t pages = gpu::ceil_div(positions, shapes.block);
  std::vector<std::int32_t> order(static_cast<std::size_t>(pages * shapes.slots));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(3);
  std::shuffle(order.begin(), order.end(), random);
  return {memory.of(order, pages), shapes.block};
}

}  // namespace bench
