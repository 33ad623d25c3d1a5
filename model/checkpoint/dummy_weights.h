#pragma once

#include "gpu/stream.h"
#include "model/checkpoint/loader.h"
#include "model/checkpoint/weight_storage.h"

namespace model {

/// Fills placed weights with random numbers. A value depends on (seed, weight, element) alone, so it is the
/// same on every machine and in every order of filling; weights of more than 2^26 elements repeat themselves.
gpu::Status fill_with_dummy_values(const WeightMap& map, const WeightStorage& storage, std::uint64_t seed,
                                   gpu::Stream& stream,
                                   const std::function<void(std::int64_t bytes)>& filled);

}  // namespace model
