#include "model/arch/stored_table.h"

#include <algorithm>
#include <cassert>

namespace model {

StoredTable::Place StoredTable::place_of(std::int64_t row) const {
  assert(row >= 0 && row < rows);
  const auto behind =
      std::upper_bound(parts.begin(), parts.end(), row,
                       [](std::int64_t wanted, const Part& part) { return wanted < part.first_row; });
  const Part& part = *std::prev(behind);
  return {part.file, part.offset + (row - part.first_row) * row_bytes().n};
}

}  // namespace model
