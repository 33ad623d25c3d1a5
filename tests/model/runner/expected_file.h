#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/checkpoint/safetensors.h"

namespace model::testing {

/// The values of an expected.safetensors. Remembers which keys a test has looked at.
class ExpectedFile {
 public:
  explicit ExpectedFile(const std::string& path) {
    auto file = SafetensorsFile::open(path, path);
    EXPECT_TRUE(file.ok()) << path;
    if (!file.ok()) return;
    for (const TensorEntry& tensor : file->tensors()) {
      const std::byte* bytes = file->bytes(tensor);
      Values& values = tensors_[tensor.name];
      values.shape = tensor.shape;
      const auto count = static_cast<std::size_t>(tensor.bytes / gpu::size_of(tensor.dtype));
      if (tensor.dtype == gpu::DType::f32) {
        values.floats.resize(count);
        if (count > 0) std::memcpy(values.floats.data(), bytes, count * sizeof(float));
      } else {
        EXPECT_EQ(tensor.dtype, gpu::DType::i32) << tensor.name;
        values.ints.resize(count);
        if (count > 0) std::memcpy(values.ints.data(), bytes, count * sizeof(std::int32_t));
      }
    }
  }

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
