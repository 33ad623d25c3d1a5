#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/dtype.h"

namespace kernels {

/// Products with one weight that took a slower path than its shape's usual one, because a library refused.
struct GemmFallbacks {
  std::string shape;  ///< "2560x4096_bf16": the weight's N and K, the result's type
  std::uint64_t count = 0;
};

/// Counts them between two calls of `take`. Owned by a backend's ops, and used by their thread.
class FallbackCounts {
 public:
  void add(std::int64_t n, std::int64_t k, gpu::DType y) { ++counts_[{n, k, y}]; }
  std::vector<GemmFallbacks> take() {
    std::vector<GemmFallbacks> taken;
    for (const auto& [shape, count] : counts_) {
      const auto& [n, k, y] = shape;
      taken.push_back(
          {std::to_string(n) + 'x' + std::to_string(k) + '_' + std::string(gpu::to_string(y)), count});
    }
    counts_.clear();
    return taken;
  }

 private:
  std::map<std::tuple<std::int64_t, std::int64_t, gpu::DType>, std::uint64_t> counts_;
};

}  // namespace kernels
