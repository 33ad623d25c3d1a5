#include "model/runner/model_memory.h"

#include "model/runner/step_buffers.h"

namespace model {
namespace {

gpu::Status take_tables(const ServePlan& plan, gpu::Arena& arena, ModelMemory& memory) {
  const gpu::Rows slots{plan.num_state_slots};
  auto ids = arena.matrix(gpu::DType::i32, slots, gpu::Elements{plan.max_seq_len}, "token ids");
  if (!ids.ok()) return std::move(ids).error();
  auto pages = arena.matrix(gpu::DType::i32, slots, gpu::Elements{plan.pages_per_sequence}, "page tables");
  if (!pages.ok()) return std::move(pages).error();
  const gpu::Elements positions{plan.max_seq_len};
  auto counts = arena.matrix(gpu::DType::i32, slots, gpu::Elements{plan.vocab_size}, "penalty counts");
  if (!counts.ok()) return std::move(counts).error();
  auto seen = arena.matrix(gpu::DType::i32, slots, positions, "ids counted");
  if (!seen.ok()) return std::move(seen).error();
  auto progress = arena.matrix(gpu::DType::i32, gpu::Rows{2}, gpu::Elements{plan.num_state_slots}, "counted");
  if (!progress.ok()) return std::move(progress).error();
  const auto counted = gpu::typed<std::int32_t>(*progress);
  memory.penalties = {gpu::typed<std::int32_t>(*counts),
                      gpu::typed<std::int32_t>(*seen),
                      {counted.base, counted.cols},
                      {counted.base + counted.pitch.n, counted.cols}};
  memory.ids = gpu::typed<std::int32_t>(*ids);
  memory.page_table = gpu::typed<std::int32_t>(*pages);
  return gpu::Done{};
}

gpu::Status allocate(gpu::Device& device, gpu::Arena& arena, gpu::Bytes size, const char* what) {
  auto buffer = device.allocate(size, what);
  if (!buffer.ok()) return std::move(buffer).error();
  arena = gpu::Arena(*std::move(buffer));
  return gpu::Done{};
}

}  // namespace

gpu::Status clear_penalty_counts(gpu::Stream& stream, const ModelMemory& memory) {
  const auto clear = [&](std::int32_t* base, gpu::Elements size) {
    return stream.fill_zero(reinterpret_cast<std::byte*>(base), gpu::bytes_of<std::int32_t>(size),
                            "penalty counts");
  };
  const auto& penalties = memory.penalties;
  RETURN_IF_ERROR(clear(penalties.of_token.base, penalties.of_token.rows * penalties.of_token.pitch));
  RETURN_IF_ERROR(clear(penalties.counted.base, penalties.counted.size));
  return clear(penalties.num_seen.base, penalties.num_seen.size);
}

gpu::Result<ModelMemory, gpu::DeviceError> allocate_model_memory(gpu::Device& device,
                                                                 const ModelConfig& config,
                                                                 const ServePlan& plan) {
  ModelMemory memory;
  memory.layers.resize(config.layers.size());
  MeasuringArena measured;
  RETURN_IF_ERROR(take_tables(plan, measured.arena(), memory));
  RETURN_IF_ERROR(allocate(device, memory.tables, measured.high_water(), "token ids and page tables"));
  RETURN_IF_ERROR(take_tables(plan, memory.tables, memory));

  RETURN_IF_ERROR(allocate(device, memory.pages, page_memory_bytes(config, plan), "pages"));
  RETURN_IF_ERROR(take_page_memory(config, plan, memory.pages, memory.layers));
  RETURN_IF_ERROR(allocate(device, memory.slots, slot_memory_bytes(config, plan), "state slots"));
  RETURN_IF_ERROR(take_slot_memory(config, plan, memory.slots, memory.layers));
  RETURN_IF_ERROR(allocate(device, memory.step, step_arena_bytes(config, plan), "step arena"));
  return memory;
}

}  // namespace model
