#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/stream.h"

namespace kernels::cpu {

/// Work that is worth handing to another thread, in nanoseconds.
inline constexpr double kMinTileCost = 8000.0;
inline constexpr std::int64_t kMaxTiles = 256;

/// Units of work a tile, from what one unit costs and how much is worth a tile: small operations become one
/// tile, which runs on the caller. Independent of the number of workers, as results must be.
inline std::int64_t units_per_tile(std::int64_t units, double cost_per_unit_ns,
                                   double min_tile_cost_ns = kMinTileCost) {
  const double least = min_tile_cost_ns / std::max(cost_per_unit_ns, 1e-3);
  if (static_cast<double>(units) <= 1.5 * least) return std::max<std::int64_t>(units, 1);
  return std::max({std::int64_t{1}, static_cast<std::int64_t>(least), gpu::ceil_div(units, kMaxTiles)});
}

/// body(first, last) over cuts of [0, units), in any order and on any worker.
template <class Body>
gpu::Status parallel_ranges(gpu::HostStream& stream, const char* what, std::int64_t units,
                            double cost_per_unit_ns, const Body& body) {
  if (units <= 0) return gpu::Done{};
  struct {
    const Body& body;
    std::int64_t units, per_tile;
  } const job{body, units, units_per_tile(units, cost_per_unit_ns)};
  // One reference: it fits into std::function without an allocation.
  return stream.parallel(what, gpu::ceil_div(units, job.per_tile), [&job](std::int64_t tile) {
    const std::int64_t first = tile * job.per_tile;
    job.body(first, std::min(first + job.per_tile, job.units));
  });
}

}  // namespace kernels::cpu
