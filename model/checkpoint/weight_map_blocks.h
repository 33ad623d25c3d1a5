#pragma once

#include "model/checkpoint/weight_map.h"

namespace model {

inline std::string operator/(const std::string& prefix, std::string_view name) {
  return prefix + std::string(name);
}

/// Keeps the activations of random weights near one whatever the inner dimension.
DummyValues spread(std::int64_t inner);

/// Writes down which tensors fill which weights. The functions below describe one block each, under the
/// prefix `at` of its tensors.
struct MapBuilder {
  const ModelConfig& config;
  const TensorNames& names;
  WeightMap map;

  void matrix(Weight& target, std::string name, std::int64_t rows, std::int64_t cols, DummyValues dummy);
  void projection(Weight& target, std::string name, std::int64_t outputs, std::int64_t inputs) {
    matrix(target, std::move(name), outputs, inputs, spread(inputs));
  }
  /// A projection out of `parts`.
  void projection(Weight& target, std::int64_t outputs, std::int64_t inputs, std::vector<TensorPart> parts);
  void vector(ConstVector& target, std::string name, std::int64_t size, DummyValues dummy);
  void norm(ConstVector& target, std::string name, std::int64_t size);
  /// Files keep the middle dimension of a one-channel filter.
  void conv(ConstMatrix& target, std::string name, std::int64_t channels, std::int64_t taps);
};

void map_attention(MapBuilder& builder, AttentionWeights& attention, const std::string& at, LayerKind kind);
void map_mlp(MapBuilder& builder, MlpWeights& mlp, const std::string& at, std::int64_t intermediate);
void map_moe(MapBuilder& builder, MoeWeights& moe, const std::string& at);
void map_gdn(MapBuilder& builder, GdnWeights& gdn, const std::string& at);

// Of qwen4_exp alone.
void map_hyper_connection(MapBuilder& builder, HyperConnectionWeights& hc, const std::string& at);
void map_final_mixer(MapBuilder& builder, HyperConnectionWeights& hc, const std::string& at);
void map_ple(MapBuilder& builder, PleWeights& ple, const std::string& at, std::int32_t ple_index);

}  // namespace model
