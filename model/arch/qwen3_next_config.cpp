#include "model/arch/family_config.h"

namespace model {
namespace {

/// Three layers of gated delta nets, then one that attends, its output gated.
void read_hybrid(ConfigReader& reader, ModelConfig& config) {
  config.norm_weight = kernels::NormWeight::one_plus;
  config.attention_output_gate = true;
  config.qk_norm = true;
  read_common(reader, config);
  read_heads(reader, config, std::nullopt, 256);
  read_rope(reader, config, 10000.0, 0.25);
  config.layers = read_hybrid_layers(reader, LayerKind::full_attention, {"full_attention"}, 4);
  config.gdn = read_gdn(reader);
  // Always silu: the reference does not look at output_gate_type, which some files of these families have.
  config.gdn->output_gate = kernels::GateActivation::silu;
  if (!reader.boolean("attn_output_gate", true)) {
    reader.problem("attn_output_gate", "is false; attention without an output gate is not of this family");
  }
}

/// One draft layer. Exports often leave its tensors out and keep the key, or have the tensors and no key: the
/// files decide, unless the key says 0.
void read_mtp(ConfigReader& reader, const char* key, ModelConfig& config) {
  if (reader.integer(key, {0, 1}, 1) == 1) config.mtp = MtpConfig{1, false};
  if (reader.boolean("mtp_use_dedicated_embeddings", false)) {
    reader.problem("mtp_use_dedicated_embeddings", "is true; only shared embeddings are supported");
  }
}

}  // namespace

void read_qwen3_next(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::qwen3_next;
  read_hybrid(reader, config);
  config.moe = read_moe(reader, SharedExpert::gated);
  config.moe->renormalize = reader.boolean("norm_topk_prob", true);
  read_dense_layers(reader, config);
  read_mtp(reader, "num_nextn_predict_layers", config);
}

void read_qwen3_5(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::qwen3_5;
  read_hybrid(reader, config);
  read_dense_mlp(reader, config);
  read_mtp(reader, "mtp_num_hidden_layers", config);
}

void read_qwen3_5_moe(ConfigReader& reader, ModelConfig& config) {
  config.family = Family::qwen3_5_moe;
  read_hybrid(reader, config);
  config.moe = read_moe(reader, SharedExpert::gated);  // its router always renormalises
  read_mtp(reader, "mtp_num_hidden_layers", config);
}

}  // namespace model
