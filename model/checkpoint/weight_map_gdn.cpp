#include "model/checkpoint/weight_map_blocks.h"

namespace model {
namespace {

/// Cuts a tensor whose rows come in groups, one for each key head: in every group the rows of each weight in
/// turn, a fixed number of each.
class GroupedTensor {
 public:
  GroupedTensor(std::string name, std::int64_t num_groups, std::int64_t group_rows, std::int64_t cols)
      : name_(std::move(name)), num_groups_(num_groups), group_rows_(group_rows), cols_(cols) {}

  /// Appends the next `rows` rows of every group, which fill a weight's rows from `first_row` on.
  void take(std::vector<TensorPart>& parts, std::int64_t first_row, std::int64_t rows) {
    for (std::int64_t g = 0; g < num_groups_; ++g) {
      parts.push_back(
          {name_, {num_groups_ * group_rows_, cols_}, first_row + g * rows, rows, g * group_rows_ + taken_});
    }
    taken_ += rows;
  }

 private:
  std::string name_;
  std::int64_t num_groups_, group_rows_, cols_;
  std::int64_t taken_ = 0;
};

/// model-spec 2.7: a group of in_proj_qkvz is q | k | v | z of one key head and the value heads that it
/// serves.
void map_grouped_qkvz(MapBuilder& builder, GdnWeights& gdn, const std::string& at) {
  const GdnConfig& c = *builder.config.gdn;
  const std::int64_t hidden = builder.config.hidden_size;
  const std::int64_t values = c.value_width() / c.num_k_heads;
  GroupedTensor file(at / "in_proj_qkvz.weight", c.num_k_heads, 2 * c.k_dim + 2 * values, hidden);
  std::vector<TensorPart> qkv, z;
  file.take(qkv, 0, c.k_dim);
  file.take(qkv, c.key_width(), c.k_dim);
  file.take(qkv, std::int64_t{2} * c.key_width(), values);
  file.take(z, 0, values);
  builder.projection(gdn.qkv, c.conv_width(), hidden, std::move(qkv));
  builder.projection(gdn.z, c.value_width(), hidden, std::move(z));
}

void map_grouped_ba(MapBuilder& builder, GdnWeights& gdn, const std::string& at) {
  const GdnConfig& c = *builder.config.gdn;
  const std::int64_t hidden = builder.config.hidden_size;
  const std::int64_t heads = c.num_v_heads / c.num_k_heads;
  GroupedTensor file(at / "in_proj_ba.weight", c.num_k_heads, 2 * heads, hidden);
  std::vector<TensorPart> b, a;
  file.take(b, 0, heads);
  file.take(a, 0, heads);
  builder.projection(gdn.a, c.num_v_heads, hidden, std::move(a));
  builder.projection(gdn.b, c.num_v_heads, hidden, std::move(b));
}

/// The four input projections: fused in pairs in published qwen3_next files, single in those of the other
/// families and in conversions.
void map_inputs(MapBuilder& builder, GdnWeights& gdn, const std::string& at) {
  const GdnConfig& c = *builder.config.gdn;
  const std::int64_t hidden = builder.config.hidden_size;
  const bool may_be_fused = builder.config.family == Family::qwen3_next;
  if (may_be_fused && !builder.names.has(at / "in_proj_qkv.weight")) {
    map_grouped_qkvz(builder, gdn, at);
  } else {
    builder.projection(gdn.qkv, at / "in_proj_qkv.weight", c.conv_width(), hidden);
    builder.projection(gdn.z, at / "in_proj_z.weight", c.value_width(), hidden);
  }
  if (may_be_fused && !builder.names.has(at / "in_proj_a.weight")) {
    map_grouped_ba(builder, gdn, at);
  } else {
    builder.projection(gdn.a, at / "in_proj_a.weight", c.num_v_heads, hidden);
    builder.projection(gdn.b, at / "in_proj_b.weight", c.num_v_heads, hidden);
  }
}

}  // namespace

void map_gdn(MapBuilder& builder, GdnWeights& gdn, const std::string& at) {
  const GdnConfig& c = *builder.config.gdn;
  const std::int64_t hidden = builder.config.hidden_size;
  map_inputs(builder, gdn, at);
  builder.conv(gdn.conv, at / "conv1d.weight", c.conv_width(), c.conv_kernel);
  builder.vector(gdn.a_log, at / "A_log", c.num_v_heads, {0.0F, 0.5F});
  builder.vector(gdn.dt_bias, at / "dt_bias", c.num_v_heads, {-2.0F, 0.5F});
  builder.vector(gdn.norm, at / "norm.weight", c.v_dim, {1.0F, 0.05F});  // plain in every family
  builder.projection(gdn.out, at / "out_proj.weight", hidden, c.value_width());
}

}  // namespace model
