#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "model/arch/model_config.h"
#include "model/plan/sequence_bytes.h"

namespace model {

/// --dtype and --kv-cache-dtype. automatic: bfloat16 on CUDA, float32 on the CPU, which is the specification.
enum class DTypeOption : std::uint8_t { automatic, float32, bfloat16 };

/// Of the forward pass, caches and rings.
gpu::DType activation_type(DTypeOption option, gpu::Backend backend);
/// What matrices of weights become on the device: activations' type on CUDA; none on the CPU, which
/// multiplies every type that files have.
std::optional<gpu::DType> weight_matrix_type(DTypeOption option, gpu::Backend backend);

/// --ple-resident: n-gram tables on the device, or in their files with a cache of rows. automatic: on the
/// device where they fit.
enum class PleResident : std::uint8_t { automatic, always, never };
/// What became of it. none: the model has no such table.
enum class PleTables : std::uint8_t { none, resident, stored };

/// What a plan needs to know of the n-gram tables of a model.
struct PleTableFacts {
  gpu::Bytes device_bytes;   ///< on the device, all of them
  gpu::Bytes file_bytes;     ///< in the files
  gpu::Bytes row_bytes;      ///< a row in the files
  std::string not_readable;  ///< why rows cannot be read one by one; "": they can
};

/// What flags and config files may ask for; memory is the limit long before. Kernels put segments, and tiles
/// of one segment's rows, into launch grid directions that end at 65535.
namespace plan_limits {
inline constexpr std::int32_t kSequences = 1 << 15, kPrefillTokens = 1 << 19, kDrafts = 16,
                              kSnapshotSlots = 64;
}  // namespace plan_limits

/// What the operator set that shapes capacities (the rest of the options does not reach the model).
struct PlanOptions {
  DTypeOption dtype = DTypeOption::automatic;
  DTypeOption kv_cache_dtype = DTypeOption::automatic;  ///< as `dtype`
  std::optional<std::int32_t> max_seq_len;              ///< default min(model, 32768)
  std::optional<std::int32_t> max_batch_size;           ///< default 8 on the CPU, 64 on CUDA
  std::optional<std::int32_t> max_prefill_tokens;       ///< default 512 / 8192
  std::int32_t block_size = 16;
  std::optional<std::int64_t> kv_cache_tokens;
  std::optional<std::int32_t> ple_max_tokens;  ///< these three override what is derived, not below its floor
  std::optional<std::int64_t> ple_cache_slots;
  std::optional<std::int32_t> qsa_max_tokens;
  PleResident ple_resident = PleResident::automatic;
  double gpu_memory_utilization = 0.85;
  std::optional<PleTableFacts> ple_table;  ///< default: from the config, without files
  std::optional<gpu::Bytes> weight_bytes;  ///< on the device, resident tables included; default: from the
                                           ///< config, files' types as bf16
  std::int32_t num_drafts = 0;             ///< 0: speculation off
  bool rolls_back = false;                 ///< something captures snapshots: --content-loop-watchdog
  std::int32_t snapshot_slots = 4;         ///< of a sequence: its ring of rollback points
};

/// Every capacity, derived. Printed, served as /serve-plan, and the only source of limits.
struct ServePlan {
  gpu::DType activation = gpu::DType::f32;  ///< of the forward pass, caches and rings
  std::optional<gpu::DType>
      weight_matrices;  ///< what load_weights makes of them; none: as the files have them
  std::int32_t max_seq_len = 0;
  std::int32_t max_batch_size = 0;
  std::int32_t max_prefill_tokens = 0;
  std::int32_t chunk_width = 0;  ///< max_prefill_tokens floored to the grid of 64
  std::int32_t num_drafts = 0;
  std::int32_t max_batch_tokens = 0;  ///< mb = max_prefill_tokens + max_batch_size * (1 + drafts)
  std::int32_t max_step_rows =
      0;  ///< rows of the step buffers: prefill rows, the gap to the next multiple of 64, decode rows
  std::int32_t block_size = 0;
  std::int32_t pages_per_sequence = 0;
  std::int32_t num_pages = 0;
  std::int32_t num_state_slots = 0;
  std::int32_t prompt_logits_rows = 0;  ///< prompt rows a step may tell the likelihood of
  std::int32_t vocab_size = 0;
  std::int32_t sparse_selection_bound = 0;  ///< 0: no selection in this model
  std::int32_t qsa_tokens = 0;              ///< index capacity per sequence
  std::int32_t qsa_ring_rows = 0;
  std::int32_t ple_tokens = 0;       ///< PLE scratch
  std::int64_t ple_cache_slots = 0;  ///< next_pow2(mb * ngram_heads); unused while the table is resident
  PleTables ple_tables = PleTables::none;
  std::string ple_tables_why;  ///< for the operator
  gpu::Bytes ple_store_bytes;  ///< host memory of stored tables: row caches, ids; 0 where resident
  gpu::Bytes
      ple_store_on_device;  ///< of that, what is the device's memory too: all on the CPU, none beside a GPU
  std::int32_t snapshot_slots = 0;  ///< of a sequence; less than asked for where memory is short
  std::int32_t num_snapshots = 0;   ///< in the pool; 0 while nothing captures any
  SequenceBytes sequence;           ///< of one sequence of max_seq_len tokens
  gpu::Bytes snapshot_bytes;        ///< of one snapshot
  gpu::Bytes kv_bytes, state_bytes, snapshot_pool_bytes;
  gpu::Bytes arena_bytes;        ///< scratch of a step, shared by all layers …
  gpu::Bytes ple_scratch_bytes;  ///< … of which a PLE layer takes this while it runs
  gpu::Bytes weight_bytes;
  gpu::Bytes memory_total;           ///< of the device, or what the machine and its control group have
  gpu::Bytes memory_ceiling;         ///< what may be taken of it
  std::vector<std::string> notes{};  ///< options that do less than they ask for, and why: printed, no error
};

/// Pure. All violations at once, each saying what, why and the value needed.
Result<ServePlan, LoadError> derive_serve_plan(const ModelConfig& config, const PlanOptions& options,
                                               const gpu::DeviceFacts& facts);
/// Under the names of its fields: what `atlas plan` prints and /serve-plan answers.
std::string to_json(const ServePlan& plan);
/// For the operator: capacities, what one sequence costs, and where the memory goes. A line each.
std::vector<std::string> describe(const ServePlan& plan);

}  // namespace model
