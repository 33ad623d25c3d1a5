#include "model/plan/serve_plan.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "gpu/units.h"
#include "kernels/recurrent.h"
#include "model/arch/limits.h"
#include "model/checkpoint/weight_map.h"
#include "model/ple_store/ple_store.h"
#include "model/runner/step_buffers.h"
#include "model/text/json_escape.h"

namespace model {
namespace {

constexpr std::int32_t kGrid = kernels::kGdnChunk;
constexpr std::int32_t kDefaultMaxSeqLen = 32768;
constexpr std::int32_t kMostSequences = 1 << 16, kMostPrefillTokens = 1 << 22, kMostDrafts = 16;

std::string mib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

/// A row of a cache or ring: pitches are multiples of 16 bytes.
std::int64_t row_bytes(std::int64_t cols, std::int64_t element) { return gpu::round_up(cols * element, 16); }

std::int64_t count_layers(const ModelConfig& config, LayerKind kind) {
  return std::count(config.layers.begin(), config.layers.end(), kind);
}

/// Collects what does not hold. Each line says what, why and the value needed.
class Violations {
 public:
  void require(bool holds, const std::string& what) {
    if (!holds) error_.problems.push_back(what);
  }
  void range(const char* flag, std::int64_t value, std::int64_t min, std::int64_t max,
             const std::string& why) {
    require(value >= min && value <= max, std::string(flag) + " is " + std::to_string(value) + ": " + why +
                                              "; " + std::to_string(min) + " to " + std::to_string(max) +
                                              " are possible");
  }
  bool none() const { return error_.problems.empty(); }
  LoadError take() { return std::move(error_); }

 private:
  LoadError error_;
};

/// Bytes of one page: keys and values of `block` positions in every attention layer, and the index keys of
/// the blocks closed in them.
std::int64_t page_bytes(const ModelConfig& config, const ServePlan& plan, std::int64_t element) {
  const std::int64_t mtp = plan.num_drafts > 0 && config.mtp ? config.mtp->num_layers : 0;
  const std::int64_t sparse = count_layers(config, LayerKind::sparse_attention) + (config.indexer ? mtp : 0);
  const std::int64_t dense = count_layers(config, LayerKind::full_attention) + (config.indexer ? 0 : mtp);
  const std::int64_t kv_row = row_bytes(std::int64_t{config.num_kv_heads} * config.head_dim, element);
  std::int64_t bytes = (sparse + dense) * 2 * plan.block_size * kv_row;
  if (config.indexer) {
    bytes +=
        sparse * (plan.block_size / config.indexer->ratio) * row_bytes(config.indexer->head_dim, element);
  }
  return bytes;
}

/// Bytes of one sequence beside its pages. Rings hold their window and one row a draft, so that a rejected
/// draft overwrites nothing.
std::int64_t slot_bytes(const ModelConfig& config, const ServePlan& plan, std::int64_t element) {
  const std::int64_t drafts = plan.num_drafts;
  // Ids, page table, and what penalties count.
  std::int64_t bytes = 2 * row_bytes(plan.max_seq_len, 4) + row_bytes(plan.pages_per_sequence, 4) +
                       row_bytes(plan.vocab_size, 4) + 2 * 4;
  if (config.gdn) {
    const GdnConfig& gdn = *config.gdn;
    const std::int64_t state = std::int64_t{4} * gdn.num_v_heads * gdn.k_dim * gdn.v_dim;
    const std::int64_t conv = (gdn.conv_kernel - 1 + drafts) * row_bytes(gdn.conv_width(), element);
    const std::int64_t replay = drafts * 4 * (gdn.num_v_heads + gdn.key_width() + gdn.value_width());
    bytes += count_layers(config, LayerKind::linear_attention) * (state + conv + replay);
  }
  if (config.indexer) {
    const std::int64_t layers = count_layers(config, LayerKind::sparse_attention) + (drafts > 0 ? 1 : 0);
    bytes += layers * plan.qsa_ring_rows * row_bytes(config.indexer->head_dim, element);
  }
  const std::int64_t streams = config.hyper_connection ? config.hyper_connection->num_streams : 1;
  const std::int64_t stream_row = row_bytes(streams * config.hidden_size, element);
  if (config.ple) {
    bytes += static_cast<std::int64_t>(config.ple->layers.size()) * (config.ple->conv_history() + drafts) *
             stream_row;
  }
  if (drafts > 0) bytes += (1 + drafts) * stream_row;  // the stream rows that the draft layer still needs
  return bytes;
}

void resolve(const ModelConfig& config, const PlanOptions& options, gpu::Backend backend, ServePlan& plan) {
  const bool cpu = backend == gpu::Backend::cpu;
  plan.activation = activation_type(options.dtype, backend);
  plan.weight_matrices = weight_matrix_type(options.dtype, backend);
  plan.max_seq_len = options.max_seq_len.value_or(std::min(config.max_positions, kDefaultMaxSeqLen));
  plan.max_batch_size = options.max_batch_size.value_or(cpu ? 8 : 64);
  plan.max_prefill_tokens = options.max_prefill_tokens.value_or(cpu ? 512 : 8192);
  plan.num_drafts = options.num_drafts;
  plan.block_size = options.block_size;
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
  violations.range("--max-batch-size", plan.max_batch_size, 1, kMostSequences,
                   "that many sequences decode in one step");
  violations.range("--max-prefill-tokens", plan.max_prefill_tokens, kGrid, kMostPrefillTokens,
                   "chunks of a prompt start on a grid of " + std::to_string(kGrid));
  violations.range("--num-drafts", plan.num_drafts, 0, kMostDrafts, "drafts of one verify step");
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
         is_within(plan.max_batch_size, 1, kMostSequences) &&
         is_within(plan.max_prefill_tokens, 1, kMostPrefillTokens) &&
         is_within(plan.num_drafts, 0, kMostDrafts) && is_within(plan.block_size, 1, 64);
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

/// What the operator set in place of a derived capacity: below the floor nothing could hold, and no request
/// is to find that out.
void override_counts(const ModelConfig& config, const PlanOptions& options, ServePlan& plan,
                     Violations& violations) {
  if (options.qsa_max_tokens && config.indexer) {
    violations.require(*options.qsa_max_tokens >= plan.max_seq_len,
                       "--qsa-max-tokens is " + std::to_string(*options.qsa_max_tokens) +
                           ": the index holds one sequence; --max-seq-len " +
                           std::to_string(plan.max_seq_len) + " is needed");
    plan.qsa_tokens = *options.qsa_max_tokens;
  }
  if (!config.ple) return;
  if (options.ple_max_tokens) {
    violations.require(*options.ple_max_tokens >= plan.max_batch_tokens,
                       "--ple-max-tokens is " + std::to_string(*options.ple_max_tokens) +
                           ": --max-prefill-tokens and --max-batch-size bring up to " +
                           std::to_string(plan.max_batch_tokens) + " tokens a step; as many are needed");
    plan.ple_tokens = *options.ple_max_tokens;
  }
  if (options.ple_cache_slots) {
    const auto rows = std::int64_t{plan.max_batch_tokens} * config.ple->num_heads();
    violations.require(*options.ple_cache_slots >= rows,
                       "--ple-cache-slots is " + std::to_string(*options.ple_cache_slots) +
                           ": a step reads " + std::to_string(rows) + " rows; as many are needed");
    plan.ple_cache_slots = *options.ple_cache_slots;
  }
}

/// Decides where n-gram tables lie. `left`: bytes that remain when they, and everything that one sequence
/// needs, are on the device. Answers what the decision takes off the weights there.
gpu::Bytes place_tables(const ModelConfig& config, const PlanOptions& options, gpu::Backend backend,
                        std::int64_t left, ServePlan& plan, Violations& violations) {
  const auto tables = options.ple_table ? options.ple_table : ple_table_facts(config, plan.weight_matrices);
  if (!config.ple || !tables) return {};
  const std::string size = mib(tables->device_bytes.n);
  const bool fits = left >= 0, readable = tables->not_readable.empty();
  violations.require(options.ple_resident != PleResident::never || readable,
                     "--ple-resident never: " + tables->not_readable + "; auto or always is needed");
  if (options.ple_resident == PleResident::always ||
      (options.ple_resident == PleResident::automatic && (fits || !readable))) {
    plan.ple_tables = PleTables::resident;
    plan.ple_tables_why = options.ple_resident == PleResident::always ? "--ple-resident always"
                          : fits ? size + " fit beside weights, scratch and one sequence"
                                 : tables->not_readable;
    return {};
  }
  plan.ple_tables = PleTables::stored;
  plan.ple_tables_why =
      options.ple_resident == PleResident::never
          ? "--ple-resident never"
          : size + " are " + mib(-left) + " too many beside weights, scratch and one sequence";
  violations.range("--ple-cache-slots", plan.ple_cache_slots, 1, RowCache::kMostSlots,
                   "slots have numbers of 32 bits");
  plan.ple_store_bytes = ple_store_bytes(config, plan, tables->row_bytes);
  // The store's memory is the host's: where that is the device, it counts.
  return tables->device_bytes - (backend == gpu::Backend::cpu ? plan.ple_store_bytes : gpu::Bytes{});
}

/// Pages for every sequence at its longest, or as many as fit; fewer than one sequence needs is a violation.
void derive_memory(const ModelConfig& config, const PlanOptions& options, const gpu::DeviceFacts& facts,
                   ServePlan& plan, Violations& violations) {
  const std::int64_t element = gpu::size_of(plan.activation);
  const std::int64_t page = page_bytes(config, plan, element);
  plan.state_bytes = gpu::Bytes{slot_bytes(config, plan, element)} * plan.num_state_slots;

  std::int64_t weights =
      options.weight_bytes ? options.weight_bytes->n : device_weight_bytes(config, plan.weight_matrices).n;
  const auto share =
      static_cast<std::int64_t>(static_cast<double>(facts.memory_total.n) * options.gpu_memory_utilization);
  const std::int64_t usable = std::min(share, facts.memory_free.n);
  const std::int64_t beside_tables = plan.state_bytes.n + plan.arena_bytes.n + page * plan.pages_per_sequence;
  weights -=
      place_tables(config, options, facts.backend, usable - weights - beside_tables, plan, violations).n;
  const std::int64_t left =
      std::max<std::int64_t>(0, usable - weights - plan.state_bytes.n - plan.arena_bytes.n);
  const std::string room = mib(left) + " are left of " + mib(usable) + " after weights (" + mib(weights) +
                           "), a step's scratch (" + mib(plan.arena_bytes.n) + ") and the state of " +
                           std::to_string(plan.num_state_slots) + " sequences (" + mib(plan.state_bytes.n) +
                           ")";

  const std::int64_t most = std::int64_t{plan.max_batch_size} * plan.pages_per_sequence;
  const std::int64_t fitting = page == 0 ? most : left / page;
  std::int64_t pages = std::min(fitting, most);
  if (options.kv_cache_tokens) {
    pages = gpu::ceil_div(std::clamp<std::int64_t>(*options.kv_cache_tokens, 0, std::int64_t{1} << 40),
                          plan.block_size);
    violations.require(
        pages >= plan.pages_per_sequence,
        "--kv-cache-tokens is " + std::to_string(*options.kv_cache_tokens) +
            ": one sequence of --max-seq-len " + std::to_string(plan.max_seq_len) + " must fit; " +
            std::to_string(std::int64_t{plan.pages_per_sequence} * plan.block_size) + " are needed");
    violations.require(
        pages <= fitting && pages <= (1 << 30),
        "--kv-cache-tokens is " + std::to_string(*options.kv_cache_tokens) + ": " + room + "; at most " +
            std::to_string(std::min<std::int64_t>(fitting, 1 << 30) * plan.block_size) + " fit");
  } else {
    violations.require(pages >= plan.pages_per_sequence,
                       "KV memory: one sequence of --max-seq-len " + std::to_string(plan.max_seq_len) +
                           " needs " + mib(page * plan.pages_per_sequence) + ", " + room +
                           "; --max-seq-len of at most " + std::to_string(fitting * plan.block_size) +
                           ", or more memory, is needed");
  }
  plan.num_pages = static_cast<std::int32_t>(std::min<std::int64_t>(pages, 1 << 30));
  plan.kv_bytes = gpu::Bytes{page} * plan.num_pages;
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
  derive_memory(config, options, facts, plan, violations);
  if (!violations.none()) return violations.take();
  return plan;
}

std::string to_json(const ServePlan& plan) {
  std::string json = "{";
  const auto add = [&](const char* name, std::int64_t value) {
    json += (json.size() == 1 ? "\"" : ", \"") + std::string(name) + "\": " + std::to_string(value);
  };
  json += "\"activation\": \"" + std::string(gpu::to_string(plan.activation)) + "\"";
  add("max_seq_len", plan.max_seq_len);
  add("max_batch_size", plan.max_batch_size);
  add("max_prefill_tokens", plan.max_prefill_tokens);
  add("chunk_width", plan.chunk_width);
  add("num_drafts", plan.num_drafts);
  add("max_batch_tokens", plan.max_batch_tokens);
  add("max_step_rows", plan.max_step_rows);
  add("block_size", plan.block_size);
  add("pages_per_sequence", plan.pages_per_sequence);
  add("num_pages", plan.num_pages);
  add("num_state_slots", plan.num_state_slots);
  add("prompt_logits_rows", plan.prompt_logits_rows);
  add("vocab_size", plan.vocab_size);
  add("sparse_selection_bound", plan.sparse_selection_bound);
  add("qsa_tokens", plan.qsa_tokens);
  add("qsa_ring_rows", plan.qsa_ring_rows);
  add("ple_tokens", plan.ple_tokens);
  add("ple_cache_slots", plan.ple_cache_slots);
  if (plan.ple_tables != PleTables::none) {
    const bool resident = plan.ple_tables == PleTables::resident;
    json +=
        std::string(", \"ple_tables\": \"") + (resident ? "resident" : "stored") + "\", \"ple_tables_why\": ";
    text::append_json_string(json, plan.ple_tables_why);
    add("ple_store_bytes", plan.ple_store_bytes.n);
  }
  add("kv_bytes", plan.kv_bytes.n);
  add("state_bytes", plan.state_bytes.n);
  add("arena_bytes", plan.arena_bytes.n);
  return json + "}";
}

}  // namespace model
