#include <gmock/gmock.h>

#include "tests/model/checkpoint/loaded_model.h"

namespace model {
namespace {

using namespace testing_checkpoint;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_attention(const AttentionWeights& attention, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(attention.q), file[at + "q_proj.weight"]);
  EXPECT_EQ(values(attention.k), file[at + "k_proj.weight"]);
  EXPECT_EQ(values(attention.v), file[at + "v_proj.weight"]);
  EXPECT_EQ(values(attention.o), file[at + "o_proj.weight"]);
  EXPECT_EQ(values(attention.q_norm), file[at + "q_norm.weight"]);
  EXPECT_EQ(values(attention.k_norm), file[at + "k_norm.weight"]);
  EXPECT_FALSE(attention.indexer.has_value());
}

void expect_mlp(const MlpWeights& mlp, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(mlp.gate), file[at + "gate_proj.weight"]);
  EXPECT_EQ(values(mlp.up), file[at + "up_proj.weight"]);
  EXPECT_EQ(values(mlp.down), file[at + "down_proj.weight"]);
}

void expect_single_experts(const MoeWeights& moe, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(moe.router), file[at + "gate.weight"]);
  std::vector<float> gate_up, down;
  for (int e = 0; e < 8; ++e) {
    const std::string expert = at + "experts." + std::to_string(e) + ".";
    gate_up = joined({gate_up, file[expert + "gate_proj.weight"], file[expert + "up_proj.weight"]});
    down = joined({down, file[expert + "down_proj.weight"]});
  }
  EXPECT_EQ(values(moe.gate_up), gate_up);
  EXPECT_EQ(values(moe.down), down);
}

void expect_shared_expert(const MoeWeights& moe, const Reference& file, const std::string& at) {
  ASSERT_TRUE(moe.shared.has_value());
  expect_mlp(*moe.shared, file, at + "shared_expert.");
  EXPECT_EQ(values(moe.shared_gate), file[at + "shared_expert_gate.weight"]);
}

/// What of a gated delta net is stored alike in all families.
void expect_gdn_but_inputs(const GdnWeights& gdn, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(gdn.conv), file[at + "conv1d.weight"]);
  EXPECT_EQ(values(gdn.a_log), file[at + "A_log"]);
  EXPECT_EQ(values(gdn.dt_bias), file[at + "dt_bias"]);
  EXPECT_EQ(values(gdn.norm), file[at + "norm.weight"]);
  EXPECT_EQ(values(gdn.out), file[at + "out_proj.weight"]);
}

void expect_single_inputs(const GdnWeights& gdn, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(gdn.qkv), file[at + "in_proj_qkv.weight"]);
  EXPECT_EQ(values(gdn.z), file[at + "in_proj_z.weight"]);
  EXPECT_EQ(values(gdn.a), file[at + "in_proj_a.weight"]);
  EXPECT_EQ(values(gdn.b), file[at + "in_proj_b.weight"]);
}

/// The frame of a model without streams: everything but mixers and FFNs of its layers.
void expect_frame(const ModelWeights& weights, const Reference& file) {
  ASSERT_EQ(weights.layers.size(), 4U);
  EXPECT_EQ(values(weights.embedding), file["model.embed_tokens.weight"]);
  EXPECT_EQ(values(weights.head), file["lm_head.weight"]);
  EXPECT_EQ(values(weights.final_norm), file["model.norm.weight"]);
  EXPECT_FALSE(weights.mixer || weights.mtp);
  for (std::size_t i = 0; i < 4; ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string at = "model.layers." + std::to_string(i) + ".";
    EXPECT_EQ(values(layer.input_norm), file[at + "input_layernorm.weight"]);
    EXPECT_EQ(values(layer.post_attention_norm), file[at + "post_attention_layernorm.weight"]);
    EXPECT_FALSE(layer.attn_hc || layer.mlp_hc || layer.ple);
    EXPECT_NE(layer.gdn.has_value(), layer.attention.has_value());
    EXPECT_NE(layer.moe.has_value(), layer.mlp.has_value());
    if (layer.attention) expect_attention(*layer.attention, file, at + "self_attn.");
    if (layer.gdn) expect_gdn_but_inputs(*layer.gdn, file, at + "linear_attn.");
  }
}

TEST(Families, Qwen3WeightsAreWhereTheyBelong) {
  const auto loaded = load(kFixtures / "tiny-qwen3");
  const Reference file(kFixtures / "tiny-qwen3");
  expect_frame(loaded->weights, file);
  for (std::size_t i = 0; i < 4; ++i)
    expect_mlp(loaded->weights.layers[i].mlp.value(), file, "model.layers." + std::to_string(i) + ".mlp.");
}

TEST(Families, Qwen3MoeHasNoSharedExpert) {
  const auto loaded = load(kFixtures / "tiny-qwen3_moe");
  const Reference file(kFixtures / "tiny-qwen3_moe");
  expect_frame(loaded->weights, file);
  for (std::size_t i = 0; i < 4; ++i) {
    const MoeWeights& moe = loaded->weights.layers[i].moe.value();
    expect_single_experts(moe, file, "model.layers." + std::to_string(i) + ".mlp.");
    EXPECT_FALSE(moe.shared.has_value());
  }
}

TEST(Families, Qwen3_5WeightsAreWhereTheyBelong) {
  const auto loaded = load(kFixtures / "tiny-qwen3_5");
  const Reference file(kFixtures / "tiny-qwen3_5");
  expect_frame(loaded->weights, file);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    expect_mlp(loaded->weights.layers[i].mlp.value(), file, at + "mlp.");
    if (i < 3) expect_single_inputs(loaded->weights.layers[i].gdn.value(), file, at + "linear_attn.");
  }
}

TEST(Families, Qwen3_5MoeWeightsAreWhereTheyBelong) {
  const auto loaded = load(kFixtures / "tiny-qwen3_5_moe");
  const Reference file(kFixtures / "tiny-qwen3_5_moe");
  expect_frame(loaded->weights, file);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    expect_single_experts(loaded->weights.layers[i].moe.value(), file, at + "mlp.");
    expect_shared_expert(*loaded->weights.layers[i].moe, file, at + "mlp.");
    if (i < 3) expect_single_inputs(loaded->weights.layers[i].gdn.value(), file, at + "linear_attn.");
  }
}

/// The rows of a matrix in the order of `from`.
std::vector<float> rows_of(const std::vector<float>& matrix, std::size_t cols, const std::vector<int>& from) {
  std::vector<float> rows;
  for (const int row : from) {
    const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * cols);
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(cols));
  }
  return rows;
}

/// [first, last) of every range, one after another.
std::vector<int> ranges(std::initializer_list<std::pair<int, int>> list) {
  std::vector<int> rows;
  for (const auto& [first, last] : list)
    for (int row = first; row < last; ++row) rows.push_back(row);
  return rows;
}

/// Two key heads of 16, four value heads of 16: a group of in_proj_qkvz has 96 rows, q 16, k 16, v 32, z 32;
/// one of in_proj_ba has four, b 2 and a 2. The rows are counted out by hand.
TEST(Families, GroupedProjectionsOfQwen3NextAreCutApart) {
  const auto loaded = load(kFixtures / "tiny-qwen3_next");
  const Reference file(kFixtures / "tiny-qwen3_next");
  expect_frame(loaded->weights, file);
  const auto qkv = ranges({{0, 16}, {96, 112}, {16, 32}, {112, 128}, {32, 64}, {128, 160}});
  const auto z = ranges({{64, 96}, {160, 192}});
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".linear_attn.";
    const GdnWeights& gdn = loaded->weights.layers[i].gdn.value();
    EXPECT_EQ(values(gdn.qkv), rows_of(file[at + "in_proj_qkvz.weight"], 64, qkv));
    EXPECT_EQ(values(gdn.z), rows_of(file[at + "in_proj_qkvz.weight"], 64, z));
    EXPECT_EQ(values(gdn.b), rows_of(file[at + "in_proj_ba.weight"], 64, {0, 1, 4, 5}));
    EXPECT_EQ(values(gdn.a), rows_of(file[at + "in_proj_ba.weight"], 64, {2, 3, 6, 7}));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".mlp.";
    expect_single_experts(loaded->weights.layers[i].moe.value(), file, at);
    expect_shared_expert(*loaded->weights.layers[i].moe, file, at);
  }
}

/// Conversions keep the projections of qwen3_next single; each pair on its own.
TEST(Families, Qwen3NextMayHaveSingleProjections) {
  ChangedModel model("tiny-qwen3_next");
  for (int i = 0; i < 3; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".linear_attn.";
    model.file.drop(at + "in_proj_qkvz.weight");
    model.file.tensors.push_back({at + "in_proj_qkv.weight", "F32", {128, 64}, ""});
    model.file.tensors.push_back({at + "in_proj_z.weight", "F32", {64, 64}, ""});
  }
  EXPECT_THAT(model.problems(), ElementsAre());
  for (int i = 0; i < 3; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".linear_attn.";
    model.file.drop(at + "in_proj_ba.weight");
    model.file.tensors.push_back({at + "in_proj_a.weight", "F32", {4, 64}, ""});
  }
  EXPECT_THAT(model.problems(), ElementsAre(HasSubstr("layers.0.linear_attn.in_proj_b.weight is missing"),
                                            HasSubstr("layers.1.linear_attn.in_proj_b.weight is missing"),
                                            HasSubstr("layers.2.linear_attn.in_proj_b.weight is missing")));
}

TEST(Families, VectorsMayBeF32AmongBf16) {
  ChangedModel model("tiny-qwen3_5");
  for (TestTensor& tensor : model.file.tensors) {
    const bool stays = tensor.name.find("A_log") != std::string::npos ||
                       tensor.name.find("linear_attn.norm") != std::string::npos;
    if (!stays) tensor.dtype = "BF16";
  }
  const auto loaded = model.loaded();
  ASSERT_THAT(loaded->problems, ElementsAre());
  EXPECT_EQ(loaded->weights.layers[0].gdn->qkv.matrix.dtype, gpu::DType::bf16);
  EXPECT_EQ(loaded->weights.layers[0].gdn->a_log.dtype, gpu::DType::f32);
}

/// The published form: text under text_config and model.language_model., the vision tower beside it.
TEST(Families, TheNestedFormOfQwen3_5LoadsTheSameText) {
  ChangedModel model("tiny-qwen3_5", TestFile::Data::all);
  for (TestTensor& tensor : model.file.tensors) {
    if (tensor.name.rfind("model.", 0) == 0) tensor.name = "model.language_model." + tensor.name.substr(6);
  }
  model.file.tensors.push_back({"model.visual.patch_embed.proj.weight", "F32", {8}, ""});
  const auto text = model.config;
  model.config = {{"model_type", "qwen3_5"}, {"text_config", text}, {"vision_config", {{"depth", 27}}}};
  const auto loaded = model.loaded();
  ASSERT_THAT(loaded->problems, ElementsAre());
  EXPECT_THAT(loaded->notices, ElementsAre(HasSubstr("*visual.*: 1 tensor")));
  expect_frame(loaded->weights, Reference(kFixtures / "tiny-qwen3_5"));
}

TEST(Families, TiedHeadsAreTheEmbeddingInEveryFamily) {
  for (const char* name :
       {"tiny-qwen3", "tiny-qwen3_moe", "tiny-qwen3_next", "tiny-qwen3_5", "tiny-qwen3_5_moe"}) {
    SCOPED_TRACE(name);
    ChangedModel model(name);
    model.config["tie_word_embeddings"] = true;
    model.file.drop("lm_head.weight");
    const auto loaded = model.loaded();
    ASSERT_THAT(loaded->problems, ElementsAre());
    EXPECT_EQ(loaded->weights.head.matrix.base, loaded->weights.embedding.matrix.base);
    EXPECT_EQ(loaded->weights.head.matrix.rows.n, 256);
  }
}

/// A draft layer made of copies of the attending layer.
void add_draft_layer(TestFile& file, bool with_prefix = false) {
  const std::string at = with_prefix ? "model.mtp." : "mtp.";
  std::vector<TestTensor> added{{at + "fc.weight", "F32", {64, 128}, ""},
                                {at + "norm.weight", "F32", {64}, ""},
                                {at + "pre_fc_norm_embedding.weight", "F32", {64}, ""},
                                {at + "pre_fc_norm_hidden.weight", "F32", {64}, ""}};
  for (const TestTensor& tensor : file.tensors) {
    const std::string layer = "model.layers.3.";
    if (tensor.name.rfind(layer, 0) != 0) continue;
    added.push_back(tensor);
    added.back().name = at + "layers.0." + tensor.name.substr(layer.size());
  }
  float next = 1.0F;
  for (TestTensor& tensor : added) {
    for (std::int64_t i = 0; i < tensor.bytes() / 4; ++i, next += 0.25F) {
      const char* bytes = reinterpret_cast<const char*>(&next);
      if (i == 0) tensor.data.clear();
      tensor.data.append(bytes, sizeof next);
    }
  }
  file.tensors.insert(file.tensors.end(), added.begin(), added.end());
}

TEST(Families, ADraftLayerIsLoadedWhereTheFilesHaveOne) {
  for (const char* name : {"tiny-qwen3_next", "tiny-qwen3_5", "tiny-qwen3_5_moe"}) {
    SCOPED_TRACE(name);
    ChangedModel model(name);
    add_draft_layer(model.file);
    const auto loaded = model.loaded();
    ASSERT_THAT(loaded->problems, ElementsAre());
    const Reference file(model.folder());
    const MtpWeights& mtp = loaded->weights.mtp.value();
    EXPECT_EQ(values(mtp.fc), file["mtp.fc.weight"]);
    EXPECT_EQ(mtp.fc.matrix.rows.n, 64);
    EXPECT_EQ(mtp.fc.matrix.cols.n, 128);
    EXPECT_EQ(values(mtp.pre_fc_norm_embedding), file["mtp.pre_fc_norm_embedding.weight"]);
    EXPECT_EQ(values(mtp.pre_fc_norm_hidden), file["mtp.pre_fc_norm_hidden.weight"]);
    EXPECT_EQ(values(mtp.final_norm), file["mtp.norm.weight"]);
    EXPECT_FALSE(mtp.mixer.has_value());
    EXPECT_EQ(values(mtp.layer.input_norm), file["mtp.layers.0.input_layernorm.weight"]);
    EXPECT_EQ(values(mtp.layer.post_attention_norm), file["mtp.layers.0.post_attention_layernorm.weight"]);
    expect_attention(mtp.layer.attention.value(), file, "mtp.layers.0.self_attn.");
    if (mtp.layer.moe) {
      expect_single_experts(*mtp.layer.moe, file, "mtp.layers.0.mlp.");
      expect_shared_expert(*mtp.layer.moe, file, "mtp.layers.0.mlp.");
    } else {
      expect_mlp(mtp.layer.mlp.value(), file, "mtp.layers.0.mlp.");
    }
  }
}

TEST(Families, ADraftLayerMayBePrefixedAndMustBeWhole) {
  ChangedModel model("tiny-qwen3_5");
  add_draft_layer(model.file, true);
  EXPECT_THAT(model.problems(), ElementsAre());
  model.file.drop("model.mtp.fc.weight");
  EXPECT_THAT(model.problems(), ElementsAre(HasSubstr("tensor model.mtp.fc.weight is missing")));
}

TEST(Families, ADraftLayerThatTheConfigDeniesIsSurplus) {
  ChangedModel model("tiny-qwen3_5");
  model.config["mtp_num_hidden_layers"] = 0;
  EXPECT_THAT(model.problems(), ElementsAre());
  add_draft_layer(model.file);
  EXPECT_EQ(model.problems().size(), 4U + 11U);
}

/// Experts in the odd layers, a plain MLP in the others.
TEST(Families, PlainLayersAmongExpertsHaveTheirOwnTensors) {
  for (const char* name : {"tiny-qwen3_moe", "tiny-qwen3_next"}) {
    SCOPED_TRACE(name);
    ChangedModel model(name);
    model.config["decoder_sparse_step"] = 2;
    for (const char* at : {"model.layers.0.mlp.", "model.layers.2.mlp."}) {
      auto& tensors = model.file.tensors;
      tensors.erase(std::remove_if(tensors.begin(), tensors.end(),
                                   [&](const TestTensor& t) { return t.name.rfind(at, 0) == 0; }),
                    tensors.end());
      for (const char* part : {"gate_proj.weight", "up_proj.weight"})
        tensors.push_back({std::string(at) + part, "F32", {96, 64}, ""});
      tensors.push_back({std::string(at) + "down_proj.weight", "F32", {64, 96}, ""});
    }
    const auto loaded = model.loaded();
    ASSERT_THAT(loaded->problems, ElementsAre());
    EXPECT_TRUE(loaded->weights.layers[2].mlp && loaded->weights.layers[3].moe);
    EXPECT_FALSE(loaded->weights.layers[2].moe || loaded->weights.layers[3].mlp);
  }
}

TEST(Families, EveryFamilyHasDummyWeightsFromItsConfigAlone) {
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-qwen3_moe", "tiny-qwen3_next", "tiny-qwen3_5",
                           "tiny-qwen3_5_moe", "tiny-qwen4_exp"}) {
    SCOPED_TRACE(name);
    TempFolder folder;
    fs::copy(kFixtures / name / "config.json", folder.path() / "config.json");
    const auto loaded = load(folder.path(), LoadFormat::dummy);
    ASSERT_THAT(loaded->problems, ElementsAre());
    EXPECT_EQ(loaded->weights.mtp.has_value(), loaded->folder.config.mtp.has_value());
    for (const LayerWeights& layer : loaded->weights.layers) {
      if (!layer.gdn) continue;
      EXPECT_EQ(layer.gdn->qkv.matrix.rows.n, loaded->folder.config.gdn->conv_width());
    }
  }
}

}  // namespace
}  // namespace model
