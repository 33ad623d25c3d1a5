#pragma once

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace model::testing {

/// The values of an expected.safetensors (F32 and I32, a dtype that checkpoints do not have). Remembers which
/// keys a test has looked at.
class ExpectedFile {
 public:
  explicit ExpectedFile(const std::string& path) { open(path); }

  bool has(const std::string& key) const { return tensors_.count(key) > 0; }
  const std::vector<float>& floats(const std::string& key) { return at(key).floats; }
  const std::vector<std::int32_t>& ints(const std::string& key) { return at(key).ints; }
  const std::vector<std::int64_t>& shape(const std::string& key) { return at(key).shape; }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& [name, values] : tensors_) names.push_back(name);
    return names;
  }
  std::vector<std::string> unused_keys() const {
    std::vector<std::string> names;
    for (const auto& [name, values] : tensors_)
      if (used_.count(name) == 0) names.push_back(name);
    return names;
  }

 private:
  struct Values {
    std::vector<std::int64_t> shape;
    std::vector<float> floats;
    std::vector<std::int32_t> ints;
  };
  void open(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::uint64_t header = 0;
    ASSERT_GE(bytes.size(), sizeof header) << path;
    std::memcpy(&header, bytes.data(), sizeof header);
    const char* data = bytes.data() + sizeof header + header;
    simdjson::dom::parser parser;
    const simdjson::dom::object tensors = parser.parse(bytes.substr(sizeof header, header)).get_object();
    for (const auto& [name, tensor] : tensors) {
      if (name == "__metadata__") continue;
      Values& values = tensors_[std::string(name)];
      for (const auto extent : tensor["shape"].get_array()) values.shape.push_back(extent.get_int64());
      const auto begin = tensor["data_offsets"].at(0).get_uint64().value();
      const auto end = tensor["data_offsets"].at(1).get_uint64().value();
      ASSERT_LE(end, bytes.size() - sizeof header - header) << name;
      const std::string_view dtype = tensor["dtype"].get_string();
      if (dtype == "F32") {
        read(values.floats, data + begin, end - begin);
      } else {
        ASSERT_EQ(dtype, "I32") << name;
        read(values.ints, data + begin, end - begin);
      }
    }
  }
  template <class T>
  static void read(std::vector<T>& values, const char* bytes, std::size_t size) {
    values.resize(size / sizeof(T));
    if (size > 0) std::memcpy(values.data(), bytes, size);
  }
  const Values& at(const std::string& key) {
    used_.insert(key);
    const auto found = tensors_.find(key);
    EXPECT_NE(found, tensors_.end()) << "no key " << key;
    return found == tensors_.end() ? none_ : found->second;
  }
  std::map<std::string, Values> tensors_;
  std::set<std::string> used_;
  Values none_;
};

/// max |a − b| / max |b|, the measure in which the fixtures' tolerance is given. NaN anywhere is infinitely
/// far.
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference == 0.0 ? 0.0 : difference / largest;
}

/// rows × cols → cols × rows.
template <class T>
std::vector<T> transposed(const std::vector<T>& values, std::size_t rows, std::size_t cols) {
  std::vector<T> out(values.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) out[c * rows + r] = values[r * cols + c];
  return out;
}

}  // namespace model::testing
