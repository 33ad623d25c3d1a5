#include "model/arch/ple_constants.h"
#include "model/checkpoint/weight_map_blocks.h"

namespace model {
namespace {

void map_mixer(MapBuilder& builder, HyperConnectionWeights& hc, const std::string& at) {
  const std::int64_t width =
      std::int64_t{builder.config.hyper_connection->num_streams} * builder.config.hidden_size;
  const std::int64_t rank = builder.config.hyper_connection->low_rank;
  builder.norm(hc.norm, at / "hc_norm.weight", width);
  builder.projection(hc.down, at / "input_mix_weight_down.weight", rank, width);
  builder.projection(hc.up, at / "input_mix_weight_up.weight", width, rank);
}
/// Merged, or shards counted in numbers: a sort by name would put shard_10 before shard_2 and permute the
/// table unseen.
void map_table(MapBuilder& builder, Weight& target, const std::string& at, std::int64_t rows) {
  const std::int64_t dim = builder.config.ple->head_dim();
  WeightSpec table{WeightSpec::Storage::as_stored, rows, dim, {}, &target, {0.0F, 0.05F}};
  if (const std::string scale = at / "weight_scale"; builder.names.has(scale)) table.scale = scale;
  const std::int64_t num_shards = builder.names.has(at / "weight") ? 1 : builder.config.ple->split_parts;
  const std::int64_t shard_rows = gpu::ceil_div(rows, num_shards);
  for (std::int64_t shard = 0, first = 0; first < rows; ++shard, first += shard_rows) {
    const std::int64_t here = std::min(shard_rows, rows - first);
    const std::string name = num_shards == 1 && builder.names.has(at / "weight")
                                 ? at / "weight"
                                 : at + "shard_" + std::to_string(shard) + ".weight";
    table.parts.push_back({name, {here, dim}, first, here});
  }
  builder.map.weights.push_back(std::move(table));
}

}  // namespace

void map_hyper_connection(MapBuilder& builder, HyperConnectionWeights& hc, const std::string& at) {
  map_mixer(builder, hc, at);
  const std::int64_t streams = builder.config.hyper_connection->num_streams;
  builder.projection(hc.inject.emplace(), at / "block_inject_weight.weight", streams,
                     streams * builder.config.hidden_size);
}
void map_final_mixer(MapBuilder& builder, HyperConnectionWeights& hc, const std::string& at) {
  map_mixer(builder, hc, at / "hyper_connection_mixer.");
  builder.map.final_mixer_injects.push_back(at / "hyper_connection_mixer.block_inject_weight.weight");
}

void map_ple(MapBuilder& builder, PleWeights& ple, const std::string& at, std::int32_t ple_index) {
  const PleConfig& c = *builder.config.ple;
  const std::int64_t hidden = builder.config.hidden_size;
  const std::int64_t width = std::int64_t{builder.config.hyper_connection->num_streams} * hidden;
  PleConstants constants = derive_ple_constants(c, builder.config.vocab_size, ple_index);
  builder.projection(ple.key, at / "key_proj.weight", width, c.embed_dim);
  builder.projection(ple.value, at / "value_proj.weight", hidden, c.embed_dim);
  builder.norm(ple.norm_key, at / "norm_key.weight", width);
  builder.norm(ple.norm_query, at / "norm_query.weight", width);
  builder.norm(ple.norm_conv, at / "norm_conv.weight", width);
  builder.conv(ple.conv, at / "conv1d.weight", width, c.conv_kernel);
  map_table(builder, ple.table, at / "ple_embedding.ngram_embedding.", constants.table_rows);
  ple.multipliers = std::move(constants.multipliers);
  ple.sizes = std::move(constants.sizes);
  ple.offsets = std::move(constants.offsets);
  builder.map.hash_buffers.push_back({at / "ple_embedding.layer_multipliers", &ple.multipliers});
  builder.map.hash_buffers.push_back({at / "ple_embedding.ngram_heads_vocab_sizes", &ple.sizes});
  builder.map.hash_buffers.push_back({at / "ple_embedding.ngram_heads_offsets", &ple.offsets});
}

}  // namespace model
