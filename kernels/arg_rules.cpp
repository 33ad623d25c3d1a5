#include "kernels/arg_rules.h"

#include <algorithm>

namespace kernels {
namespace {

using gpu::DType;
using std::to_string;

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

std::uintptr_t width_of(const ConstMatrix& m) {
  return static_cast<std::uintptr_t>(bytes_of(m.dtype, m.cols).n);
}
std::uintptr_t pitch_of(const ConstMatrix& m) {
  return static_cast<std::uintptr_t>(bytes_of(m.dtype, m.pitch).n);
}

bool is_empty(const ConstMatrix& m) { return m.rows.n <= 0 || m.cols.n <= 0; }

std::uintptr_t end_of(const ConstMatrix& m) {
  return address(m.base) + static_cast<std::uintptr_t>(m.rows.n - 1) * pitch_of(m) + width_of(m);
}

}  // namespace

std::initializer_list<DType> activation_types(Activations activations) {
  static constexpr std::initializer_list<DType> kF32OrBf16 = {DType::f32, DType::bf16};
  return activations == Activations::f32 ? kF32 : kF32OrBf16;
}

bool overlap(const ConstMatrix& a, const ConstMatrix& b) {
  if (is_empty(a) || is_empty(b)) return false;
  if (end_of(a) <= address(b.base) || end_of(b) <= address(a.base)) return false;
  const std::uintptr_t pitch = pitch_of(a);
  if (pitch != pitch_of(b) || pitch == 0) return true;
  const ConstMatrix& low = address(a.base) <= address(b.base) ? a : b;
  const ConstMatrix& high = address(a.base) <= address(b.base) ? b : a;
  const std::uintptr_t column = (address(high.base) - address(low.base)) % pitch;
  return column < width_of(low) || column + width_of(high) > pitch;
}

ArgRules& ArgRules::fail(const std::string& what) {
  if (refusal_) return *this;
  std::string text = op_;
  if (name_ != nullptr && text != name_) text.append(" ").append(name_);
  refusal_ = gpu::refused(text + ": " + what);
  return *this;
}

ArgRules& ArgRules::equal(const char* what, std::int64_t value, std::int64_t wanted) {
  if (value == wanted) return *this;
  return fail(std::string(what) + " is " + to_string(value) + ", expected " + to_string(wanted));
}
ArgRules& ArgRules::at_least(const char* what, std::int64_t value, std::int64_t least) {
  if (value >= least) return *this;
  return fail(std::string(what) + " is " + to_string(value) + ", expected at least " + to_string(least));
}
ArgRules& ArgRules::multiple(const char* what, std::int64_t value, std::int64_t step) {
  if (step > 0 && value % step == 0) return *this;
  return fail(std::string(what) + " is " + to_string(value) + ", expected a multiple of " + to_string(step));
}
ArgRules& ArgRules::require(bool holds, const char* what_is_wrong) {
  return holds ? *this : fail(what_is_wrong);
}

ArgRules& ArgRules::type(const char* operand, DType type, std::initializer_list<DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), type) != allowed.end()) return *this;
  std::string text = std::string(operand) + " is " + std::string(to_string(type)) + ", expected";
  for (const DType one : allowed) text.append(one == *allowed.begin() ? " " : " or ").append(to_string(one));
  return fail(text);
}

ArgRules& ArgRules::layout(const char* operand, const ConstMatrix& m) {
  const auto shaped = [&] {
    return operand + (" [" + to_string(m.rows.n) + ", " + to_string(m.cols.n) + "]");
  };
  if (m.pitch < m.cols) return fail(shaped() + " has pitch " + to_string(m.pitch.n));
  if (is_empty(m)) return *this;
  if (m.base == nullptr) return fail(shaped() + " has no memory");
  if (address(m.base) % static_cast<std::uintptr_t>(size_of(m.dtype)) != 0) {
    return fail(shaped() + " does not lie on a " + std::string(to_string(m.dtype)) + " boundary");
  }
  return *this;
}

ArgRules& ArgRules::matrix(const char* operand, const ConstMatrix& m, std::initializer_list<DType> types,
                           Rows rows, Elements cols) {
  type(operand, m.dtype, types);
  if (m.rows != rows || m.cols != cols) {
    return fail(std::string(operand) + " is [" + to_string(m.rows.n) + ", " + to_string(m.cols.n) +
                "], expected [" + to_string(rows.n) + ", " + to_string(cols.n) + "]");
  }
  return layout(operand, m);
}
ArgRules& ArgRules::matrix_of_at_least(const char* operand, const ConstMatrix& m,
                                       std::initializer_list<DType> types, Rows rows, Elements cols) {
  type(operand, m.dtype, types);
  if (m.rows < rows || m.cols < cols) {
    return fail(std::string(operand) + " is [" + to_string(m.rows.n) + ", " + to_string(m.cols.n) +
                "], expected at least [" + to_string(rows.n) + ", " + to_string(cols.n) + "]");
  }
  return layout(operand, m);
}

ArgRules& ArgRules::blocks(const char* operand, const QuantizedMatrix& m) {
  const std::int64_t elements = block_shape(m.format).elements;
  if (m.cols.n > 0 && m.cols.n % elements == 0) return *this;
  return fail(std::string(operand) + " has " + to_string(m.cols.n) + " columns, expected a multiple of " +
              to_string(elements) + " (" + std::string(kernels::to_string(m.format)) + ")");
}
ArgRules& ArgRules::weight(const char* operand, const Weight& w, Rows rows, Elements cols) {
  if (!w.is_quantized()) return matrix(operand, w.matrix, kWeight, rows, cols).aligned(operand, w.matrix);
  const QuantizedMatrix& m = w.quantized;
  if (m.rows != rows || m.cols != cols) {
    return fail(std::string(operand) + " is [" + to_string(m.rows.n) + ", " + to_string(m.cols.n) +
                "], expected [" + to_string(rows.n) + ", " + to_string(cols.n) + "]");
  }
  if (m.layout != QuantizedMatrix::Layout::packed) {
    return fail(std::string(operand) + " is quantised and not packed");
  }
  if (address(m.base) % 16 != 0) return fail(std::string(operand) + " is not 16-byte aligned");
  return blocks(operand, m);
}
ArgRules& ArgRules::table(const char* operand, const Weight& w) {
  if (!w.is_quantized()) return matrix_of_at_least(operand, w.matrix, kWeight, Rows{1}, Elements{1});
  return at_least(operand, w.quantized.rows.n, 1).blocks(operand, w.quantized);
}

ArgRules& ArgRules::vector(const char* operand, const ConstVector& v, Elements size) {
  return type(operand, v.dtype, kF32).plain_array(operand, v.base, v.size.n, size.n);
}
ArgRules& ArgRules::plain_array(const char* operand, const void* base, std::int64_t have,
                                std::int64_t wanted) {
  if (have != wanted)
    return fail(std::string(operand) + " has " + to_string(have) + " entries, expected " + to_string(wanted));
  if (wanted > 0 && base == nullptr) return fail(std::string(operand) + " has no memory");
  return *this;
}

ArgRules& ArgRules::aligned(const char* operand, const ConstMatrix& m) {
  if (is_empty(m)) return *this;
  if (address(m.base) % 16 != 0) return fail(std::string(operand) + " row 0 is not 16-byte aligned");
  if (m.rows.n > 1 && pitch_of(m) % 16 != 0) {
    return fail(std::string(operand) + " row 1 is not 16-byte aligned: pitch " + to_string(m.pitch.n));
  }
  return *this;
}

ArgRules& ArgRules::apart(const char* a_name, const ConstMatrix& a, const char* b_name,
                          const ConstMatrix& b) {
  return overlap(a, b) ? fail(std::string(a_name) + " overlaps " + b_name) : *this;
}
ArgRules& ArgRules::same_or_apart(const char* a_name, const ConstMatrix& a, const char* b_name,
                                  const ConstMatrix& b) {
  const bool same = a.base == b.base && a.dtype == b.dtype && (a.pitch == b.pitch || a.rows.n <= 1);
  return same ? *this : apart(a_name, a, b_name, b);
}

ArgRules& ArgRules::batch(const RowBatch& batch) {
  if (batch.num_rows.n == 0) return *this;
  return array("row_slot", batch.row_slot, batch.num_rows.n)
      .array("row_position", batch.row_position, batch.num_rows.n)
      .at_least("num_segments", batch.num_segments, 1)
      .array("segment_slot", batch.segment_slot, batch.num_segments)
      .array("segment_first_row", batch.segment_first_row, batch.num_segments)
      .array("segment_num_rows", batch.segment_num_rows, batch.num_segments)
      .at_least("max_position", batch.max_position, 0);
}

ArgRules& ArgRules::pages(const PageTables& pages, const RowBatch& batch) {
  const bool known_block = pages.block == 16 || pages.block == 32 || pages.block == 64;
  if (!known_block) return fail("page block is " + to_string(pages.block) + ", expected 16, 32 or 64");
  matrix_of_at_least("page table", untyped(pages.table), kI32, Rows{1}, Elements{1});
  return at_least("positions in the page table", pages.table.cols.n * pages.block,
                  std::int64_t{batch.max_position} + 1);
}

ArgRules& ArgRules::rope(const Rope& rope, std::int64_t head_dim) {
  if (rope.inv_freq.size.n > 0 && rope.inv_freq.base == nullptr) return fail("inv_freq has no memory");
  return at_least("head_dim (twice inv_freq)", head_dim, 2 * rope.inv_freq.size.n);
}

}  // namespace kernels
