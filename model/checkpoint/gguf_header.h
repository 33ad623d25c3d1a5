#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/checkpoint/tensor_file.h"

namespace model {

/// Types of metadata values, numbered as in the file.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// A checked list. `bytes` are the elements as the file has them; a view, valid as long as what was parsed.
struct GgufArray {
  GgufType type = GgufType::u8;
  std::int64_t size = 0;
  std::span<const std::byte> bytes;

  /// The elements; empty unless their type is the one asked for. Integers of any width; those above 2^63
  /// wrap.
  std::vector<std::string_view> strings() const;
  std::vector<std::int64_t> integers() const;
};

struct GgufUnsigned {  ///< u64 above 2^63: no key of ours has such a value
  std::uint64_t value;
};
using GgufValue = std::variant<std::int64_t, GgufUnsigned, double, bool, std::string_view, GgufArray>;

/// What stands before the tensors' data. Views point into what was parsed.
struct GgufHeader {
  std::uint32_t version = 0;
  std::map<std::string_view, GgufValue, std::less<>> metadata;
  std::vector<TensorEntry> tensors;  ///< shapes row-major: the file's dimensions, reversed
  std::int64_t data_start = 0;
};

/// Reads the header of a GGUF file (version 2 or 3, little endian). Nothing in it is believed: counts and
/// lengths are held against what is left of the file before anything is read or allocated, types are known,
/// dimensions multiply without overflow into whole blocks, offsets are aligned, within the file and free of
/// overlap, and no key or tensor appears twice. All problems at once where reading can go on, each naming
/// `name` and the key or tensor. Pure.
Result<GgufHeader, LoadError> parse_gguf(std::span<const std::byte> file, std::string_view name);

}  // namespace model
