#pragma once

#include <cassert>
#include <type_traits>
#include <utility>
#include <variant>

namespace gpu {

struct Done {};

/// A value or an error. Errors are values here: nothing throws across a folder.
template <class T, class E>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<T, E>);

 public:
  using value_type = T;
  using error_type = E;

  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: a return statement converts
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    assert(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    assert(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    assert(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  E& error() & {
    assert(!ok());
    return std::get<1>(state_);
  }
  const E& error() const& {
    assert(!ok());
    return std::get<1>(state_);
  }
  E&& error() && {
    assert(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, E> state_;
};

}  // namespace gpu

/// Leaves the function with the error when `expression` (a Result) holds one.
#define RETURN_IF_ERROR(expression)                                           \
  do {                                                                        \
    if (auto status_of_expression = (expression); !status_of_expression.ok()) \
      return std::move(status_of_expression).error();                         \
  } while (false)
