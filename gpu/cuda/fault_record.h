#pragma once

#include <cstdint>

namespace gpu {

/// What a kernel found in a value that it was given (the host cannot look). Each names the value's use.
enum class ValueFault : std::int32_t {
  none = 0,
  embedding_token,  ///< a token id outside the embedding table
  embedding_place,  ///< a slot or position outside `ids`
  gathered_row,     ///< gather_rows: an index outside x
  table_row,        ///< gather_table: a row id outside the table
  expert,           ///< moe_experts: an expert id outside the weights
  sampling_slot,    ///< sample: slot, position, given token, bias or ban out of range
  sampling_token,
  gdn_first_position,  ///< gdn, prefill form: a segment that does not start on the grid
};

/// In device memory, all zero while nothing was found; the first fault of a step stays. A kernel that finds
/// one writes it and leaves its outputs alone or writes zeros: the step is refused, nobody reads them.
struct FaultRecord {
  std::int32_t fault = 0;  ///< ValueFault
  std::int32_t row = 0;
  std::int64_t value = 0;
};

}  // namespace gpu
