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
