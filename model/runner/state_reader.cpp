#include "model/runner/state_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace model {
namespace {

using gpu::Rows;

/// Rows of f32 or bf16 matrices, in the order asked for.
class RowReader {
 public:
  explicit RowReader(gpu::Stream& stream) : stream_(stream) {}

  void add(std::vector<float>& out, gpu::Matrix matrix, std::int64_t row) {
    row_.resize(static_cast<std::size_t>(gpu::bytes_of(matrix.dtype, matrix.cols).n));
    const gpu::Bytes size{std::ssize(row_)};
    if (!stream_.copy_to_host(row_.data(), matrix.from_row(Rows{row}).base, size, "read state").ok()) return;
    if (!stream_.synchronize().ok()) return;
    for (std::int64_t c = 0; c < matrix.cols.n; ++c) out.push_back(value(matrix.dtype, c));
  }
  /// The last `history` positions before `fed`, oldest first; zero before the start.
  std::vector<float> ring(gpu::Matrix matrix, std::int32_t ring_rows, std::int32_t history, StateSlot slot,
                          Position fed) {
    std::vector<float> out;
    for (Position p = fed - history; p < fed; ++p) {
      if (p < 0) {
        out.insert(out.end(), static_cast<std::size_t>(matrix.cols.n), 0.0F);
      } else {
        add(out, matrix, std::int64_t{slot} * ring_rows + p % ring_rows);
      }
    }
    return out;
  }

 private:
  float value(gpu::DType dtype, std::int64_t column) const {
    assert(dtype == gpu::DType::f32 || dtype == gpu::DType::bf16);
    if (dtype == gpu::DType::f32) {
      float f32 = 0.0F;
      std::memcpy(&f32, row_.data() + column * std::int64_t{sizeof f32}, sizeof f32);
      return f32;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, row_.data() + column * std::int64_t{sizeof bits}, sizeof bits);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  gpu::Stream& stream_;
  std::vector<std::byte> row_;
};

}  // namespace

NamedState read_slot_state(gpu::Stream& stream, const ModelConfig& config, const ServePlan& plan,
                           const std::vector<LayerMemory>& layers, const SlotRecord& record, StateSlot slot,
                           Position fed) {
  RowReader reader(stream);
  NamedState state;
  const std::int64_t block = plan.block_size;
  const auto page_of = [&](Position p) -> std::int64_t {
    return record.pages[static_cast<std::size_t>(p / block)];
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string prefix = "layer" + std::to_string(i) + ".";
    const auto put = [&](const char* name) -> std::vector<float>& {
      return state.emplace_back(prefix + name, std::vector<float>()).second;
    };
    const LayerMemory& layer = layers[i];
    if (layer.ple.conv_ring.base != nullptr)
      put("ple_conv") =
          reader.ring(layer.ple.conv_ring, layer.ple.conv_ring_rows, config.ple->conv_history(), slot, fed);
    if (layer.recurrent.state.base != nullptr) {
      put("conv") = reader.ring(layer.recurrent.conv_ring, layer.recurrent.conv_ring_rows,
                                config.gdn->conv_kernel - 1, slot, fed);
      auto& recurrent = put("recurrent");
      for (std::int32_t h = 0; h < config.gdn->num_v_heads; ++h)
        reader.add(recurrent, layer.recurrent.state, std::int64_t{slot} * config.gdn->num_v_heads + h);
    }
    const AttentionMemory& attention = layer.attention;
    if (attention.keys.base == nullptr) continue;
    auto& keys = put("keys");
    for (Position p = 0; p < fed; ++p) reader.add(keys, attention.keys, page_of(p) * block + p % block);
    auto& values = put("values");
    for (Position p = 0; p < fed; ++p) reader.add(values, attention.values, page_of(p) * block + p % block);
    if (attention.index_ring.base == nullptr) continue;
    put("index_ring") = reader.ring(attention.index_ring, attention.index_ring_rows,
                                    std::min(attention.index_ring_rows, fed), slot, fed);
    auto& closed = put("index_keys");
    const std::int32_t ratio = config.indexer->ratio;
    for (Position p = 0; p + ratio <= fed; p += ratio)
      reader.add(closed, attention.index_keys, (page_of(p) * block + p % block) / ratio);
  }
  return state;
}

}  // namespace model
