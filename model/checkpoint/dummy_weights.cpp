#include "model/checkpoint/dummy_weights.h"

#include <algorithm>
#include <bit>

#include "model/checkpoint/widen.h"

namespace model {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;
/// Larger weights repeat themselves: drawing all numbers of a large model takes minutes, copying them does
/// not.
constexpr std::int64_t kPeriodElements = std::int64_t{1} << 26;
constexpr float kDeviationOfFourBytes = 147.80F;  // of the sum of four uniform bytes
constexpr float kMeanOfFourBytes = 510.0F;

constexpr std::uint64_t mix(std::uint64_t v) {
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ULL;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EBULL;
  return v ^ (v >> 31);
}

/// The sum of four bytes is close enough to a normal variate, and two come out of one hash.
float bell(std::uint32_t bits) {
  const std::uint32_t pairs = (bits & 0x00FF00FFU) + ((bits >> 8) & 0x00FF00FFU);
  const auto sum = static_cast<float>((pairs & 0xFFFFU) + (pairs >> 16));
  return (sum - kMeanOfFourBytes) / kDeviationOfFourBytes;
}

/// Values of the elements [first, first + values.size()); `first` is even.
void draw(std::uint64_t key, std::int64_t first, DummyValues dummy, std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const std::uint64_t bits = mix(key + 0x9E3779B97F4A7C15ULL * (static_cast<std::uint64_t>(first) + i + 1));
    values[i] = dummy.center + dummy.deviation * bell(static_cast<std::uint32_t>(bits));
    if (i + 1 < values.size()) {
      values[i + 1] = dummy.center + dummy.deviation * bell(static_cast<std::uint32_t>(bits >> 32));
    }
  }
}

}  // namespace

gpu::Status fill_with_dummy_values(const WeightMap& map, const WeightStorage& storage, std::uint64_t seed,
                                   gpu::Stream& stream,
                                   const std::function<void(std::int64_t bytes)>& filled) {
  std::vector<float> values;
  std::vector<gpu::bf16> narrow;
  for (std::size_t w = 0; w < map.weights.size(); ++w) {
    const WeightSpec& weight = map.weights[w];
    const std::uint64_t key = mix(seed + 0x9E3779B97F4A7C15ULL * (w + 1));
    const bool wide = storage.forms[w].device.dtype == gpu::DType::f32;
    const auto width = static_cast<std::int64_t>(wide ? sizeof(float) : sizeof(gpu::bf16));
    const std::int64_t total = weight.rows * weight.cols, drawn = std::min(total, kPeriodElements);
    for (std::int64_t first = 0; first < drawn; first += kChunkElements) {
      values.resize(static_cast<std::size_t>(std::min(kChunkElements, drawn - first)));
      draw(key, first, weight.dummy, values);
      narrow.resize(values.size());
      std::transform(values.begin(), values.end(), narrow.begin(), narrow_to_bf16);
      if (wide) {  // as if a bf16 checkpoint had been widened
        std::transform(narrow.begin(), narrow.end(), values.begin(), [](gpu::bf16 v) {
          return std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16);
        });
      }
      const gpu::Bytes bytes{width * static_cast<std::int64_t>(values.size())};
      const void* from = wide ? static_cast<const void*>(values.data()) : narrow.data();
      RETURN_IF_ERROR(
          stream.copy_to_device(storage.addresses[w] + first * width, from, bytes, "dummy weights"));
      filled(bytes.n);
    }
    for (std::int64_t first = drawn; first < total; first += drawn) {
      const gpu::Bytes bytes{width * std::min(drawn, total - first)};
      RETURN_IF_ERROR(
          stream.copy(storage.addresses[w] + first * width, storage.addresses[w], bytes, "dummy weights"));
      filled(bytes.n);
    }
  }
  return stream.synchronize();
}

}  // namespace model
