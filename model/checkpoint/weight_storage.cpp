#include "model/checkpoint/weight_storage.h"

namespace model {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kBufferBytes = std::int64_t{4} << 30;  // a larger weight has a buffer of its own

struct Place {
  std::size_t buffer = 0;
  std::int64_t offset = 0;
};

void point(const WeightSpec& weight, const WeightForm& form, const std::byte* address) {
  const gpu::Elements cols{weight.cols};
  const StoredType& type = form.device;
  if (type.quantized) {
    **std::get_if<Weight*>(&weight.target) =
        Weight(kernels::QuantizedMatrix{address, *type.quantized, form.layout, {weight.rows}, cols});
    return;
  }
  const gpu::ConstMatrix view{address, type.dtype, gpu::Rows{weight.rows}, cols, cols};
  if (const auto* target = std::get_if<Weight*>(&weight.target)) {
    **target = Weight(view);
  } else if (const auto* matrix = std::get_if<gpu::ConstMatrix*>(&weight.target)) {
    **matrix = view;
  } else {
    *std::get<gpu::ConstVector*>(weight.target) = {address, type.dtype, cols};
  }
}

}  // namespace

StoredType device_type(const WeightSpec& weight, const StoredType& stored,
                       std::optional<gpu::DType> matrices) {
  if (weight.storage == WeightSpec::Storage::widened) return gpu::DType::f32;
  if (matrices) return *matrices;
  return stored == StoredType(gpu::DType::f8_e4m3) ? StoredType(gpu::DType::bf16) : stored;
}

gpu::Bytes device_bytes(const WeightSpec& weight, const WeightForm& form) {
  const gpu::Rows rows{weight.rows};
  const gpu::Elements cols{weight.cols};
  if (form.device.quantized) return kernels::quantized_bytes(*form.device.quantized, form.layout, rows, cols);
  return gpu::bytes_of(form.device.dtype, rows * cols);
}

Result<WeightStorage, LoadError> place_weights(const WeightMap& map, const std::vector<WeightForm>& forms,
                                               gpu::Device& device) {
  WeightStorage storage;
  storage.forms = forms;
  std::vector<Place> places;
  std::vector<std::int64_t> sizes{0};
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    const std::int64_t bytes = device_bytes(map.weights[i], forms[i]).n;
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
    point(map.weights[i], forms[i], storage.addresses.back());
  }
  return storage;
}

}  // namespace model
