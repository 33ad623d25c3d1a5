#pragma once

#include <cstdint>
#include <vector>

#include "model/arch/model_config.h"

namespace model {

/// The hash of one PLE layer (model-spec 5.1), derived from the config. A checkpoint ships the same numbers,
/// which must agree.
struct PleConstants {
  std::vector<std::int64_t> multipliers;  ///< [ngram_size]
  std::vector<std::int64_t> sizes;        ///< [heads]: rows of the table that each head may address, a prime
  std::vector<std::int64_t> offsets;      ///< [heads]: the head's first row
  std::int64_t table_rows = 0;            ///< sum of sizes, padded up to `divisible_by`
};

/// `ple_index` counts PLE layers from 0 in ascending order; it is not the layer's number. Pure.
PleConstants derive_ple_constants(const PleConfig& config, std::int32_t vocab_size, std::int32_t ple_index);

}  // namespace model
