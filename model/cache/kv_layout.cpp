#include "model/cache/kv_layout.h"

#include <limits>

namespace model {
namespace {

using gpu::DType;
using gpu::Elements;
using gpu::Rows;

bool is_attention(LayerKind kind) { return kind != LayerKind::linear_attention; }

bool has_ple(const ModelConfig& config, std::size_t layer) {
  if (!config.ple) return false;
  for (const LayerIndex at : config.ple->layers)
    if (at == static_cast<LayerIndex>(layer)) return true;
  return false;
}

bool has_indexer(const ModelConfig& config, std::size_t layer) {
  return config.indexer && config.layers[layer] == LayerKind::sparse_attention;
}

/// Gives addresses without memory behind them.
class AddressDevice final : public gpu::Device {
 public:
  gpu::DeviceFacts facts() const override { return {}; }
  gpu::Result<gpu::Buffer, gpu::DeviceError> allocate(gpu::Bytes size, const char*) override {
    // Addresses are computed and aligned as in a real arena, hence a base that is not null.
    return gpu::Buffer(this, reinterpret_cast<std::byte*>(std::uintptr_t{gpu::Arena::kAlignment}), size);
  }
  gpu::Result<std::unique_ptr<gpu::Stream>, gpu::DeviceError> create_stream() override {
    return gpu::refused("no stream of a device without memory");
  }

 private:
  void free(std::byte*, gpu::Bytes) noexcept override {}
};

/// Takes a matrix into `view`.
gpu::Status take(gpu::Arena& arena, Matrix& view, DType dtype, std::int64_t rows, std::int32_t cols,
                 const char* what) {
  auto taken = arena.matrix(dtype, Rows{rows}, Elements{cols}, what);
  if (!taken.ok()) return std::move(taken).error();
  view = *taken;
  return gpu::Done{};
}

}  // namespace

gpu::Status take_page_memory(const ModelConfig& config, const ServePlan& plan, gpu::Arena& arena,
                             std::vector<LayerMemory>& layers) {
  const std::int64_t positions = std::int64_t{plan.num_pages} * plan.block_size;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (!is_attention(config.layers[i])) continue;
    AttentionMemory& memory = layers[i].attention;
    const std::int32_t width = config.num_kv_heads * config.head_dim;
    RETURN_IF_ERROR(take(arena, memory.keys, plan.activation, positions, width, "key pages"));
    RETURN_IF_ERROR(take(arena, memory.values, plan.activation, positions, width, "value pages"));
    if (!has_indexer(config, i)) continue;
    RETURN_IF_ERROR(take(arena, memory.index_keys, plan.activation, positions / config.indexer->ratio,
                         config.indexer->head_dim, "index key pages"));
  }
  return gpu::Done{};
}

gpu::Status take_slot_memory(const ModelConfig& config, const ServePlan& plan, gpu::Arena& arena,
                             std::vector<LayerMemory>& layers) {
  const std::int64_t slots = plan.num_state_slots;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    LayerMemory& memory = layers[i];
    if (is_attention(config.layers[i])) {
      if (!has_indexer(config, i)) continue;
      memory.attention.index_ring_rows = plan.qsa_ring_rows;
      RETURN_IF_ERROR(take(arena, memory.attention.index_ring, plan.activation, slots * plan.qsa_ring_rows,
                           config.indexer->head_dim, "index key rings"));
    } else {
      const GdnConfig& gdn = *config.gdn;
      memory.recurrent.conv_ring_rows = gdn.conv_kernel - 1 + plan.num_drafts;
      RETURN_IF_ERROR(take(arena, memory.recurrent.conv_ring, plan.activation,
                           slots * memory.recurrent.conv_ring_rows, gdn.conv_width(), "convolution rings"));
      RETURN_IF_ERROR(take(arena, memory.recurrent.state, DType::f32, slots * gdn.num_v_heads,
                           gdn.k_dim * gdn.v_dim, "recurrent state"));
    }
    if (!has_ple(config, i)) continue;
    memory.ple.conv_ring_rows = config.ple->conv_history() + plan.num_drafts;
    RETURN_IF_ERROR(take(arena, memory.ple.conv_ring, plan.activation, slots * memory.ple.conv_ring_rows,
                         config.hyper_connection->num_streams * config.hidden_size, "ple convolution rings"));
  }
  return gpu::Done{};
}

MeasuringArena::MeasuringArena() : device_(std::make_unique<AddressDevice>()) {
  const gpu::Bytes everything{std::numeric_limits<std::int64_t>::max() / 2};
  arena_ = gpu::Arena(*device_->allocate(everything, "addresses"));
}

gpu::Bytes page_memory_bytes(const ModelConfig& config, const ServePlan& plan) {
  MeasuringArena measured;
  std::vector<LayerMemory> layers(config.layers.size());
  [[maybe_unused]] const auto taken = take_page_memory(config, plan, measured.arena(), layers);
  return measured.high_water();
}

gpu::Bytes slot_memory_bytes(const ModelConfig& config, const ServePlan& plan) {
  MeasuringArena measured;
  std::vector<LayerMemory> layers(config.layers.size());
  [[maybe_unused]] const auto taken = take_slot_memory(config, plan, measured.arena(), layers);
  return measured.high_water();
}

}  // namespace model
