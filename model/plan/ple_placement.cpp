#include "model/plan/ple_placement.h"

#include "model/checkpoint/weight_map.h"
#include "model/plan/byte_text.h"
#include "model/ple_store/ple_store.h"

namespace model {

void place_tables(const ModelConfig& config, const PlanOptions& options, gpu::Backend backend,
                  std::int64_t left, ServePlan& plan, Violations& violations) {
  const auto tables = options.ple_table ? options.ple_table : ple_table_facts(config, plan.weight_matrices);
  if (!config.ple || !tables) return;
  const std::string size = byte_text(tables->device_bytes);
  const bool fits = left >= 0, readable = tables->not_readable.empty();
  violations.require(options.ple_resident != PleResident::never || readable,
                     "--ple-resident never: " + tables->not_readable + "; auto or always is needed");
  if (options.ple_resident == PleResident::always ||
      (options.ple_resident == PleResident::automatic && (fits || !readable))) {
    plan.ple_tables = PleTables::resident;
    plan.ple_tables_why = options.ple_resident == PleResident::always ? "--ple-resident always"
                          : fits ? size + " fit beside weights, scratch and one sequence"
                                 : tables->not_readable;
    return;
  }
  plan.ple_tables = PleTables::stored;
  plan.ple_tables_why = options.ple_resident == PleResident::never
                            ? "--ple-resident never"
                            : size + " are " + byte_text(gpu::Bytes{-left}) +
                                  " too many beside weights, scratch and one sequence";
  violations.range("--ple-cache-slots", plan.ple_cache_slots, 1, RowCache::kMostSlots,
                   "slots have numbers of 32 bits");
  plan.weight_bytes -= tables->device_bytes;
  plan.ple_store_bytes = ple_store_bytes(config, plan, tables->row_bytes);
  if (backend == gpu::Backend::cpu) plan.ple_store_on_device = plan.ple_store_bytes;
}

}  // namespace model
