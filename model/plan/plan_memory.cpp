#include "model/plan/plan_memory.h"

#include <algorithm>

#include "gpu/units.h"
#include "model/checkpoint/weight_map.h"
#include "model/plan/byte_text.h"
#include "model/plan/ple_placement.h"

namespace model {
namespace {

constexpr std::int64_t kMostPages = 1 << 30;

std::string str(std::int64_t n) { return std::to_string(n); }

/// Bytes that neither weights nor scratch nor state take.
std::int64_t bytes_left(const ServePlan& plan) {
  return std::max<std::int64_t>(0, plan.memory_ceiling.n - plan.weight_bytes.n - plan.state_bytes.n -
                                       plan.arena_bytes.n - plan.ple_store_on_device.n);
}

std::string room_text(const ServePlan& plan) {
  return byte_text(gpu::Bytes{bytes_left(plan)}) + " are left of " + byte_text(plan.memory_ceiling) +
         " after weights (" + byte_text(plan.weight_bytes) + "), " +
         (plan.ple_store_on_device.n == 0 ? ""
                                          : "n-gram rows (" + byte_text(plan.ple_store_on_device) + "), ") +
         "a step's scratch (" + byte_text(plan.arena_bytes) + ") and the state of " +
         str(plan.num_state_slots) + " sequences (" + byte_text(plan.state_bytes) + ")";
}

/// Pages that the operator chose.
std::int64_t chosen_pages(std::int64_t tokens, std::int64_t page, const ServePlan& plan,
                          Violations& violations) {
  const std::string flag = "--kv-cache-tokens is " + str(tokens);
  const std::int64_t pages =
      gpu::ceil_div(std::clamp<std::int64_t>(tokens, 0, std::int64_t{1} << 40), plan.block_size);
  const std::int64_t fitting = std::min(page == 0 ? kMostPages : bytes_left(plan) / page, kMostPages);
  violations.require(pages >= plan.pages_per_sequence,
                     flag + ": one sequence of --max-seq-len " + str(plan.max_seq_len) + " must fit; " +
                         str(std::int64_t{plan.pages_per_sequence} * plan.block_size) + " are needed");
  violations.require(pages <= fitting,
                     flag + ": " + room_text(plan) + "; at most " + str(fitting * plan.block_size) + " fit");
  return std::min(pages, kMostPages);
}

/// Pages that all sequences would fill, or that fit.
std::int64_t fitting_pages(std::int64_t page, const ServePlan& plan, Violations& violations) {
  const std::int64_t most = std::int64_t{plan.max_batch_size} * plan.pages_per_sequence;
  const std::int64_t fitting = page == 0 ? most : bytes_left(plan) / page;
  violations.require(fitting >= plan.pages_per_sequence,
                     "KV memory: one sequence of --max-seq-len " + str(plan.max_seq_len) + " needs " +
                         byte_text(gpu::Bytes{page} * plan.pages_per_sequence) + ", " + room_text(plan) +
                         "; --max-seq-len of at most " + str(fitting * plan.block_size) +
                         ", or more memory, is needed");
  return std::min({fitting, most, kMostPages});
}

/// Snapshots that are kept beside `pages` pages at most, of which `least` are kept in any case.
std::int64_t fitting_snapshots(std::int64_t pages, std::int64_t least, std::int64_t page,
                               const ServePlan& plan) {
  const std::int64_t spare = std::max<std::int64_t>(0, bytes_left(plan) - least * page);
  const std::int64_t unused = std::max<std::int64_t>(0, spare - (pages - least) * page);
  const std::int64_t wanted = std::int64_t{plan.max_batch_size} * plan.snapshot_slots;
  const std::int64_t share = pages == least ? spare : std::max(spare / 2, unused);
  return plan.snapshot_bytes.n == 0 ? 0 : std::min(wanted, share / plan.snapshot_bytes.n);
}

void shrink_ring(ServePlan& plan) {
  const std::int32_t ring = plan.num_snapshots / plan.max_batch_size;
  if (ring == plan.snapshot_slots) return;
  plan.notes.push_back("--snapshot-slots is " + str(plan.snapshot_slots) + ": " + str(plan.num_snapshots) +
                       " snapshots of " + byte_text(plan.snapshot_bytes) + " fit, " + str(ring) +
                       " a sequence");
  plan.snapshot_slots = ring;
}

}  // namespace

void derive_memory(const ModelConfig& config, const PlanOptions& options, const gpu::DeviceFacts& facts,
                   ServePlan& plan, Violations& violations) {
  const auto share =
      static_cast<std::int64_t>(static_cast<double>(facts.memory_total.n) * options.gpu_memory_utilization);
  plan.memory_total = facts.memory_total;
  plan.memory_ceiling = {std::min(share, facts.memory_free.n)};
  plan.weight_bytes =
      options.weight_bytes ? *options.weight_bytes : device_weight_bytes(config, plan.weight_matrices);
  plan.sequence = sequence_bytes(config, plan);
  plan.state_bytes = slot_bytes(config, plan) * plan.num_state_slots;
  plan.snapshot_bytes = snapshot_bytes(config, plan);

  const std::int64_t page = page_bytes(config, plan).n;
  place_tables(config, options, facts.backend,
               plan.memory_ceiling.n - plan.weight_bytes.n - plan.state_bytes.n - plan.arena_bytes.n -
                   page * plan.pages_per_sequence,
               plan, violations);
  std::int64_t pages = options.kv_cache_tokens
                           ? chosen_pages(*options.kv_cache_tokens, page, plan, violations)
                           : fitting_pages(page, plan, violations);
  if (options.rolls_back && violations.none()) {
    const std::int64_t least = options.kv_cache_tokens ? pages : plan.pages_per_sequence;
    const std::int64_t most =
        options.kv_cache_tokens ? pages : std::int64_t{plan.max_batch_size} * plan.pages_per_sequence;
    plan.num_snapshots = static_cast<std::int32_t>(fitting_snapshots(most, least, page, plan));
    plan.snapshot_pool_bytes = plan.snapshot_bytes * plan.num_snapshots;
    shrink_ring(plan);
    if (page > 0) pages = std::min(pages, (bytes_left(plan) - plan.snapshot_pool_bytes.n) / page);
  }
  plan.num_pages = static_cast<std::int32_t>(pages);
  plan.kv_bytes = gpu::Bytes{page} * plan.num_pages;
}

}  // namespace model
