#include <gmock/gmock.h>

#include "tests/model/arch/config_samples.h"

namespace model {
namespace {

using namespace testing_config;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::ptrdiff_t num_attending(const ModelConfig& config) {
  return std::count(config.layers.begin(), config.layers.end(), LayerKind::full_attention);
}

/// Published configs, as far as they concern text.
json qwen3_next_80b() {
  return json::parse(R"({"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
    "attention_bias": false, "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645,
    "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048,
    "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "max_position_embeddings": 262144, "mlp_only_layers": [], "moe_intermediate_size": 512,
    "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
    "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 10000000, "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 151936})");
}
json qwen3_5_27b() {
  return json::parse(R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
    "image_token_id": 248056, "tie_word_embeddings": false, "vision_config": {"model_type": "qwen3_5"},
    "text_config": {"model_type": "qwen3_5_text", "attention_bias": false, "attn_output_gate": true,
    "eos_token_id": 248044, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
    "hidden_size": 5120, "intermediate_size": 17408, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
    "max_position_embeddings": 262144, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1,
    "mtp_use_dedicated_embeddings": false, "num_attention_heads": 24, "num_hidden_layers": 64,
    "num_key_value_heads": 4, "output_gate_type": "swish", "rms_norm_eps": 1e-06, "vocab_size": 248320,
    "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
    "partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"}}})");
}

TEST(FamilyConfig, OfQwen3NextGivesItsKnownSizes) {
  const ModelConfig config = parsed(qwen3_next_80b());
  EXPECT_EQ(config.family, Family::qwen3_next);
  EXPECT_EQ(config.layers.size(), 48U);
  EXPECT_EQ(num_attending(config), 12);
  EXPECT_EQ(config.layers[3], LayerKind::full_attention);
  EXPECT_EQ(config.rope.rotary_dim, 64);
  EXPECT_EQ(config.rope.theta, 1e7);
  EXPECT_EQ(config.gdn->key_width(), 2048);
  EXPECT_EQ(config.gdn->conv_width(), 8192);
  EXPECT_EQ(config.gdn->output_gate, kernels::GateActivation::silu);
  EXPECT_EQ(config.moe->num_experts, 512);
  EXPECT_EQ(config.moe->shared_intermediate, 512);
  EXPECT_TRUE(config.moe->renormalize);
  EXPECT_EQ(config.norm_weight, kernels::NormWeight::one_plus);
  EXPECT_TRUE(config.attention_output_gate && config.qk_norm);
  EXPECT_THAT(config.dense_layers, SizeIs(0));
  EXPECT_EQ(config.intermediate_size, 0);  // the file's is not used
  EXPECT_EQ(config.mtp->num_layers, 1);    // though no key names it
  EXPECT_FALSE(config.mtp->required);
  EXPECT_FALSE(config.hyper_connection || config.ple || config.indexer);
}

TEST(FamilyConfig, OfQwen3_5GivesItsKnownSizes) {
  const ModelConfig config = parsed(qwen3_5_27b());
  EXPECT_EQ(config.family, Family::qwen3_5);
  EXPECT_EQ(config.model_type, "qwen3_5");
  EXPECT_EQ(num_attending(config), 16);
  EXPECT_EQ(config.intermediate_size, 17408);
  EXPECT_EQ(config.gdn->output_gate, kernels::GateActivation::silu);
  EXPECT_EQ(config.gdn->conv_width(), 10240);
  EXPECT_EQ(config.rope.rotary_dim, 64);
  EXPECT_EQ(config.rope.type, RopeConfig::Type::plain);
  EXPECT_EQ(config.mtp->num_layers, 1);
  EXPECT_FALSE(config.moe || config.indexer || config.ple);
  EXPECT_THAT(config.eos, ElementsAre(248044));
}

TEST(FamilyConfig, OfQwen3_5TakesNothingFromOutputGateType) {
  for (const char* gate : {"swish", "sigmoid", "tanh"}) {
    json config = qwen3_5_27b();
    config["text_config"]["output_gate_type"] = gate;
    EXPECT_EQ(parsed(config).gdn->output_gate, kernels::GateActivation::silu) << gate;
  }
}

TEST(FamilyConfig, TopLevelTokensServeWhereTheTextHasNone) {
  json config = qwen3_5_27b();
  config["text_config"].erase("eos_token_id");
  config["eos_token_id"] = {248046, 248044};
  config["bos_token_id"] = 248044;
  EXPECT_THAT(parsed(config).eos, ElementsAre(248046, 248044));
  EXPECT_EQ(parsed(config).bos, 248044);
  config["text_config"]["eos_token_id"] = 7;
  EXPECT_THAT(parsed(config).eos, ElementsAre(7));
}

TEST(FamilyConfig, OfQwen3_5MoeAlwaysRenormalises) {
  for (const char* change : {"{}", R"({"norm_topk_prob": false})"}) {
    const ModelConfig config = parsed(changed(fixture("tiny-qwen3_5_moe"), change));
    EXPECT_EQ(config.family, Family::qwen3_5_moe);
    EXPECT_TRUE(config.moe->renormalize);
    EXPECT_EQ(config.moe->shared_intermediate, 32);
  }
}

TEST(FamilyConfig, OfQwen3HasPlainNormsAndAllLayersAttend) {
  const ModelConfig config = parsed(fixture("tiny-qwen3"));
  EXPECT_EQ(config.family, Family::qwen3);
  EXPECT_EQ(num_attending(config), 4);
  EXPECT_EQ(config.norm_weight, kernels::NormWeight::plain);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_FALSE(config.attention_output_gate || config.gdn || config.moe || config.mtp);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_EQ(config.rope.rotary_dim, 16);
}

TEST(FamilyConfig, OfQwen3MoeHasNoSharedExpert) {
  const ModelConfig config = parsed(fixture("tiny-qwen3_moe"));
  EXPECT_EQ(config.family, Family::qwen3_moe);
  EXPECT_EQ(config.moe->num_experts, 8);
  EXPECT_EQ(config.moe->shared_intermediate, 0);
  EXPECT_TRUE(config.moe->renormalize);
}

/// What stands in where a key is absent.
TEST(FamilyConfig, FillsInWhatFilesLeaveOut) {
  struct Default {
    const char* fixture;
    const char* change;
    bool (*holds)(const ModelConfig&);
  };
  const Default table[] = {
      {"tiny-qwen3", R"({"head_dim": null})", [](const auto& c) { return c.head_dim == 128; }},
      {"tiny-qwen3", R"({"num_key_value_heads": null})", [](const auto& c) { return c.num_kv_heads == 4; }},
      {"tiny-qwen3", R"({"rope_parameters": null})", [](const auto& c) { return c.rope.theta == 1e4; }},
      {"tiny-qwen3", R"({"tie_word_embeddings": null})", [](const auto& c) { return !c.tied_embeddings; }},
      {"tiny-qwen3", R"({"tie_word_embeddings": true})", [](const auto& c) { return c.tied_embeddings; }},
      {"tiny-qwen3", R"({"layer_types": null})", [](const auto& c) { return num_attending(c) == 4; }},
      {"tiny-qwen3", R"({"use_sliding_window": null, "sliding_window": 4096})",
       [](const auto& c) { return num_attending(c) == 4; }},
      {"tiny-qwen3", R"({"rms_norm_eps": null})", [](const auto& c) { return c.rms_norm_eps == 1e-6F; }},
      {"tiny-qwen3_moe", R"({"norm_topk_prob": null})", [](const auto& c) { return !c.moe->renormalize; }},
      {"tiny-qwen3_moe", R"({"num_local_experts": null, "num_experts": 6})",
       [](const auto& c) { return c.moe->num_experts == 6; }},
      {"tiny-qwen3_moe", R"({"decoder_sparse_step": null, "mlp_only_layers": null})",
       [](const auto& c) { return c.dense_layers.empty(); }},
      {"tiny-qwen3_next", R"({"norm_topk_prob": null})", [](const auto& c) { return c.moe->renormalize; }},
      {"tiny-qwen3_next", R"({"norm_topk_prob": false})", [](const auto& c) { return !c.moe->renormalize; }},
      {"tiny-qwen3_next", R"({"head_dim": null})", [](const auto& c) { return c.head_dim == 256; }},
      {"tiny-qwen3_next", R"({"layer_types": null})", [](const auto& c) { return num_attending(c) == 1; }},
      {"tiny-qwen3_next", R"({"layer_types": null, "full_attention_interval": 2})",
       [](const auto& c) { return num_attending(c) == 2; }},
      {"tiny-qwen3_next", R"({"linear_conv_kernel_dim": null})",
       [](const auto& c) { return c.gdn->conv_kernel == 4; }},
      {"tiny-qwen3_next", R"({"rope_parameters": {"partial_rotary_factor": null}})",
       [](const auto& c) { return c.rope.rotary_dim == 4; }},
      {"tiny-qwen3_next", R"({"partial_rotary_factor": null, "rope_parameters": null})",
       [](const auto& c) { return c.rope.rotary_dim == 4; }},
      {"tiny-qwen3_next", R"({"num_nextn_predict_layers": 0})", [](const auto& c) { return !c.mtp; }},
      {"tiny-qwen3_5", R"({"mtp_num_hidden_layers": 0})", [](const auto& c) { return !c.mtp; }},
      {"tiny-qwen3_5", R"({"mtp_num_hidden_layers": 1})", [](const auto& c) { return c.mtp.has_value(); }},
      {"tiny-qwen3_5", R"({"attn_output_gate": true})",
       [](const auto& c) { return c.attention_output_gate; }},
  };
  for (const Default& row : table)
    EXPECT_TRUE(row.holds(parsed(changed(fixture(row.fixture), row.change)))) << row.fixture << row.change;
}

TEST(FamilyConfig, NamesTheLayersWithoutExperts) {
  struct Case {
    const char* change;
    std::vector<LayerIndex> dense;
  };
  const std::vector<Case> table{
      {R"({"decoder_sparse_step": 2})", {0, 2}},
      {R"({"decoder_sparse_step": 4})", {0, 1, 2}},
      {R"({"mlp_only_layers": [3, 0]})", {0, 3}},
      {R"({"mlp_only_layers": [1], "decoder_sparse_step": 2})", {0, 1, 2}},
  };
  for (const char* name : {"tiny-qwen3_moe", "tiny-qwen3_next"}) {
    for (const Case& row : table) {
      const ModelConfig config = parsed(changed(fixture(name), row.change));
      EXPECT_EQ(config.dense_layers, row.dense) << name << row.change;
      EXPECT_EQ(config.intermediate_size, 96);
      for (LayerIndex layer = 0; layer < 4; ++layer)
        EXPECT_NE(config.has_experts(layer), std::count(row.dense.begin(), row.dense.end(), layer) == 1);
    }
  }
}

TEST(FamilyConfig, RefusesWhatItCannotServeNamingTheKey) {
  struct Row {
    const char* fixture;
    Refusal refusal;
  };
  const std::vector<Row> table{
      {"tiny-qwen3", {R"({"use_sliding_window": true})", {"use_sliding_window is true"}}},
      {"tiny-qwen3",
       {R"({"layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]})",
        {"layer_types names \"sliding_attention\""}}},
      {"tiny-qwen3", {R"({"num_hidden_layers": 3})", {"layer_types has 4 entries", "3"}}},
      {"tiny-qwen3", {R"({"attention_bias": true})", {"attention_bias is true"}}},
      {"tiny-qwen3", {R"({"hidden_act": "gelu"})", {"hidden_act"}}},
      {"tiny-qwen3", {R"({"intermediate_size": null})", {"intermediate_size is missing"}}},
      {"tiny-qwen3", {R"({"intermediate_size": 100})", {"intermediate_size", "multiple of 8"}}},
      {"tiny-qwen3", {R"({"num_key_value_heads": 3})", {"multiple of num_key_value_heads"}}},
      {"tiny-qwen3", {R"({"rope_parameters": {"rope_type": "linear"}})", {"rope_parameters.rope_type"}}},
      {"tiny-qwen3",
       {R"({"rope_scaling": {"type": "dynamic"}, "rope_parameters": null})", {"rope_scaling.type"}}},
      {"tiny-qwen3", {R"({"text_config": {}, "quantization_config": {}})", {"quantization_config"}}},
      {"tiny-qwen3_moe", {R"({"use_sliding_window": true})", {"use_sliding_window"}}},
      {"tiny-qwen3_moe", {R"({"num_local_experts": null})", {"num_experts is missing"}}},
      {"tiny-qwen3_moe", {R"({"num_experts": 4})", {"num_local_experts is 8, num_experts is 4"}}},
      {"tiny-qwen3_moe", {R"({"num_local_experts": 0})", {"num_local_experts is 0"}}},
      {"tiny-qwen3_moe", {R"({"num_experts_per_tok": 9})", {"num_experts_per_tok is 9"}}},
      {"tiny-qwen3_moe", {R"({"mlp_only_layers": [4]})", {"mlp_only_layers names layer 4"}}},
      {"tiny-qwen3_moe", {R"({"mlp_only_layers": [-1]})", {"mlp_only_layers holds"}}},
      {"tiny-qwen3_moe", {R"({"decoder_sparse_step": 0})", {"decoder_sparse_step is 0"}}},
      {"tiny-qwen3_moe",
       {R"({"decoder_sparse_step": 2, "intermediate_size": null})", {"intermediate_size is missing"}}},
      {"tiny-qwen3_next", {R"({"attention_bias": true})", {"attention_bias"}}},
      {"tiny-qwen3_next", {R"({"shared_expert_intermediate_size": null})", {"shared_expert_intermediate"}}},
      {"tiny-qwen3_next", {R"({"linear_num_key_heads": 3})", {"linear_num_value_heads"}}},
      {"tiny-qwen3_next", {R"({"linear_key_head_dim": null})", {"linear_key_head_dim is missing"}}},
      {"tiny-qwen3_next",
       {R"({"layer_types": ["mamba", "mamba", "mamba", "full_attention"]})", {"layer_types", "\"mamba\""}}},
      {"tiny-qwen3_next", {R"({"num_hidden_layers": 5})", {"layer_types has 4 entries"}}},
      {"tiny-qwen3_next", {R"({"num_nextn_predict_layers": 2})", {"num_nextn_predict_layers is 2"}}},
      {"tiny-qwen3_next", {R"({"partial_rotary_factor": 0.75})", {"partial_rotary_factor contradicts"}}},
      {"tiny-qwen3_next", {R"({"num_key_value_heads": null})", {"num_key_value_heads is missing"}}},
      {"tiny-qwen3_5", {R"({"attn_output_gate": false})", {"attn_output_gate is false"}}},
      {"tiny-qwen3_5", {R"({"mamba_ssm_dtype": "bfloat16"})", {"mamba_ssm_dtype"}}},
      {"tiny-qwen3_5", {R"({"mtp_num_hidden_layers": 2})", {"mtp_num_hidden_layers is 2"}}},
      {"tiny-qwen3_5", {R"({"mtp_use_dedicated_embeddings": true})", {"mtp_use_dedicated_embeddings"}}},
      {"tiny-qwen3_5",
       {R"({"rope_parameters": {"mrope_section": [2, 1, 2]}})", {"mrope_section", "add up to 5", "up to 4"}}},
      {"tiny-qwen3_5", {R"({"rope_parameters": {"mrope_section": "x"}})", {"mrope_section"}}},
      {"tiny-qwen3_5", {R"({"text_config": 3})", {"text_config is not an object"}}},
      {"tiny-qwen3_5", {R"({"text_config": {"model_type": "qwen3_5_moe_text"}})", {"qwen3_5_text was"}}},
      {"tiny-qwen3_5_moe", {R"({"num_experts": null})", {"num_experts is missing"}}},
      {"tiny-qwen3_5_moe", {R"({"moe_intermediate_size": 12})", {"moe_intermediate_size"}}},
      {"tiny-llama", {R"({"attention_bias": true})", {"attention_bias is true"}}},
      {"tiny-llama", {R"({"mlp_bias": true})", {"mlp_bias is true"}}},
  };
  for (const Row& row : table) expect_refused(row.fixture, row.refusal);
}

TEST(FamilyConfig, YarnStretchesThePositionsInEveryFamily) {
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-qwen3_moe", "tiny-qwen3_next", "tiny-qwen3_5",
                           "tiny-qwen3_5_moe", "tiny-qwen4_exp"}) {
    SCOPED_TRACE(name);
    // The form of today, and the one that published cards tell to write.
    const ModelConfig now = parsed(changed(fixture(name), R"({"rope_parameters": {"rope_type": "yarn",
        "factor": 4.0, "original_max_position_embeddings": 512}})"));
    const ModelConfig old = parsed(changed(fixture(name), R"({"rope_parameters": null, "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5, "rope_scaling": {"type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 512}})"));
    for (const ModelConfig& config : {now, old}) {
      EXPECT_EQ(config.rope.type, RopeConfig::Type::yarn);
      EXPECT_EQ(config.rope.original_max_positions, 512);
      EXPECT_EQ(config.max_positions, 2048);
      EXPECT_GT(make_rope_table(config.rope).attention_factor, 1.0F);
    }
    const ModelConfig whole =
        parsed(changed(fixture(name), R"({"rope_parameters": {"rope_type": "yarn", "factor": 2.0,
                                   "original_max_position_embeddings": null}})"));
    EXPECT_EQ(whole.max_positions, 2 * parsed(fixture(name)).max_positions);
    const ModelConfig shorter = parsed(changed(fixture(name), R"({"rope_parameters": {"rope_type": "yarn",
        "factor": 1.0, "original_max_position_embeddings": 8}})"));
    EXPECT_EQ(shorter.max_positions, parsed(fixture(name)).max_positions);
  }
}

TEST(FamilyConfig, LlamaThreeScalingIsReadInEveryFamily) {
  for (const char* name : {"tiny-qwen3", "tiny-qwen3_moe", "tiny-qwen3_next", "tiny-qwen3_5"}) {
    const ModelConfig config = parsed(changed(fixture(name), R"({"rope_parameters": {"rope_type": "llama3",
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}})"));
    EXPECT_EQ(config.rope.type, RopeConfig::Type::llama3) << name;
    EXPECT_EQ(config.rope.factor, 8.0);
    EXPECT_EQ(config.max_positions, parsed(fixture(name)).max_positions);
  }
}

TEST(FamilyConfig, InTheNestedFormNamesThePathOfTheKey) {
  json config = qwen3_5_27b();
  config["text_config"]["hidden_size"] = "x";
  EXPECT_THAT(parse(config).error().problems,
              ElementsAre(HasSubstr("text_config.hidden_size is not an integer")));
}

}  // namespace
}  // namespace model
