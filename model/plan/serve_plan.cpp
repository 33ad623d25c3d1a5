#include "model/plan/serve_plan.h"

#include <algorithm>
#include <bit>

#include "gpu/units.h"
#include "kernels/recurrent.h"
#include "model/arch/limits.h"
#include "model/plan/plan_memory.h"
#include "model/plan/violations.h"
#include "model/runner/step_buffers.h"

namespace model {
namespace {

constexpr std::int32_t kGrid = kernels::kGdnChunk;
constexpr std::int32_t kDefaultMaxSeqLen = 32768;

void resolve(const ModelConfig& config, const PlanOptions& options, gpu::Backend backend, ServePlan& plan) {
  const bool cpu = backend == gpu::Backend::cpu;
  plan.activation = activation_type(options.dtype, backend);
  plan.weight_matrices = weight_matrix_type(options.dtype, backend);
  plan.max_seq_len = options.max_seq_len.value_or(std::min(config.max_positions, kDefaultMaxSeqLen));
  plan.max_batch_size = options.max_batch_size.value_or(cpu ? 8 : 64);
  plan.max_prefill_tokens = options.max_prefill_tokens.value_or(cpu ? 512 : 8192);
  plan.num_drafts = options.num_drafts;
  plan.block_size = options.block_size;
  plan.snapshot_slots = options.snapshot_slots;
  plan.vocab_size = config.vocab_size;
}

void check_types(const PlanOptions& options, gpu::Backend backend, const ServePlan& plan,
                 Violations& violations) {
  const std::string computed = plan.activation == gpu::DType::bf16 ? "bfloat16" : "float32";
  violations.require(backend == gpu::Backend::cuda || options.dtype != DTypeOption::bfloat16,
                     "--dtype bfloat16: the CPU backend computes in float32 only");
  violations.require(options.kv_cache_dtype == DTypeOption::automatic ||
                         activation_type(options.kv_cache_dtype, gpu::Backend::cuda) == plan.activation,
                     "--kv-cache-dtype: keys and values are kept in the type of activations; " + computed +
                         ", or auto, is needed");
}

void check_options(const ModelConfig& config, const PlanOptions& options, const ServePlan& plan,
                   Violations& violations) {
  violations.range("--max-seq-len", plan.max_seq_len, 2, config.max_positions,
                   "the model has " + std::to_string(config.max_positions) + " positions");
  violations.range("--max-batch-size", plan.max_batch_size, 1, plan_limits::kSequences,
                   "that many sequences decode in one step");
  violations.range("--max-prefill-tokens", plan.max_prefill_tokens, kGrid, plan_limits::kPrefillTokens,
                   "chunks of a prompt start on a grid of " + std::to_string(kGrid));
  violations.range("--num-drafts", plan.num_drafts, 0, plan_limits::kDrafts, "drafts of one verify step");
  violations.require(
      plan.num_drafts <= 0 || config.mtp.has_value(),
      "--num-drafts is " + std::to_string(plan.num_drafts) + ": this model has no MTP layer; 0 is needed");
  violations.require(
      plan.block_size == 16 || plan.block_size == 32 || plan.block_size == 64,
      "--block-size is " + std::to_string(plan.block_size) + ": a page holds 16, 32 or 64 positions");
  if (config.indexer) {
    violations.require(plan.block_size % config.indexer->ratio == 0,
                       "--block-size is " + std::to_string(plan.block_size) + ": index keys of " +
                           std::to_string(config.indexer->ratio) +
                           " positions lie in one page; a multiple of " +
                           std::to_string(config.indexer->ratio) + " is needed");
  }
  violations.range("--snapshot-slots", options.snapshot_slots, 0, plan_limits::kSnapshotSlots,
                   "rollback points that a sequence keeps");
  violations.require(options.gpu_memory_utilization > 0.0 && options.gpu_memory_utilization <= 1.0,
                     "--gpu-memory-utilization is " + std::to_string(options.gpu_memory_utilization) +
                         ": a share of the memory; above 0, at most 1 is possible");
}

bool is_within(std::int64_t value, std::int64_t min, std::int64_t max) {
  return min <= value && value <= max;
}

/// Whether the options are of a size that capacities can be computed from.
bool computable(const ServePlan& plan) {
  return is_within(plan.max_seq_len, 1, limits::kPositions.max) &&
         is_within(plan.max_batch_size, 1, plan_limits::kSequences) &&
         is_within(plan.max_prefill_tokens, 1, plan_limits::kPrefillTokens) &&
         is_within(plan.num_drafts, 0, plan_limits::kDrafts) && is_within(plan.block_size, 1, 64) &&
         is_within(plan.snapshot_slots, 0, plan_limits::kSnapshotSlots);
}

/// Rows of a step. Prefill-form rows p lie at 0 … p−1, decode-form rows from the next multiple of 64.
/// Decode-form rows are f re-fed ones, which count against max_prefill_tokens P, and at most D =
/// max_batch_size * (1 + drafts) others. With p + f <= P:
///   round64(p) + f + D  <=  (p + 63) + f + D  <=  P + 63 + D,
/// and p = 1, f = P − 1 reaches it.
std::int32_t step_rows(const ServePlan& plan) {
  return plan.max_prefill_tokens + (kGrid - 1) + plan.max_batch_size * (1 + plan.num_drafts);
}

void derive_counts(const ModelConfig& config, ServePlan& plan) {
  plan.chunk_width = plan.max_prefill_tokens / kGrid * kGrid;
  plan.max_batch_tokens = plan.max_prefill_tokens + plan.max_batch_size * (1 + plan.num_drafts);
  plan.max_step_rows = step_rows(plan);
  plan.pages_per_sequence = static_cast<std::int32_t>(gpu::ceil_div(plan.max_seq_len, plan.block_size));
  plan.num_state_slots = plan.max_batch_size;
  plan.prompt_logits_rows = kGrid;  // the narrowest chunk: their logits are a step's largest scratch
  if (config.indexer) {
    const std::int32_t ratio = config.indexer->ratio;
    plan.sparse_selection_bound = config.indexer->bound();
    plan.qsa_tokens = plan.max_seq_len;
    // The open block and every draft row have a ring row of their own: a rejected draft overwrites no
    // committed key.
    plan.qsa_ring_rows = static_cast<std::int32_t>(gpu::round_up(ratio + plan.num_drafts, ratio));
  }
  if (config.ple) {
    plan.ple_tokens = plan.max_batch_tokens;
    const auto rows = static_cast<std::uint64_t>(plan.max_batch_tokens) *
                      static_cast<std::uint64_t>(config.ple->num_heads());
    plan.ple_cache_slots = static_cast<std::int64_t>(std::bit_ceil(rows));
  }
}

std::string flag_is(const char* flag, std::int64_t value) {
  return std::string(flag) + " is " + std::to_string(value);
}

void override_index(const ModelConfig& config, const PlanOptions& options, ServePlan& plan,
                    Violations& violations) {
  if (!options.qsa_max_tokens) return;
  const std::string flag = flag_is("--qsa-max-tokens", *options.qsa_max_tokens);
  if (!config.indexer) {
    plan.notes.push_back(flag + ": this model has no sparse attention; unused");
    return;
  }
  violations.require(*options.qsa_max_tokens >= plan.max_seq_len,
                     flag + ": the index holds one sequence; --max-seq-len " +
                         std::to_string(plan.max_seq_len) + " is needed");
  plan.qsa_tokens = *options.qsa_max_tokens;
  if (plan.qsa_tokens > plan.max_seq_len)
    plan.notes.push_back(flag + ": a sequence ends at --max-seq-len " + std::to_string(plan.max_seq_len) +
                         ", nothing is taken beyond it");
}

void override_rows(const ModelConfig& config, const PlanOptions& options, ServePlan& plan,
                   Violations& violations) {
  if (options.ple_max_tokens) {
    const std::string flag = flag_is("--ple-max-tokens", *options.ple_max_tokens);
    violations.require(*options.ple_max_tokens >= plan.max_batch_tokens,
                       flag + ": --max-prefill-tokens and --max-batch-size bring up to " +
                           std::to_string(plan.max_batch_tokens) + " tokens a step; as many are needed");
    plan.ple_tokens = *options.ple_max_tokens;
    if (plan.ple_tokens > plan.max_batch_tokens)
      plan.notes.push_back(flag + ": a step has at most " + std::to_string(plan.max_batch_tokens) +
                           " tokens, no scratch is taken for more");
  }
  if (options.ple_cache_slots) {
    const auto rows = std::int64_t{plan.max_batch_tokens} * config.ple->num_heads();
    violations.require(*options.ple_cache_slots >= rows,
                       flag_is("--ple-cache-slots", *options.ple_cache_slots) + ": a step reads " +
                           std::to_string(rows) + " rows; as many are needed");
    plan.ple_cache_slots = *options.ple_cache_slots;
  }
}

/// What the operator set in place of a derived capacity: below the floor nothing could hold, and no request
/// is to find that out.
void override_counts(const ModelConfig& config, const PlanOptions& options, ServePlan& plan,
                     Violations& violations) {
  override_index(config, options, plan, violations);
  if (config.ple) return override_rows(config, options, plan, violations);
  const auto unused = [&plan](const char* flag, std::int64_t value) {
    plan.notes.push_back(flag_is(flag, value) + ": this model has no n-gram rows; unused");
  };
  if (options.ple_max_tokens) unused("--ple-max-tokens", *options.ple_max_tokens);
  if (options.ple_cache_slots) unused("--ple-cache-slots", *options.ple_cache_slots);
}

}  // namespace

gpu::DType activation_type(DTypeOption option, gpu::Backend backend) {
  if (backend == gpu::Backend::cpu || option == DTypeOption::float32) return gpu::DType::f32;
  return gpu::DType::bf16;
}

std::optional<gpu::DType> weight_matrix_type(DTypeOption option, gpu::Backend backend) {
  if (backend == gpu::Backend::cpu) return std::nullopt;
  return activation_type(option, backend);
}

Result<ServePlan, LoadError> derive_serve_plan(const ModelConfig& config, const PlanOptions& options,
                                               const gpu::DeviceFacts& facts) {
  ServePlan plan;
  Violations violations;
  resolve(config, options, facts.backend, plan);
  check_types(options, facts.backend, plan, violations);
  check_options(config, options, plan, violations);
  if (!computable(plan))
    return violations.take();  // nothing can be derived from them; all others are derived and checked too
  derive_counts(config, plan);
  override_counts(config, options, plan, violations);
  plan.arena_bytes = step_arena_bytes(config, plan);
  plan.ple_scratch_bytes = ple_scratch_bytes(config, plan);
  derive_memory(config, options, facts, plan, violations);
  if (!violations.none()) return violations.take();
  return plan;
}

}  // namespace model
