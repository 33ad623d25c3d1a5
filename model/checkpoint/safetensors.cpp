#include "model/checkpoint/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

namespace model {
namespace {

using gpu::DType;
using simdjson::dom::element;

constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::int64_t kLengthBytes = 8;
constexpr std::size_t kMaxDimensions = 8;

std::optional<DType> to_dtype(std::string_view name) {
  if (name == "F32") return DType::f32;
  if (name == "F16") return DType::f16;
  if (name == "BF16") return DType::bf16;
  if (name == "F8_E4M3") return DType::f8_e4m3;
  if (name == "I64") return DType::i64;
  return std::nullopt;
}

/// What is wrong with the value of `key`, or nothing.
using Problem = std::optional<std::string>;

Problem read_integers(element value, std::size_t max_count, std::vector<std::int64_t>& numbers) {
  simdjson::dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return "is not a list";
  for (element item : list) {
    std::int64_t number = 0;
    if (item.get(number) != simdjson::SUCCESS) return "holds something that is no 64-bit integer";
    if (number < 0) return "holds the negative " + std::to_string(number);
    if (numbers.size() == max_count) return "holds more than " + std::to_string(max_count) + " numbers";
    numbers.push_back(number);
  }
  return std::nullopt;
}

/// The product of shape and element size, or nothing when it leaves 63 bits.
std::optional<std::int64_t> byte_size(DType dtype, const std::vector<std::int64_t>& shape) {
  std::int64_t bytes = gpu::size_of(dtype);
  for (std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

Problem read_entry(element value, std::int64_t data_bytes, TensorEntry& entry) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return "is not an object";
  std::set<std::string_view> keys;
  std::vector<std::int64_t> offsets;
  for (const auto& [key, item] : object) {
    if (!keys.insert(key).second) return "has the key " + std::string(key) + " twice";
    Problem problem;
    if (key == "dtype") {
      std::string_view name;
      if (item.get(name) != simdjson::SUCCESS) return "dtype is not a string";
      const auto dtype = to_dtype(name);
      if (!dtype)
        return "dtype " + std::string(name) + " is not supported (F32, F16, BF16, F8_E4M3, I64 are)";
      entry.type = *dtype;
    } else if (key == "shape") {
      problem = read_integers(item, kMaxDimensions, entry.shape);
    } else if (key == "data_offsets") {
      problem = read_integers(item, 2, offsets);
    } else {
      return "has the unknown key " + std::string(key);
    }
    if (problem) return std::string(key) + " " + *problem;
  }
  if (keys.size() != 3) return "does not have all of dtype, shape and data_offsets";
  if (offsets.size() != 2) return "data_offsets is not a pair";
  if (offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    return "data_offsets [" + std::to_string(offsets[0]) + ", " + std::to_string(offsets[1]) +
           "] are not a range within the " + std::to_string(data_bytes) + " bytes of data";
  }
  entry.offset = offsets[0];
  entry.bytes = offsets[1] - offsets[0];
  const auto wanted = byte_size(entry.type.dtype, entry.shape);
  if (!wanted || *wanted != entry.bytes) {
    return "shape " + to_string(entry.shape) + " of " + to_string(entry.type) + " needs " +
           (wanted ? std::to_string(*wanted) + " bytes" : "more bytes than can be counted") +
           ", data_offsets hold " + std::to_string(entry.bytes);
  }
  return std::nullopt;
}

Problem check_metadata(element value) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return "is not an object";
  for (const auto& [key, item] : object) {
    if (!item.is_string()) return "holds the key " + std::string(key) + ", whose value is not a string";
  }
  return std::nullopt;
}

/// The format: tensors follow one another without hole or overlap and end where the file ends.
Problem check_coverage(const std::vector<TensorEntry>& entries, std::int64_t data_bytes) {
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  std::int64_t end = 0;
  const TensorEntry* before = nullptr;
  for (const TensorEntry* entry : order) {
    if (entry->offset < end) return "tensor " + entry->name + " overlaps tensor " + before->name;
    if (entry->offset > end) {
      return "bytes " + std::to_string(end) + " to " + std::to_string(entry->offset) + " before tensor " +
             entry->name + " belong to no tensor";
    }
    end = entry->offset + entry->bytes;
    before = entry;
  }
  if (end != data_bytes) {
    return "the tensors end at byte " + std::to_string(end) + " of the data, the file at " +
           std::to_string(data_bytes);
  }
  return std::nullopt;
}

}  // namespace

std::string to_string(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Result<std::vector<TensorEntry>, LoadError> parse_safetensors_header(std::string_view json,
                                                                     std::int64_t data_bytes,
                                                                     std::string_view file) {
  LoadError error;
  const auto problem = [&](const std::string& what) {
    error.problems.push_back(std::string(file) + ": " + what);
  };
  simdjson::dom::parser parser;
  simdjson::dom::object header;
  element root;
  if (const auto failure = parser.parse(json.data(), json.size(), /*realloc_if_needed=*/true).get(root)) {
    problem(std::string("header is not valid JSON: ") + simdjson::error_message(failure));
    return error;
  }
  if (root.get(header) != simdjson::SUCCESS) {
    problem("header is not a JSON object");
    return error;
  }
  std::vector<TensorEntry> entries;
  std::set<std::string_view>
      names;  // the parser keeps every member, and a lookup would quietly take the first
  for (const auto& [name, value] : header) {
    if (!names.insert(name).second) problem("tensor " + std::string(name) + " appears twice in the header");
    if (name == "__metadata__") {
      if (const auto wrong = check_metadata(value)) problem("__metadata__ " + *wrong);
      continue;
    }
    TensorEntry entry;
    entry.name = name;
    if (const auto wrong = read_entry(value, data_bytes, entry))
      problem("tensor " + entry.name + ": " + *wrong);
    entries.push_back(std::move(entry));
  }
  if (error.problems.empty()) {
    if (const auto wrong = check_coverage(entries, data_bytes)) problem(*wrong);
  }
  if (!error.problems.empty()) return error;
  return entries;
}

Result<SafetensorsFile, LoadError> SafetensorsFile::open(const std::filesystem::path& path,
                                                         const std::string& name) {
  auto mapped = MappedFile::open(path);
  if (!mapped.ok()) return LoadError{{name + ": " + mapped.error()}};
  const std::int64_t size = mapped->size();
  if (size < kLengthBytes)
    return LoadError{{name + ": " + std::to_string(size) + " bytes are no safetensors file"}};

  std::uint64_t header_bytes = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) {
    header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(mapped->base()[i]);
  }
  // Compared before anything is added to it, allocated or read.
  const std::int64_t longest = std::min(size - kLengthBytes, kMaxHeaderBytes);
  if (header_bytes > static_cast<std::uint64_t>(longest)) {
    return LoadError{{name + ": header length " + std::to_string(header_bytes) + " is above " +
                      std::to_string(longest) + " (file of " + std::to_string(size) + " bytes)"}};
  }
  SafetensorsFile file;
  file.name_ = name;
  file.path_ = path;
  file.data_start_ = kLengthBytes + static_cast<std::int64_t>(header_bytes);
  const std::string_view json(reinterpret_cast<const char*>(mapped->base()) + kLengthBytes, header_bytes);
  auto tensors = parse_safetensors_header(json, size - file.data_start_, name);
  if (!tensors.ok()) return std::move(tensors).error();
  file.tensors_ = std::move(tensors).value();
  file.mapped_ = std::move(mapped).value();
  return file;
}

}  // namespace model
