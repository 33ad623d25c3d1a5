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

  /// `count` rows that follow one another: one copy.
  void add(std::vector<float>& out, gpu::Matrix matrix, std::int64_t first, std::int64_t count = 1) {
    bytes_.resize(static_cast<std::size_t>(gpu::bytes_of(matrix.dtype, Rows{count} * matrix.pitch).n));
    const gpu::Bytes size{std::ssize(bytes_)};
    if (!stream_.copy_to_host(bytes_.data(), matrix.from_row(Rows{first}).base, size, "read state").ok())
      return;
    if (!stream_.synchronize().ok()) return;
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t c = 0; c < matrix.cols.n; ++c)
        out.push_back(value(matrix.dtype, r * matrix.pitch.n + c));
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
  float value(gpu::DType dtype, std::int64_t element) const {
    assert(dtype == gpu::DType::f32 || dtype == gpu::DType::bf16);
    if (dtype == gpu::DType::f32) {
      float f32 = 0.0F;
      std::memcpy(&f32, bytes_.data() + element * std::int64_t{sizeof f32}, sizeof f32);
      return f32;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes_.data() + element * std::int64_t{sizeof bits}, sizeof bits);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  gpu::Stream& stream_;
  std::vector<std::byte> bytes_;
};

}  // namespace

NamedState read_slot_state(gpu::Stream& stream, const ModelConfig& config, const ServePlan& plan,
                           const std::vector<LayerMemory>& layers, const SlotRecord& record, StateSlot slot,
                           Position fed) {
  RowReader reader(stream);
  NamedState state;
  // The first `count` rows of a sequence that has `rows_per_page` of them in each of its pages.
  const auto from_pages = [&](std::vector<float>& out, gpu::Matrix cache, std::int64_t rows_per_page,
                              std::int64_t count) {
    for (std::size_t page = 0; count > 0; ++page, count -= rows_per_page)
      reader.add(out, cache, record.pages[page] * rows_per_page, std::min(count, rows_per_page));
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
      const std::int64_t heads = config.gdn->num_v_heads;
      reader.add(recurrent, layer.recurrent.state, slot * heads, heads);
    }
    const AttentionMemory& attention = layer.attention;
    if (attention.keys.base == nullptr) continue;
    from_pages(put("keys"), attention.keys, plan.block_size, fed);
    from_pages(put("values"), attention.values, plan.block_size, fed);
    if (attention.index_ring.base == nullptr) continue;
    put("index_ring") = reader.ring(attention.index_ring, attention.index_ring_rows,
                                    std::min(attention.index_ring_rows, fed), slot, fed);
    const std::int32_t ratio = config.indexer->ratio;
    from_pages(put("index_keys"), attention.index_keys, plan.block_size / ratio, fed / ratio);
  }
  return state;
}

}  // namespace model
