#include "model/runner/device_constants.h"

#include <cstring>

namespace model {
namespace {

/// Host bytes of all constants, in the order in which views are handed out afterwards.
struct Packed {
  std::vector<std::byte> bytes;

  template <class T>
  std::int64_t append(const std::vector<T>& values) {
    const std::int64_t offset = gpu::round_up(std::ssize(bytes), 16);
    bytes.resize(static_cast<std::size_t>(offset) + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data() + offset, values.data(), values.size() * sizeof(T));
    return offset;
  }
};

template <class T>
gpu::VectorView<const T> view(const gpu::Buffer& buffer, std::int64_t offset, const std::vector<T>& values) {
  return {reinterpret_cast<const T*>(buffer.base() + offset), gpu::Elements{std::ssize(values)}};
}

}  // namespace

gpu::Result<DeviceConstants, gpu::DeviceError> upload_constants(gpu::Device& device, gpu::Stream& stream,
                                                                const ModelConfig& config,
                                                                const ModelWeights& weights,
                                                                std::vector<LayerMemory>& layers) {
  const RopeTable rope = make_rope_table(config.rope);
  Packed packed;
  const std::int64_t rope_offset = packed.append(rope.inv_freq);
  struct HashOffsets {
    std::size_t layer;
    std::int64_t multipliers, sizes, offsets;
  };
  std::vector<HashOffsets> hashes;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const auto& ple = weights.layers[i].ple;
    if (!ple) continue;
    hashes.push_back(
        {i, packed.append(ple->multipliers), packed.append(ple->sizes), packed.append(ple->offsets)});
  }

  auto buffer = device.allocate(gpu::Bytes{std::ssize(packed.bytes)}, "constants");
  if (!buffer.ok()) return std::move(buffer).error();
  DeviceConstants constants;
  constants.buffer = *std::move(buffer);
  RETURN_IF_ERROR(stream.copy_to_device(constants.buffer.base(), packed.bytes.data(), constants.buffer.size(),
                                        "constants"));
  constants.rope = {view(constants.buffer, rope_offset, rope.inv_freq), rope.attention_factor};
  for (const HashOffsets& at : hashes) {
    const PleWeights& ple = *weights.layers[at.layer].ple;
    layers[at.layer].ngram_hash = {view(constants.buffer, at.multipliers, ple.multipliers),
                                   view(constants.buffer, at.sizes, ple.sizes),
                                   view(constants.buffer, at.offsets, ple.offsets)};
  }
  return constants;
}

}  // namespace model
