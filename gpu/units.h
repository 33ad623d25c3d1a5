#pragma once

#include <compare>
#include <cstdint>

namespace gpu {

/// A count with a unit. No implicit conversion in or out: a row is not an element is not a byte. `.n` is for
/// gpu/ and for kernels.
template <class Tag>
struct Quantity {
  std::int64_t n = 0;

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.n + b.n}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.n - b.n}; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t factor) { return {a.n * factor}; }
  friend constexpr Quantity operator*(std::int64_t factor, Quantity a) { return {a.n * factor}; }
  constexpr Quantity& operator+=(Quantity other) {
    n += other.n;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    n -= other.n;
    return *this;
  }
};

using Rows = Quantity<struct RowsTag>;
using Elements = Quantity<struct ElementsTag>;
using Bytes = Quantity<struct BytesTag>;

constexpr Elements operator*(Rows rows, Elements pitch) { return {rows.n * pitch.n}; }

template <class T>
constexpr Bytes bytes_of(Elements elements) {
  return {elements.n * std::int64_t{sizeof(T)}};
}

/// The next multiple of `step`. Requires value >= 0 and step > 0.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}
constexpr std::int64_t round_down(std::int64_t value, std::int64_t step) { return value / step * step; }
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t step) { return (value + step - 1) / step; }

}  // namespace gpu
