#pragma once

#include <cassert>
#include <cstddef>

#include "gpu/dtype.h"
#include "gpu/units.h"

namespace gpu {

template <class T>
struct VectorView {
  T* base = nullptr;
  Elements size;

  constexpr operator VectorView<const T>() const {
    return {base, size};
  }  // NOLINT: adding const is always safe
};

/// Row-major [rows, cols] with `pitch` elements from row to row. The one type (with Matrix) that does pointer
/// arithmetic.
template <class T>
struct MatrixView {
  T* base = nullptr;
  Rows rows;
  Elements cols;
  Elements pitch;

  constexpr T* row(Rows r) const {
    assert(r.n >= 0 && r < rows);
    return base + (r * pitch).n;
  }
  constexpr MatrixView from_row(Rows r) const {
    assert(r <= rows);
    return {base + (r * pitch).n, rows - r, cols, pitch};
  }
  constexpr operator MatrixView<const T>() const {
    return {base, rows, cols, pitch};
  }  // NOLINT: adding const is always safe
};

/// The same with the element type as a value: what layers pass about and ops take. Kernels cast to typed
/// views after checking. `Byte` is std::byte or const std::byte.
template <class Byte>
struct BasicMatrix {
  Byte* base = nullptr;
  DType dtype = DType::f32;
  Rows rows;
  Elements cols;
  Elements pitch;

  operator BasicMatrix<const std::byte>() const { return {base, dtype, rows, cols, pitch}; }  // NOLINT

  BasicMatrix from_row(Rows r) const {
    assert(r <= rows);
    return {base + bytes_of(dtype, r * pitch).n, dtype, rows - r, cols, pitch};
  }
  BasicMatrix first_rows(Rows n) const {
    assert(n <= rows);
    return {base, dtype, n, cols, pitch};
  }
  BasicMatrix columns(Elements first, Elements n) const {
    assert((first + n) <= cols);
    return {base + bytes_of(dtype, first).n, dtype, rows, n, pitch};
  }
};
using Matrix = BasicMatrix<std::byte>;
using ConstMatrix = BasicMatrix<const std::byte>;

template <class Byte>
struct BasicVector {
  Byte* base = nullptr;
  DType dtype = DType::f32;
  Elements size;

  operator BasicVector<const std::byte>() const { return {base, dtype, size}; }  // NOLINT
  bool empty() const { return base == nullptr; }
};
using Vector = BasicVector<std::byte>;
using ConstVector = BasicVector<const std::byte>;

/// Typed view of a matrix whose dtype was checked before.
template <class T>
MatrixView<T> typed(Matrix m) {
  assert(m.dtype == DTypeOf<T>::value);
  return {reinterpret_cast<T*>(m.base), m.rows, m.cols, m.pitch};
}
template <class T>
MatrixView<const T> typed(ConstMatrix m) {
  assert(m.dtype == DTypeOf<T>::value);
  return {reinterpret_cast<const T*>(m.base), m.rows, m.cols, m.pitch};
}
template <class T>
VectorView<const T> typed(ConstVector v) {
  assert(v.dtype == DTypeOf<T>::value);
  return {reinterpret_cast<const T*>(v.base), v.size};
}

}  // namespace gpu
