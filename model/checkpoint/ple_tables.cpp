#include "model/checkpoint/ple_tables.h"

#include <algorithm>

#include "model/checkpoint/weight_check.h"
#include "model/checkpoint/weight_storage.h"

namespace model {
namespace {

bool is_target(const WeightSpec& weight, const Weight& wanted) {
  const auto* const* target = std::get_if<Weight*>(&weight.target);
  return target != nullptr && *target == &wanted;
}

StoredTable stored_table(const WeightSpec& weight, const Checkpoint& checkpoint) {
  StoredTable table;
  table.type = checkpoint.type_of(weight.parts.front().name).dtype;
  table.scale = scale_of(weight, checkpoint);
  table.rows = weight.rows;
  table.dim = weight.cols;
  for (const TensorPart& part : weight.parts) {
    const Checkpoint::Location& at = checkpoint.tensors().find(part.name)->second;
    const auto known = std::find(table.files.begin(), table.files.end(), at.file->path());
    const auto file = static_cast<std::int32_t>(known - table.files.begin());
    if (known == table.files.end()) table.files.push_back(at.file->path());
    table.parts.push_back({part.first_row, part.rows, file,
                           at.file->file_offset(*at.entry) + part.first_file_row * table.row_bytes().n});
  }
  std::sort(table.parts.begin(), table.parts.end(),
            [](const auto& a, const auto& b) { return a.first_row < b.first_row; });
  return table;
}

/// Why rows of this table cannot be read one by one, or "".
std::string not_readable(const WeightSpec& weight, const Checkpoint& checkpoint) {
  for (const TensorPart& part : weight.parts) {
    const Checkpoint::Location& at = checkpoint.tensors().find(part.name)->second;
    if (at.entry->type.quantized)
      return at.file->name() + " holds " + part.name + " as " + to_string(at.entry->type) +
             ", and rows are read as f32, f16, bf16 or f8_e4m3";
    if (part.file_row_step != 1) return part.name + " holds the rows of several weights";
  }
  return "";
}

}  // namespace

std::vector<const WeightSpec*> ple_tables(const WeightMap& map, const ModelWeights& weights) {
  std::vector<const WeightSpec*> tables;
  for (const LayerWeights& layer : weights.layers) {
    if (!layer.ple) continue;
    const auto found = std::find_if(map.weights.begin(), map.weights.end(), [&](const WeightSpec& weight) {
      return is_target(weight, layer.ple->table);
    });
    if (found != map.weights.end()) tables.push_back(&*found);
  }
  return tables;
}

std::optional<PleTableFacts> ple_table_facts(const WeightMap& map, const ModelWeights& weights,
                                             const Checkpoint& checkpoint,
                                             std::optional<gpu::DType> matrices) {
  const auto tables = ple_tables(map, weights);
  if (tables.empty()) return std::nullopt;
  PleTableFacts facts;
  for (const WeightSpec* table : tables) {
    const StoredType& stored = checkpoint.type_of(table->parts.front().name);
    using Layout = kernels::QuantizedMatrix::Layout;
    facts.device_bytes += device_bytes(*table, {stored, device_type(*table, stored, matrices), Layout::file});
    for (const TensorPart& part : table->parts)
      facts.file_bytes += part.rows * stored.row_bytes(gpu::Elements{table->cols});
    facts.row_bytes = std::max(facts.row_bytes, stored.row_bytes(gpu::Elements{table->cols}));
    if (facts.not_readable.empty()) facts.not_readable = not_readable(*table, checkpoint);
  }
  return facts;
}

void leave_tables_in_files(WeightMap& map, ModelWeights& weights, const Checkpoint& checkpoint) {
  for (LayerWeights& layer : weights.layers) {
    if (!layer.ple) continue;
    const auto found = std::find_if(map.weights.begin(), map.weights.end(), [&](const WeightSpec& weight) {
      return is_target(weight, layer.ple->table);
    });
    layer.ple->stored = stored_table(*found, checkpoint);
    map.weights.erase(found);
  }
}

}  // namespace model
