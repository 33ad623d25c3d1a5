#pragma once

#include "bench/kernels/rig.h"

namespace bench {

/// Rows of decode form, a sequence each at one context; turns take other slots, so that caches and states are
/// not found in the cache of the turn before.
std::vector<kernels::RowBatch> decode_batches(Memory& memory, const Shapes& shapes, std::int64_t rows,
                                              std::int32_t context);
/// Rows of one sequence from its start.
std::vector<kernels::RowBatch> prefill_batches(Memory& memory, const Shapes& shapes, std::int64_t rows);

/// Pages of `positions` positions for every slot, in an order of their own.
kernels::PageTables page_tables(Memory& memory, const Shapes& shapes, std::int64_t positions);

}  // namespace bench
