#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace model::testing {

/// GGUF bytes, right or wrong as the test says: nothing is checked, counts are what was asked for.
class GgufBytes {
 public:
  template <class T>
  GgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  GgufBytes& text(std::string_view text) {
    number(std::uint64_t{text.size()});
    return raw(text);
  }
  GgufBytes& start(std::uint64_t num_tensors, std::uint64_t num_keys, std::uint32_t version = 3) {
    return raw("GGUF").number(version).number(num_tensors).number(num_keys);
  }
  GgufBytes& key(std::string_view name, std::uint32_t type) { return text(name).number(type); }
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                    std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t size : dimensions) number(size);
    return number(type).number(offset);
  }
  /// Pads the header, then `count` zero bytes.
  GgufBytes& data(std::size_t count, std::size_t alignment = 32) {
    bytes_.append((alignment - bytes_.size() % alignment) % alignment, '\0');
    bytes_.append(count, '\0');
    return *this;
  }

  const std::string& bytes() const { return bytes_; }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

}  // namespace model::testing
