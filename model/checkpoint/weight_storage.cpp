#include "model/checkpoint/weight_storage.h"

namespace model {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kBufferBytes = std::int64_t{4} << 30;  // a larger weight has a buffer of its own

struct Place {
  std::size_t buffer = 0;
  std::int64_t offset = 0;
};

void point(const WeightSpec& weight, gpu::DType dtype, const std::byte* address) {
  const gpu::Elements cols{weight.cols};
  const gpu::ConstMatrix view{address, dtype, gpu::Rows{weight.rows}, cols, cols};
  if (const auto* target = std::get_if<Weight*>(&weight.target)) {
    **target = Weight(view);
  } else if (const auto* matrix = std::get_if<gpu::ConstMatrix*>(&weight.target)) {
    **matrix = view;
  } else {
    *std::get<gpu::ConstVector*>(weight.target) = {address, dtype, cols};
  }
}

}  // namespace

gpu::DType device_dtype(const WeightSpec& weight, gpu::DType stored) {
  return weight.storage == WeightSpec::Storage::widened ? gpu::DType::f32 : stored;
}

Result<WeightStorage, LoadError> place_weights(const WeightMap& map, const std::vector<gpu::DType>& stored,
                                               gpu::Device& device) {
  WeightStorage storage;
  std::vector<Place> places;
  std::vector<std::int64_t> sizes{0};
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    const WeightSpec& weight = map.weights[i];
    const std::int64_t bytes =
        gpu::bytes_of(device_dtype(weight, stored[i]), gpu::Elements{weight.rows * weight.cols}).n;
    const std::int64_t padded = gpu::round_up(bytes, kAlignment);
    if (sizes.back() > 0 && sizes.back() + padded > kBufferBytes) sizes.push_back(0);
    places.push_back({sizes.size() - 1, sizes.back()});
    sizes.back() += padded;
    storage.bytes += bytes;
  }
  for (std::int64_t size : sizes) {
    auto buffer = device.allocate(gpu::Bytes{size}, "weights");
    if (!buffer.ok()) return LoadError{{"weights: " + buffer.error().what}};
    device.expect_streaming(*buffer);
    storage.buffers.push_back(std::move(buffer).value());
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    storage.addresses.push_back(storage.buffers[places[i].buffer].base() + places[i].offset);
    point(map.weights[i], device_dtype(map.weights[i], stored[i]), storage.addresses.back());
  }
  return storage;
}

}  // namespace model
