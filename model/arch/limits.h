#pragma once

#include <cstdint>

namespace model {

struct IntegerRange {
  std::int64_t min = 0, max = 0;
};
struct NumberRange {
  double min = 0.0, max = 0.0;
};

/// Bounds of what a config may say: several times what any known model has, and small enough that no product
/// of sizes leaves 64 bits.
namespace limits {
inline constexpr IntegerRange kVocab{1, 1 << 24}, kHidden{8, 1 << 17}, kLayers{1, 512}, kLayerIndex{0, 511},
    kHeads{1, 1024}, kHeadDim{2, 1024}, kIntermediate{1, 1 << 20}, kExperts{1, 2048}, kTaps{1, 64},
    kStreams{2, 64}, kPositions{1, 1 << 30}, kToken{0, (1 << 24) - 1};
inline constexpr std::int64_t kMaxAttentionWidth = 1 << 17;  // heads * head_dim
}  // namespace limits

}  // namespace model
