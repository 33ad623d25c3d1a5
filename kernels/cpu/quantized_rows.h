#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/stream.h"
#include "kernels/batch.h"
#include "kernels/packed_layout.h"

namespace kernels::cpu {

/// What a product needs to know of 32 activations beside their int8 values.
struct BlockFacts {
  float scale = 0.0F;              ///< largest magnitude / 127; NaN when the row is not finite
  float scaled_sum = 0.0F;         ///< scale * sum of the int8 values
  std::int32_t minus_8_sum = 0;    ///< -8 * their sum
  std::int32_t minus_8_first = 0;  ///< -8 * the sum of the first sixteen
};

/// One row of activations, rounded to int8 in blocks of 32.
struct QuantizedRow {
  const std::int8_t* values = nullptr;
  const BlockFacts* blocks = nullptr;
};

/// Room for rows of one operation, owned by the thread that runs the operation; its workers write and read
/// through the pointers. It grows to the largest seen and stays.
class QuantizedRows {
 public:
  /// Rounds the rows of x, whose length is a multiple of 32. What was here before is gone.
  gpu::Status quantize(gpu::HostStream& stream, const MatrixView<const float>& x);
  const QuantizedRow* rows() const { return rows_.data(); }

 private:
  struct alignas(32) Line {
    std::int8_t values[kQuantBlock];
  };
  template <class T>
  static void grow(std::vector<T>& items, std::int64_t size) {
    if (static_cast<std::int64_t>(items.size()) < size) items.resize(static_cast<std::size_t>(size));
  }

  std::vector<Line> lines_;
  std::vector<BlockFacts> facts_;
  std::vector<QuantizedRow> rows_;
};

/// y[r][n - shift] = x[r] times row n of a packed weight, for n in [first, last) and `rows` rows.
void product_rows(const QuantizedRow* x, float* const* y, std::int64_t rows, const QuantizedMatrix& w,
                  std::int64_t first, std::int64_t last, std::int64_t shift);

}  // namespace kernels::cpu
