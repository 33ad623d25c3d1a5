#pragma once

#include <cstring>
#include <optional>

#include "model/checkpoint/gguf_header.h"

/// Numbers and names of the format.
namespace model::gguf {

/// Bytes of a number; 0 for a string or an array.
std::size_t width_of(GgufType type);

template <class T>
T read_at(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}
/// An integer of any width; none where the type is no integer.
std::optional<std::int64_t> integer_at(GgufType type, const std::byte* from);

struct TensorTypeName {
  std::uint32_t number;
  const char* name;
  std::optional<StoredType> type;  ///< none: known, not supported
};

/// Null for a number that no type has.
const TensorTypeName* tensor_type(std::uint32_t number);

}  // namespace model::gguf
