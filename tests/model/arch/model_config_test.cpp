#include <gmock/gmock.h>

#include "tests/model/arch/config_samples.h"

namespace model {
namespace {

using namespace testing_config;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(ModelConfig, OfTheRealModelGivesItsKnownSizes) {
  const ModelConfig config = parsed(real_config());
  EXPECT_EQ(config.family, Family::qwen4_exp);
  EXPECT_EQ(config.layers.size(), 48U);
  EXPECT_EQ(std::count(config.layers.begin(), config.layers.end(), LayerKind::sparse_attention), 12);
  EXPECT_EQ(config.layers[3], LayerKind::sparse_attention);
  EXPECT_EQ(config.layers[47], LayerKind::sparse_attention);
  EXPECT_EQ(config.rope.rotary_dim, 64);
  EXPECT_EQ(config.rope.theta, 1e7);
  EXPECT_EQ(config.gdn->conv_width(), 10240);
  EXPECT_EQ(config.gdn->output_gate, kernels::GateActivation::sigmoid);
  EXPECT_TRUE(config.moe->renormalize);  // absent: true
  EXPECT_THAT(config.ple->layers, ElementsAre(1));
  EXPECT_EQ(config.ple->seed, 1234);  // absent
  EXPECT_EQ(config.ple->eos, 248044);
  EXPECT_EQ(config.ple->num_heads(), 16);
  EXPECT_EQ(config.ple->head_dim(), 160);
  EXPECT_EQ(config.ple->conv_history(), 9);
  EXPECT_EQ(config.indexer->top_blocks(), 512);
  EXPECT_EQ(config.indexer->bound(), 2051);
  EXPECT_EQ(config.mtp->num_layers, 1);
  EXPECT_TRUE(config.attention_output_gate);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_EQ(config.norm_weight, kernels::NormWeight::one_plus);
  EXPECT_EQ(config.bos, 248044);
}

TEST(ModelConfig, FlatAndNestedFormsOfOneModelAgree) {
  const ModelConfig flat = parsed(fixture("tiny-qwen4_exp"));
  const ModelConfig nested = parsed(fixture("tiny-qwen4_exp-bf16"));
  EXPECT_EQ(flat.layers, nested.layers);
  EXPECT_EQ(flat.hidden_size, nested.hidden_size);
  EXPECT_EQ(flat.rope.rotary_dim, nested.rope.rotary_dim);
  EXPECT_EQ(flat.ple->layers, nested.ple->layers);
  EXPECT_THAT(flat.ple->layers, ElementsAre(1, 5));
  EXPECT_THAT(flat.eos, ElementsAre(255));
}

TEST(ModelConfig, OfLlamaReadsTheNewAndTheOldRopeForm) {
  const ModelConfig config = parsed(fixture("tiny-llama"));
  EXPECT_EQ(config.family, Family::llama);
  EXPECT_EQ(config.layers, std::vector<LayerKind>(4, LayerKind::full_attention));
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_EQ(config.norm_weight, kernels::NormWeight::plain);
  EXPECT_FALSE(config.qk_norm || config.attention_output_gate || config.gdn || config.moe || config.mtp);
  EXPECT_EQ(config.rope.type, RopeConfig::Type::llama3);
  EXPECT_EQ(config.rope.factor, 4.0);
  EXPECT_EQ(config.rope.original_max_positions, 64);

  const ModelConfig old =
      parsed(changed(fixture("tiny-llama"), R"({"rope_parameters": null, "rope_theta": 10000.0,
      "rope_scaling": {"type": "llama3", "factor": 4.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                       "original_max_position_embeddings": 64}})"));
  EXPECT_EQ(make_rope_table(old.rope).inv_freq, make_rope_table(config.rope).inv_freq);
}

TEST(ModelConfig, OfLlamaFillsInWhatOldFilesLeaveOut) {
  const ModelConfig config =
      parsed(json::parse(R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576,
      "num_hidden_layers": 30, "num_attention_heads": 9, "intermediate_size": 1536, "rms_norm_eps": 1e-5,
      "max_position_embeddings": 8192, "tie_word_embeddings": true})"));
  EXPECT_EQ(config.num_kv_heads, 9);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.rotary_dim, 64);
  EXPECT_EQ(config.rms_norm_eps, 1e-5F);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.eos.empty());
}

TEST(ModelConfig, AcceptsEveryNameOfTheSparseLayer) {
  for (const char* name : {"full_attention", "qwen_sparse_attention", "indexed_attention"}) {
    json config = fixture("tiny-qwen4_exp");
    for (json& kind : config["layer_types"]) {
      if (kind != "linear_attention") kind = name;
    }
    EXPECT_EQ(parsed(config).layers[7], LayerKind::sparse_attention) << name;
  }
}

TEST(ModelConfig, LayerTypesWinOverTheIntervalAndTheIntervalServesWhereTheyAreAbsent) {
  const auto layers = parsed(changed(fixture("tiny-qwen4_exp"), R"({"full_attention_interval": 2})")).layers;
  EXPECT_EQ(layers, parsed(fixture("tiny-qwen4_exp")).layers);
  const auto derived =
      parsed(changed(fixture("tiny-qwen4_exp"), R"({"full_attention_interval": 4, "layer_types": null})"))
          .layers;
  EXPECT_EQ(derived, layers);
}

TEST(ModelConfig, HashesWithTheFirstEosOfAList) {
  const ModelConfig config = parsed(changed(fixture("tiny-qwen4_exp"), R"({"eos_token_id": [7, 255]})"));
  EXPECT_EQ(config.ple->eos, 7);
  EXPECT_THAT(config.eos, ElementsAre(7, 255));
}

TEST(ModelConfig, WithoutAnOutputGateTypeTheActivationGates) {
  const ModelConfig config = parsed(changed(fixture("tiny-qwen4_exp"), R"({"output_gate_type": null})"));
  EXPECT_EQ(config.gdn->output_gate, kernels::GateActivation::silu);
}

TEST(ModelConfig, HeadDimIsNeverGuessedWhereTheKeyExists) {
  EXPECT_EQ(parsed(changed(fixture("tiny-llama"), R"({"head_dim": 32})")).head_dim, 32);
}

TEST(ModelConfig, ReadsYarn) {
  const ModelConfig config =
      parsed(changed(fixture("tiny-llama"), R"({"rope_parameters": {"rope_type": "yarn",
      "factor": 4.0, "original_max_position_embeddings": 256}})"));
  EXPECT_EQ(config.rope.type, RopeConfig::Type::yarn);
  EXPECT_EQ(config.rope.original_max_positions, 256);
}

TEST(ModelConfig, OfQwenRefusesWhatItCannotServeNamingTheKey) {
  const std::vector<Refusal> table{
      {R"({"model_type": "mamba"})",
       {"model_type", "\"mamba\"", "llama, qwen3, ", "qwen3_5_moe and qwen4_exp"}},
      {R"({"model_type": null})", {"model_type is missing"}},
      {R"({"model_type": 4})", {"model_type is not a string"}},
      {R"({"quantization_config": {"quant_method": "fp8"}})", {"quantization_config", "not supported"}},
      {R"({"hidden_act": "gelu"})", {"hidden_act", "gelu"}},
      {R"({"attention_bias": true})", {"attention_bias"}},
      {R"({"vocab_size": null})", {"vocab_size is missing"}},
      {R"({"vocab_size": "256"})", {"vocab_size is not an integer"}},
      {R"({"vocab_size": 1e3})", {"vocab_size is not an integer"}},
      {R"({"vocab_size": 0})", {"vocab_size is 0, allowed are 1"}},
      {R"({"hidden_size": 4611686018427387904})", {"hidden_size is 4611686018427387904"}},
      {R"({"hidden_size": -64})", {"hidden_size is -64"}},
      {R"({"hidden_size": 60})", {"hidden_size", "multiple of 8"}},
      {R"({"num_hidden_layers": 7})", {"layer_types has 8 entries", "7"}},
      {R"({"layer_types": null})", {"full_attention_interval is missing"}},
      {R"({"num_key_value_heads": 3})", {"num_attention_heads", "multiple of num_key_value_heads"}},
      {R"({"num_attention_heads": 1024, "head_dim": 1024, "indexer_head_dim": 512,
          "rope_parameters": {"mrope_section": null}})",
       {"num_attention_heads", "1048576"}},
      {R"({"indexer_budget": null})", {"indexer_budget is missing"}},
      {R"({"indexer_n_heads": null})", {"indexer_n_heads is missing"}},
      {R"({"indexer_kv_heads": 2})", {"indexer_kv_heads is 2"}},
      {R"({"indexer_budget": 34})", {"indexer_budget is 34", "indexer_compress_ratio 4"}},
      {R"({"indexer_head_dim": 6})", {"indexer_head_dim is 6", "8 rotary"}},
      {R"({"linear_num_value_heads": 3, "linear_value_head_dim": 8})", {"linear_num_value_heads"}},
      {R"({"output_gate_type": "tanh"})", {"output_gate_type", "tanh"}},
      {R"({"mamba_ssm_dtype": "bfloat16"})", {"mamba_ssm_dtype", "bfloat16"}},
      {R"({"num_experts_per_tok": 9})", {"num_experts_per_tok is 9", "num_experts 8"}},
      {R"({"moe_intermediate_size": 12})", {"moe_intermediate_size", "multiple of 8"}},
      {R"({"hc_count": 1})", {"hc_count is 1, allowed are 2"}},
      {R"({"hc_lowrank": null})", {"hc_lowrank is missing"}},
      {R"({"ple_layer_ids": [4]})", {"ple_layer_ids names layer 4"}},
      {R"({"ple_layer_ids": [9]})", {"ple_layer_ids names layer 9"}},
      {R"({"ple_layer_ids": [0]})", {"ple_layer_ids"}},
      {R"({"ple_embed_dim": 72, "heads_per_ngram": 5})", {"ple_embed_dim is 72", "10 n-gram heads"}},
      {R"({"eos_token_id": null})", {"eos_token_id is missing"}},
      {R"({"eos_token_id": [256]})", {"eos_token_id is 256", "vocab_size"}},
      {R"({"eos_token_id": [-1]})", {"eos_token_id"}},
      {R"({"ngram_vocab_size_base": 9000000000000000000})", {"ngram_vocab_size_base"}},
      {R"({"ple_embedding_dtype": "float8_e4m3fn"})", {"ple_embedding_dtype", "float8_e4m3fn"}},
      {R"({"rope_parameters": {"rope_type": "longrope"}})", {"rope_parameters.rope_type", "longrope"}},
      {R"({"rope_parameters": {"rope_type": "yarn"}})", {"rope_parameters.factor is missing"}},
      {R"({"rope_parameters": {"rope_theta": null}})", {"rope_theta is missing"}},
      {R"({"rope_parameters": {"partial_rotary_factor": 0.2}})", {"partial_rotary_factor", "3 rotary"}},
      {R"({"partial_rotary_factor": 0.75})", {"partial_rotary_factor contradicts"}},
      {R"({"rope_parameters": {"mrope_section": [2, 2]}})", {"rope_parameters.mrope_section has 2 entries"}},
      {R"({"rope_scaling": {"type": "default"}})", {"rope_scaling", "beside rope_parameters"}},
      {R"({"mtp_num_hidden_layers": 2})", {"mtp_num_hidden_layers is 2"}},
      {R"({"mtp_num_hidden_layers": 0})", {"mtp.num_hidden_layers contradicts"}},
      {R"({"mtp": {"rope_theta": 500.0}})", {"mtp.rope_theta differs"}},
      {R"({"mtp": {"layer_types": ["linear_attention"]}})", {"mtp.layer_types", "linear_attention"}},
      {R"({"mtp": {"mtp_use_hidden_state_from_layer": 3}})", {"mtp.mtp_use_hidden_state_from_layer"}},
      {R"({"mtp_use_dedicated_embeddings": true})", {"mtp_use_dedicated_embeddings"}},
      {R"({"tie_word_embeddings": "no"})", {"tie_word_embeddings"}},
  };
  for (const Refusal& refusal : table) expect_refused("tiny-qwen4_exp", refusal);
}

TEST(ModelConfig, InTheNestedFormNamesThePathOfTheKey) {
  expect_refused("tiny-qwen4_exp-bf16",
                 {R"({"text_config": {"num_experts": null}})", {"text_config.num_experts"}});
  expect_refused("tiny-qwen4_exp-bf16",
                 {R"({"text_config": {"model_type": "gemma"}})", {"text_config.model_type"}});
  expect_refused("tiny-qwen4_exp-bf16",
                 {R"({"tie_word_embeddings": true})", {"tie_word_embeddings contradicts"}});
  expect_refused("tiny-qwen4_exp-bf16", {R"({"quantization_config": {}})", {"quantization_config"}});
}

TEST(ModelConfig, OfLlamaRefusesWhatItCannotServeNamingTheKey) {
  const std::vector<Refusal> table{
      {R"({"mlp_bias": true})", {"mlp_bias"}},
      {R"({"intermediate_size": null})", {"intermediate_size is missing"}},
      {R"({"rope_parameters": {"factor": null}})", {"rope_parameters.factor is missing"}},
      {R"({"rope_parameters": {"high_freq_factor": 1.0}})",
       {"rope_parameters.high_freq_factor", "low_freq_factor"}},
      {R"({"rope_parameters": {"rope_type": "linear"}})", {"rope_parameters.rope_type", "linear"}},
      {R"({"head_dim": null, "num_attention_heads": 6})", {"hidden_size", "num_attention_heads"}},
  };
  for (const Refusal& refusal : table) expect_refused("tiny-llama", refusal);
}

TEST(ModelConfig, ListsAllProblemsAtOnce) {
  const auto result =
      parse(changed(fixture("tiny-qwen4_exp"),
                    R"({"vocab_size": 0, "hidden_act": "gelu", "num_experts": null, "hc_count": "x"})"));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().problems, SizeIs(4));
}

TEST(ModelConfig, OfAFileThatIsNoObjectOrNamesAKeyTwiceIsRefused) {
  for (const char* text : {"", "[]", "{", "{\"model_type\": \"llama\",}", "\xff", "null"}) {
    const auto result = parse_model_config(text, "config.json");
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_THAT(result.error().problems, ElementsAre(HasSubstr("config.json")));
  }
  std::string doubled = fixture("tiny-llama").dump();
  doubled.insert(1, "\"vocab_size\": 3,");
  EXPECT_THAT(parse_model_config(doubled, "config.json").error().problems,
              ElementsAre(HasSubstr("vocab_size appears twice")));
}

}  // namespace
}  // namespace model
