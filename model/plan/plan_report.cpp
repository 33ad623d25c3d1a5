#include "model/plan/byte_text.h"
#include "model/plan/serve_plan.h"
#include "model/text/json_escape.h"

namespace model {
namespace {

std::string str(std::int64_t n) { return std::to_string(n); }

/// "64 pages of 1.5 MiB = 96.0 MiB"
std::string product(std::int64_t count, const char* what, gpu::Bytes each, gpu::Bytes all) {
  return str(count) + ' ' + what + " of " + byte_text(each) + " = " + byte_text(all);
}

std::string capacities(const ServePlan& plan) {
  return "serve plan: " + str(plan.max_batch_size) + " sequences of " + str(plan.max_seq_len) + " tokens; " +
         str(plan.max_batch_tokens) + " tokens a step, " + str(plan.max_prefill_tokens) +
         " of them of prompts, in chunks of " + str(plan.chunk_width) + "; " +
         std::string(gpu::to_string(plan.activation)) + " activations";
}

std::string of_a_sequence(const ServePlan& plan) {
  const SequenceBytes& bytes = plan.sequence;
  std::string line = "  a sequence: KV " + byte_text(bytes.kv) + ", index " + byte_text(bytes.index) +
                     ", GDN " + byte_text(bytes.gdn) + ", PLE " + byte_text(bytes.ple) + ", tables " +
                     byte_text(bytes.tables);
  if (bytes.drafts.n > 0) line += ", drafts " + byte_text(bytes.drafts);
  const std::int32_t kept = plan.num_snapshots == 0 ? 0 : plan.snapshot_slots;
  const gpu::Bytes snapshots = plan.snapshot_bytes * kept;
  return line + ", snapshots " + byte_text(snapshots) + " (" + str(kept) + " of " +
         byte_text(plan.snapshot_bytes) + "); in all " + byte_text(bytes.total() + snapshots);
}

std::string of_a_step(const ServePlan& plan) {
  std::string line = "  scratch of a step: " + byte_text(plan.arena_bytes) + " for " +
                     str(plan.max_step_rows) + " rows, shared by all layers";
  if (plan.ple_tokens > 0)
    line += ", of which PLE takes " + byte_text(plan.ple_scratch_bytes) + " (" + str(plan.ple_tokens) +
            " tokens)";
  return line;
}

std::string of_ngram_rows(const ServePlan& plan) {
  const std::string line = "  PLE row cache: " + str(plan.ple_cache_slots) + " slots a layer";
  if (plan.ple_tables == PleTables::resident)
    return line + " (resident); n-gram tables are resident: " + plan.ple_tables_why;
  return line + ", " + byte_text(plan.ple_store_bytes) +
         " of host memory; n-gram tables stay in their files: " + plan.ple_tables_why;
}

std::string memory(const ServePlan& plan) {
  const gpu::Bytes taken = plan.weight_bytes + plan.ple_store_on_device + plan.arena_bytes +
                           plan.state_bytes + plan.kv_bytes + plan.snapshot_pool_bytes;
  const gpu::Bytes page = plan.num_pages == 0 ? gpu::Bytes{} : gpu::Bytes{plan.kv_bytes.n / plan.num_pages};
  const gpu::Bytes state =
      plan.num_state_slots == 0 ? gpu::Bytes{} : gpu::Bytes{plan.state_bytes.n / plan.num_state_slots};
  std::string line =
      "  memory: weights " + byte_text(plan.weight_bytes) + ", scratch " + byte_text(plan.arena_bytes) +
      ", " +
      (plan.ple_store_on_device.n == 0 ? "" : "n-gram rows " + byte_text(plan.ple_store_on_device) + ", ") +
      product(plan.num_state_slots, "states", state, plan.state_bytes) + ", " +
      product(plan.num_pages, "pages", page, plan.kv_bytes);
  if (plan.num_snapshots > 0)
    line += ", " + product(plan.num_snapshots, "snapshots", plan.snapshot_bytes, plan.snapshot_pool_bytes);
  return line + "; in all " + byte_text(taken) + " of the " + byte_text(plan.memory_ceiling) +
         " that may be taken of " + byte_text(plan.memory_total) +
         " (--gpu-memory-utilization, or what is free)";
}

}  // namespace

std::vector<std::string> describe(const ServePlan& plan) {
  std::vector<std::string> lines{capacities(plan), of_a_sequence(plan), of_a_step(plan)};
  if (plan.qsa_tokens > 0)
    lines.push_back("  sparse attention: index of " + str(plan.qsa_tokens) +
                    " tokens a sequence, every position up to " + str(plan.sparse_selection_bound) +
                    " is taken");
  if (plan.ple_tables != PleTables::none) lines.push_back(of_ngram_rows(plan));
  lines.push_back(memory(plan));
  for (const std::string& note : plan.notes) lines.push_back("  note: " + note);
  return lines;
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
  add("snapshot_slots", plan.snapshot_slots);
  add("num_snapshots", plan.num_snapshots);
  add("sequence_kv_bytes", plan.sequence.kv.n);
  add("sequence_index_bytes", plan.sequence.index.n);
  add("sequence_gdn_bytes", plan.sequence.gdn.n);
  add("sequence_ple_bytes", plan.sequence.ple.n);
  add("sequence_table_bytes", plan.sequence.tables.n);
  add("sequence_draft_bytes", plan.sequence.drafts.n);
  add("snapshot_bytes", plan.snapshot_bytes.n);
  add("kv_bytes", plan.kv_bytes.n);
  add("state_bytes", plan.state_bytes.n);
  add("snapshot_pool_bytes", plan.snapshot_pool_bytes.n);
  add("arena_bytes", plan.arena_bytes.n);
  add("ple_scratch_bytes", plan.ple_scratch_bytes.n);
  add("weight_bytes", plan.weight_bytes.n);
  add("memory_total_bytes", plan.memory_total.n);
  add("memory_ceiling_bytes", plan.memory_ceiling.n);
  return json + "}";
}

}  // namespace model
