#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "model/checkpoint/dummy_weights.h"
#include "tests/model/checkpoint/loaded_model.h"

namespace model {
namespace {

using namespace testing_checkpoint;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Loader, EveryFixtureFolderLoads) {
  for (const fs::path& path :
       {kFixtures / "tiny-qwen4_exp", kFixtures / "tiny-qwen4_exp-bf16", kFixtures / "tiny-llama",
        kFixtures / "tiny-qwen3", kFixtures / "tiny-qwen3_moe", kFixtures / "tiny-qwen3_next",
        kFixtures / "tiny-qwen3_5", kFixtures / "tiny-qwen3_5_moe", kMini}) {
    SCOPED_TRACE(path);
    const auto loaded = load(path);
    EXPECT_THAT(loaded->problems, ElementsAre());
    EXPECT_THAT(loaded->notices, ElementsAre());
    ASSERT_FALSE(loaded->fractions.empty());
    EXPECT_EQ(loaded->fractions.back(), 1.0);
    EXPECT_TRUE(std::is_sorted(loaded->fractions.begin(), loaded->fractions.end()));
  }
}

TEST(Loader, TellsThePlanWhatTheFilesHold) {
  const auto bytes = checkpoint_bytes(kFixtures / "tiny-qwen4_exp");
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(bytes->n, 4 * 640'000);                   // float32, so twice what the config alone would say
  EXPECT_GT(checkpoint_bytes(kMini)->n, 22'000'000);  // two shards
  EXPECT_EQ(checkpoint_bytes(kFixtures / "mini" / "none"), std::nullopt);
}

std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values)
    value = std::bit_cast<float>(static_cast<std::uint32_t>(narrow_to_bf16(value).bits) << 16);
  return values;
}

/// Fused, sharded and cut tensors among them: qwen3_next cuts its projections out of grouped ones.
TEST(Loader, MatricesBecomeTheTypeThatIsAskedForAndVectorsStayFloat) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-qwen4_exp-bf16", "tiny-qwen3_next", "tiny-llama"}) {
    SCOPED_TRACE(name);
    const auto stored = load(kFixtures / name);
    for (const gpu::DType type : {gpu::DType::bf16, gpu::DType::f32}) {
      const auto loaded = load(kFixtures / name, LoadFormat::automatic, type);
      ASSERT_THAT(loaded->problems, ElementsAre());
      const auto expect_converted = [&](const Weight& got, const Weight& as_stored) {
        EXPECT_EQ(got.matrix.dtype, type);
        const auto want = values(as_stored);
        EXPECT_EQ(values(got), type == gpu::DType::bf16 ? rounded(want) : want);
      };
      expect_converted(loaded->weights.embedding, stored->weights.embedding);
      expect_converted(loaded->weights.head, stored->weights.head);
      for (std::size_t i = 0; i < loaded->weights.layers.size(); ++i) {
        const LayerWeights &layer = loaded->weights.layers[i], &want = stored->weights.layers[i];
        if (layer.input_norm.base != nullptr) {
          EXPECT_EQ(values(layer.input_norm), values(want.input_norm));
        }
        if (layer.gdn) {
          expect_converted(layer.gdn->qkv, want.gdn->qkv);
          EXPECT_EQ(values(layer.gdn->a_log), values(want.gdn->a_log));
          EXPECT_EQ(values(layer.gdn->conv), values(want.gdn->conv));
        }
        if (layer.moe) expect_converted(layer.moe->gate_up, want.moe->gate_up);
        if (layer.ple) expect_converted(layer.ple->table, want.ple->table);
      }
    }
  }
}

/// Allocates as another device does, and adds up.
class CountingDevice final : public gpu::Device {
 public:
  gpu::DeviceFacts facts() const override { return inner_->facts(); }
  gpu::Result<gpu::Buffer, gpu::DeviceError> allocate(gpu::Bytes size, const char* what) override {
    taken += size;
    return inner_->allocate(size, what);
  }
  gpu::Result<std::unique_ptr<gpu::Stream>, gpu::DeviceError> create_stream() override {
    return inner_->create_stream();
  }
  gpu::Bytes taken;

 private:
  void free(std::byte*, gpu::Bytes) noexcept override {}  // buffers are the inner device's
  std::unique_ptr<gpu::Device> inner_ = gpu::make_host_device(1);
};

TEST(Loader, TellsThePlanWhatTheDeviceWillHold) {
  for (const char* name : {"tiny-qwen4_exp", "tiny-qwen3_5_moe", "tiny-llama"}) {
    const auto folder = open_model_folder(kFixtures / name);
    for (const LoadFormat format : {LoadFormat::automatic, LoadFormat::dummy}) {
      for (const gpu::DType type : {gpu::DType::bf16, gpu::DType::f32}) {
        CountingDevice device;
        const auto stream = *device.create_stream();
        const auto weights = load_weights(*folder, format, device, *stream, {}, type);
        ASSERT_TRUE(weights.ok());
        const auto told = device_weight_bytes(*folder, format, type);
        ASSERT_TRUE(told.ok() && told->has_value());
        EXPECT_LE((**told).n, device.taken.n) << name;
        EXPECT_GE((**told).n, device.taken.n - 256 * 400) << name << ": each weight lies on 256 bytes";
      }
    }
    EXPECT_EQ(*device_weight_bytes(*folder, LoadFormat::automatic, std::nullopt), checkpoint_bytes(*folder));
  }
}

TEST(Loader, ReadsTheGenerationDefaultsBesideTheConfig) {
  const auto folder = open_model_folder(kMini);
  ASSERT_TRUE(folder.ok());
  EXPECT_THAT(folder->generation.eos, ElementsAre(4089, 4087));
  EXPECT_THAT(folder->config.eos, ElementsAre(4087));
}

TEST(Loader, LlamaWeightsAreWhereTheyBelong) {
  const auto loaded = load(kFixtures / "tiny-llama");
  const Reference file(kFixtures / "tiny-llama");
  const ModelWeights& weights = loaded->weights;
  EXPECT_EQ(values(weights.embedding), file["model.embed_tokens.weight"]);
  EXPECT_EQ(values(weights.head), file["lm_head.weight"]);
  EXPECT_EQ(values(weights.final_norm), file["model.norm.weight"]);
  ASSERT_EQ(weights.layers.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string at = "model.layers." + std::to_string(i) + ".";
    EXPECT_EQ(values(layer.input_norm), file[at + "input_layernorm.weight"]);
    EXPECT_EQ(values(layer.post_attention_norm), file[at + "post_attention_layernorm.weight"]);
    EXPECT_EQ(values(layer.attention->q), file[at + "self_attn.q_proj.weight"]);
    EXPECT_EQ(values(layer.attention->k), file[at + "self_attn.k_proj.weight"]);
    EXPECT_EQ(values(layer.attention->v), file[at + "self_attn.v_proj.weight"]);
    EXPECT_EQ(values(layer.attention->o), file[at + "self_attn.o_proj.weight"]);
    EXPECT_EQ(values(layer.mlp->gate), file[at + "mlp.gate_proj.weight"]);
    EXPECT_EQ(values(layer.mlp->up), file[at + "mlp.up_proj.weight"]);
    EXPECT_EQ(values(layer.mlp->down), file[at + "mlp.down_proj.weight"]);
    EXPECT_TRUE(layer.attention->q_norm.empty());
    EXPECT_FALSE(layer.attn_hc || layer.gdn || layer.moe || layer.ple || layer.attention->indexer);
  }
}

void expect_mixer(const HyperConnectionWeights& mixer, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(mixer.norm), file[at + "hc_norm.weight"]) << at;
  EXPECT_EQ(values(mixer.down), file[at + "input_mix_weight_down.weight"]) << at;
  EXPECT_EQ(values(mixer.up), file[at + "input_mix_weight_up.weight"]) << at;
  if (mixer.inject) {
    EXPECT_EQ(values(*mixer.inject), file[at + "block_inject_weight.weight"]) << at;
  }
}

void expect_moe(const MoeWeights& moe, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(moe.router), file[at + "gate.weight"]);
  EXPECT_EQ(values(moe.gate_up), file[at + "experts.gate_up_proj"]);
  EXPECT_EQ(values(moe.down), file[at + "experts.down_proj"]);
  EXPECT_EQ(values(moe.shared->gate), file[at + "shared_expert.gate_proj.weight"]);
  EXPECT_EQ(values(moe.shared->up), file[at + "shared_expert.up_proj.weight"]);
  EXPECT_EQ(values(moe.shared->down), file[at + "shared_expert.down_proj.weight"]);
  EXPECT_EQ(values(moe.shared_gate), file[at + "shared_expert_gate.weight"]);
}

void expect_attention(const AttentionWeights& attention, const Reference& file, const std::string& at) {
  EXPECT_EQ(values(attention.q), file[at + "q_proj.weight"]);
  EXPECT_EQ(values(attention.k), file[at + "k_proj.weight"]);
  EXPECT_EQ(values(attention.v), file[at + "v_proj.weight"]);
  EXPECT_EQ(values(attention.o), file[at + "o_proj.weight"]);
  EXPECT_EQ(values(attention.q_norm), file[at + "q_norm.weight"]);
  EXPECT_EQ(values(attention.k_norm), file[at + "k_norm.weight"]);
  ASSERT_TRUE(attention.indexer.has_value());
  EXPECT_EQ(values(attention.indexer->qk), file[at + "indexer.index_qk_proj.weight"]);
  EXPECT_EQ(values(attention.indexer->q_norm), file[at + "indexer.q_layernorm.weight"]);
  EXPECT_EQ(values(attention.indexer->k_norm), file[at + "indexer.k_layernorm.weight"]);
}

/// bf16 projections beside f32 vectors, fused experts, a table in four shards.
TEST(Loader, QwenWeightsAreWhereTheyBelong) {
  const auto loaded = load(kMini);
  const Reference file(kMini);
  const ModelWeights& weights = loaded->weights;
  ASSERT_EQ(weights.layers.size(), 8U);
  EXPECT_EQ(weights.embedding.matrix.dtype, gpu::DType::bf16);
  EXPECT_EQ(values(weights.embedding), file["model.embed_tokens.weight"]);
  EXPECT_EQ(values(weights.head), file["lm_head.weight"]);
  EXPECT_TRUE(weights.final_norm.empty());
  expect_mixer(*weights.mixer, file, "model.hyper_connection_mixer.");
  EXPECT_FALSE(weights.mixer->inject.has_value());
  for (std::size_t i = 0; i < 8; ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::string at = "model.layers." + std::to_string(i) + ".";
    expect_mixer(*layer.attn_hc, file, at + "attn_hyper_connection.");
    expect_mixer(*layer.mlp_hc, file, at + "mlp_hyper_connection.");
    ASSERT_TRUE(layer.attn_hc->inject && layer.mlp_hc->inject);
    expect_moe(*layer.moe, file, at + "mlp.");
    EXPECT_EQ(layer.ple.has_value(), i == 1);
    EXPECT_EQ(layer.attention.has_value(), i % 4 == 3);
    if (layer.attention) expect_attention(*layer.attention, file, at + "self_attn.");
    if (!layer.gdn) continue;
    EXPECT_EQ(values(layer.gdn->qkv), file[at + "linear_attn.in_proj_qkv.weight"]);
    EXPECT_EQ(values(layer.gdn->z), file[at + "linear_attn.in_proj_z.weight"]);
    EXPECT_EQ(values(layer.gdn->a), file[at + "linear_attn.in_proj_a.weight"]);
    EXPECT_EQ(values(layer.gdn->b), file[at + "linear_attn.in_proj_b.weight"]);
    EXPECT_EQ(values(layer.gdn->out), file[at + "linear_attn.out_proj.weight"]);
    EXPECT_EQ(values(layer.gdn->conv), file[at + "linear_attn.conv1d.weight"]);
    EXPECT_EQ(layer.gdn->conv.dtype, gpu::DType::f32);
    EXPECT_EQ(layer.gdn->conv.rows.n, 512);
    EXPECT_EQ(layer.gdn->conv.cols.n, 4);
    EXPECT_EQ(values(layer.gdn->a_log), file[at + "linear_attn.A_log"]);
    EXPECT_EQ(values(layer.gdn->dt_bias), file[at + "linear_attn.dt_bias"]);
    EXPECT_EQ(values(layer.gdn->norm), file[at + "linear_attn.norm.weight"]);
  }
  const PleWeights& ple = *weights.layers[1].ple;
  const std::string at = "model.layers.1.ple.";
  const std::string shard = at + "ple_embedding.ngram_embedding.shard_";
  EXPECT_EQ(values(ple.key), file[at + "key_proj.weight"]);
  EXPECT_EQ(values(ple.value), file[at + "value_proj.weight"]);
  EXPECT_EQ(values(ple.norm_key), file[at + "norm_key.weight"]);
  EXPECT_EQ(values(ple.norm_query), file[at + "norm_query.weight"]);
  EXPECT_EQ(values(ple.norm_conv), file[at + "norm_conv.weight"]);
  EXPECT_EQ(values(ple.conv), file[at + "conv1d.weight"]);
  EXPECT_EQ(values(ple.table), joined({file[shard + "0.weight"], file[shard + "1.weight"],
                                       file[shard + "2.weight"], file[shard + "3.weight"]}));
  EXPECT_EQ(ple.sizes.size(), 16U);
  const MtpWeights& mtp = *weights.mtp;
  EXPECT_EQ(values(mtp.fc_embedding), file["mtp.fc_embedding.weight"]);
  EXPECT_EQ(values(mtp.fc_hidden), file["mtp.fc_hidden.weight"]);
  EXPECT_EQ(values(mtp.pre_fc_norm_embedding), file["mtp.pre_fc_norm_embedding.weight"]);
  EXPECT_EQ(values(mtp.pre_fc_norm_hidden), file["mtp.pre_fc_norm_hidden.weight"]);
  expect_mixer(*mtp.mixer, file, "mtp.hyper_connection_mixer.");
  expect_attention(*mtp.layer.attention, file, "mtp.layers.0.self_attn.");
  expect_moe(*mtp.layer.moe, file, "mtp.layers.0.mlp.");
}

TEST(Loader, SingleExpertsAreFusedGateBeforeUp) {
  const auto loaded = load(kFixtures / "tiny-qwen4_exp");
  const Reference file(kFixtures / "tiny-qwen4_exp");
  const MoeWeights& moe = *loaded->weights.layers[2].moe;
  EXPECT_EQ(moe.gate_up.matrix.rows.n, 8 * 2 * 16);
  EXPECT_EQ(moe.down.matrix.rows.n, 8 * 64);
  std::vector<float> gate_up, down;
  for (int e = 0; e < 8; ++e) {
    const std::string at = "model.layers.2.mlp.experts." + std::to_string(e) + ".";
    gate_up = joined({gate_up, file[at + "gate_proj.weight"], file[at + "up_proj.weight"]});
    down = joined({down, file[at + "down_proj.weight"]});
  }
  EXPECT_EQ(values(moe.gate_up), gate_up);
  EXPECT_EQ(values(moe.down), down);
}

TEST(Loader, HalfPrecisionProjectionsStayAndVectorsAreWidened) {
  ChangedModel model("tiny-llama");
  for (TestTensor& tensor : model.file.tensors) tensor.dtype = "F16";
  const std::string one_and_half("\x00\x3E", 2);
  for (int i = 0; i < 64; ++i) model.file.find("model.norm.weight").data += one_and_half;
  const auto loaded = model.loaded();
  ASSERT_THAT(loaded->problems, ElementsAre());
  EXPECT_EQ(loaded->weights.layers[0].mlp->up.matrix.dtype, gpu::DType::f16);
  EXPECT_EQ(values(loaded->weights.final_norm), std::vector<float>(64, 1.5F));
}

TEST(Loader, BothTwinsHoldTheSameModel) {
  const auto single = load(kFixtures / "tiny-qwen4_exp");
  const auto sharded = load(kFixtures / "tiny-qwen4_exp-bf16");
  EXPECT_EQ(sharded->weights.layers[3].attention->q.matrix.dtype, gpu::DType::bf16);
  EXPECT_EQ(single->weights.layers[5].ple->multipliers, sharded->weights.layers[5].ple->multipliers);
  EXPECT_EQ(single->weights.layers[5].ple->table.rows(), sharded->weights.layers[5].ple->table.rows());
  EXPECT_EQ(single->weights.layers[1].ple->sizes.front(), 53);
  EXPECT_EQ(single->weights.layers[5].ple->sizes.front(), 89);
}

/// Takes the four shards of a table out and puts it back in `parts` shards, or merged for 0.
void reshard(TestFile& file, const std::string& table, std::int64_t parts) {
  std::string whole;
  std::int64_t rows = 0;
  for (int i = 0; i < 4; ++i) {
    const std::string name = table + "shard_" + std::to_string(i) + ".weight";
    whole += file.find(name).data;
    rows += file.find(name).shape[0];
    file.drop(name);
  }
  if (parts == 0) file.tensors.push_back({table + "weight", "F32", {rows, 8}, whole});
  for (std::int64_t i = 0; i < parts; ++i) {
    const auto bytes = static_cast<std::size_t>(rows / parts * 8 * 4);
    file.tensors.push_back({table + "shard_" + std::to_string(i) + ".weight",
                            "F32",
                            {rows / parts, 8},
                            whole.substr(static_cast<std::size_t>(i) * bytes, bytes)});
  }
}

/// shard_10 sorts before shard_2 as text.
TEST(Loader, TableShardsAreJoinedInNumericOrderAndTheMergedFormIsTheSame) {
  const auto expected = values(load(kFixtures / "tiny-qwen4_exp")->weights.layers[5].ple->table);
  for (const std::int64_t parts : {0, 16}) {
    ChangedModel model("tiny-qwen4_exp", TestFile::Data::all);
    for (const char* layer : {"1", "5"}) {
      reshard(model.file, "model.layers." + std::string(layer) + ".ple.ple_embedding.ngram_embedding.",
              parts);
    }
    if (parts > 0) model.config["split_ngram_parts"] = parts;
    const auto loaded = model.loaded();
    ASSERT_THAT(loaded->problems, ElementsAre());
    EXPECT_EQ(values(loaded->weights.layers[5].ple->table), expected);
  }
}

TEST(Loader, TheDraftLayerMayBePrefixed) {
  ChangedModel model("tiny-qwen4_exp");
  for (TestTensor& tensor : model.file.tensors) {
    if (tensor.name.rfind("mtp.", 0) == 0) tensor.name = "model." + tensor.name;
  }
  EXPECT_THAT(model.problems(), ElementsAre());
}

TEST(Loader, TiedEmbeddingsAreTheHead) {
  ChangedModel model("tiny-llama");
  model.config["tie_word_embeddings"] = true;
  model.file.drop("lm_head.weight");
  const auto loaded = model.loaded();
  ASSERT_THAT(loaded->problems, ElementsAre());
  EXPECT_EQ(loaded->weights.head.matrix.base, loaded->weights.embedding.matrix.base);
}

TEST(Loader, WhatIsIgnoredByNameIsNoticedOncePerKind) {
  ChangedModel llama("tiny-llama");
  llama.config["tie_word_embeddings"] = true;
  for (const char* name : {"model.visual.patch.weight", "visual.blocks.0.weight",
                           "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    llama.file.tensors.push_back({name, "F32", {3}, ""});
  }
  const auto loaded = llama.loaded();
  EXPECT_THAT(loaded->problems, ElementsAre());
  EXPECT_THAT(loaded->notices,
              testing::UnorderedElementsAre(
                  AllOf(HasSubstr("*visual.*: 2 tensors"), HasSubstr("model.visual.patch.weight")),
                  HasSubstr("rotary_emb.inv_freq: 1 tensor"), HasSubstr("lm_head.weight")));
  ChangedModel qwen("tiny-qwen4_exp");
  qwen.file.tensors.push_back(
      {"model.hyper_connection_mixer.block_inject_weight.weight", "F32", {4, 256}, ""});
  qwen.file.tensors.push_back({"mtp.hyper_connection_mixer.block_inject_weight.weight", "F32", {4, 256}, ""});
  const auto with_injects = qwen.loaded();
  EXPECT_THAT(with_injects->problems, ElementsAre());
  EXPECT_THAT(with_injects->notices,
              ElementsAre(HasSubstr("block_inject_weight of a final mixer: 2 tensors")));
}

/// Layers and experts that are like one that is tried.
bool is_repeated(const std::string& name) {
  for (const char* part : {".layers.2.", ".layers.4.", ".layers.6.", ".layers.7.", ".experts.1.",
                           ".experts.2.", ".experts.3.", ".experts.4.", ".experts.5.", ".experts.6."}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

/// One fault in one tensor of a model is one problem, which names file and tensor; a tensor of a block that
/// comes in two forms is missed under the name of the form that the rest of the block has.
void expect_one_problem_each(const char* fixture) {
  const ChangedModel whole(fixture);
  const auto problems = [](TestFile file, const nlohmann::json& config) {
    return ChangedModel(std::move(file), config).problems();
  };
  for (const TestTensor& tensor : whole.file.tensors) {
    if (is_repeated(tensor.name)) continue;
    SCOPED_TRACE(tensor.name);
    const auto named = AllOf(HasSubstr("model.safetensors: "), HasSubstr("tensor " + tensor.name + " "));
    TestFile missing = whole.file;
    missing.drop(tensor.name);
    EXPECT_THAT(problems(missing, whole.config), ElementsAre(AllOf(named, HasSubstr("is missing"))));
    TestFile reshaped = whole.file;
    reshaped.find(tensor.name).shape.push_back(2);
    reshaped.find(tensor.name).data.clear();
    EXPECT_THAT(problems(reshaped, whole.config), ElementsAre(AllOf(named, HasSubstr("has shape"))));
    TestFile retyped = whole.file;
    retyped.find(tensor.name).dtype = tensor.dtype == "I64" ? "F32" : "I64";
    retyped.find(tensor.name).data.clear();
    EXPECT_THAT(problems(retyped, whole.config), ElementsAre(AllOf(named, HasSubstr("needed"))));
    TestFile surplus = whole.file;
    surplus.tensors.push_back({tensor.name + "_extra", "F32", {1}, ""});
    EXPECT_THAT(problems(surplus, whole.config),
                ElementsAre(AllOf(HasSubstr("model.safetensors: tensor " + tensor.name + "_extra "),
                                  HasSubstr("belongs to nothing"))));
  }
}
TEST(Loader, EachFaultyTensorOfLlamaIsOneNamedProblem) { expect_one_problem_each("tiny-llama"); }
TEST(Loader, EachFaultyTensorOfQwenIsOneNamedProblem) { expect_one_problem_each("tiny-qwen4_exp"); }
TEST(Loader, EachFaultyTensorOfQwen3IsOneNamedProblem) { expect_one_problem_each("tiny-qwen3"); }
TEST(Loader, EachFaultyTensorOfQwen3MoeIsOneNamedProblem) { expect_one_problem_each("tiny-qwen3_moe"); }
/// A fused projection fills several weights in many parts, and is still one tensor with one problem.
TEST(Loader, EachFaultyTensorOfQwen3NextIsOneNamedProblem) { expect_one_problem_each("tiny-qwen3_next"); }
TEST(Loader, EachFaultyTensorOfQwen3_5IsOneNamedProblem) { expect_one_problem_each("tiny-qwen3_5"); }
TEST(Loader, EachFaultyTensorOfQwen3_5MoeIsOneNamedProblem) { expect_one_problem_each("tiny-qwen3_5_moe"); }

TEST(Loader, TransposedShapesAreWrongThoughTheSizeFits) {
  ChangedModel model("tiny-llama");
  TestTensor& tensor = model.file.find("model.layers.1.mlp.gate_proj.weight");
  std::swap(tensor.shape[0], tensor.shape[1]);
  EXPECT_THAT(model.problems(), ElementsAre(HasSubstr("has shape [64, 96], the config gives [96, 64]")));
}

TEST(Loader, PartsOfOneWeightMustHaveOneDtype) {
  ChangedModel model("tiny-qwen4_exp");
  model.file.find("model.layers.0.mlp.experts.3.up_proj.weight").dtype = "BF16";
  EXPECT_THAT(model.problems(),
              ElementsAre(AllOf(HasSubstr("experts.3.up_proj.weight is bf16"), HasSubstr("f32"))));
}

TEST(Loader, HashBuffersMustBeWhatTheConfigGives) {
  ChangedModel model("tiny-qwen4_exp");
  const std::string at = "model.layers.5.ple.ple_embedding.";
  model.file.find(at + "layer_multipliers").data[8] ^= 1;
  model.file.find(at + "ngram_heads_offsets").data[56] ^= 1;
  EXPECT_THAT(model.problems(), ElementsAre(AllOf(HasSubstr(at + "layer_multipliers holds"),
                                                  HasSubstr(" at 1, the config gives 2619768721782095")),
                                            AllOf(HasSubstr(at + "ngram_heads_offsets holds"),
                                                  HasSubstr(" at 7, the config gives 719"))));
  ChangedModel seeded("tiny-qwen4_exp");
  seeded.config["seed"] = 1235;
  EXPECT_EQ(seeded.problems().size(), 2U);  // the multipliers of both layers
}

TEST(Loader, AllProblemsOfAFolderAreListedAtOnce) {
  ChangedModel model("tiny-llama");
  model.file.drop("model.norm.weight");
  model.file.drop("model.layers.0.input_layernorm.weight");
  model.file.find("lm_head.weight").shape = {64, 256};
  model.file.tensors.push_back({"model.layers.4.input_layernorm.weight", "F32", {64}, ""});
  EXPECT_EQ(model.problems().size(), 4U);
}

TEST(Loader, AFolderIsOpenedByItsConfigs) {
  TempFolder folder;
  EXPECT_THAT(open_model_folder(folder.path() / "absent").error().problems,
              ElementsAre(HasSubstr("not a folder")));
  EXPECT_THAT(open_model_folder(folder.path()).error().problems, ElementsAre(HasSubstr("config.json: ")));
  write_file(folder.path() / "config.json", "{");
  write_file(folder.path() / "generation_config.json", R"({"top_p": 7})");
  EXPECT_THAT(
      open_model_folder(folder.path()).error().problems,
      ElementsAre(HasSubstr("config.json: not valid JSON"), HasSubstr("generation_config.json: top_p")));
}

TEST(Loader, ADeviceThatRefusesMemoryIsALoadError) {
  struct Full : gpu::Device {
    gpu::DeviceFacts facts() const override { return {}; }
    Result<gpu::Buffer, gpu::DeviceError> allocate(gpu::Bytes, const char*) override {
      return gpu::refused("allocate: no memory");
    }
    Result<std::unique_ptr<gpu::Stream>, gpu::DeviceError> create_stream() override {
      return gpu::refused("none");
    }
    void free(std::byte*, gpu::Bytes) noexcept override {}
  } full;
  const auto device = gpu::make_host_device(1);
  const auto stream = std::move(device->create_stream()).value();
  const auto folder = open_model_folder(kFixtures / "tiny-llama");
  for (LoadFormat format : {LoadFormat::automatic, LoadFormat::dummy}) {
    const auto weights = load_weights(*folder, format, full, *stream, {});
    ASSERT_FALSE(weights.ok());
    EXPECT_THAT(weights.error().problems, ElementsAre("weights: allocate: no memory"));
  }
}

TEST(DummyWeights, NeedNoCheckpointAndAreTheSameEveryTime) {
  TempFolder folder;
  fs::copy(kMini / "config.json", folder.path() / "config.json");
  const auto first = load(folder.path(), LoadFormat::dummy);
  const auto second = load(folder.path(), LoadFormat::dummy);
  ASSERT_THAT(first->problems, ElementsAre());
  EXPECT_EQ(first->fractions.back(), 1.0);
  EXPECT_EQ(first->weights.embedding.matrix.dtype, gpu::DType::bf16);
  EXPECT_EQ(values(first->weights.layers[6].moe->gate_up), values(second->weights.layers[6].moe->gate_up));
  EXPECT_NE(values(first->weights.layers[6].moe->gate_up), values(first->weights.layers[5].moe->gate_up));
}

TEST(DummyWeights, KeepTheScaleOfARealModel) {
  const auto loaded = load(kMini, LoadFormat::dummy);
  const auto moments = [](const std::vector<float>& numbers) {
    double sum = 0.0, squares = 0.0;
    for (float v : numbers) {
      sum += v;
      squares += v * v;
    }
    const auto n = static_cast<double>(numbers.size());
    return std::pair(sum / n, std::sqrt(squares / n - sum / n * sum / n));
  };
  const auto [mean, deviation] = moments(values(loaded->weights.layers[0].gdn->qkv));
  EXPECT_NEAR(mean, 0.0, 0.001);
  EXPECT_NEAR(deviation, 1.0 / std::sqrt(256.0), 0.001);
  EXPECT_NEAR(moments(values(loaded->weights.layers[0].attn_hc->norm)).first, 0.0, 0.02);  // 1 + w
  EXPECT_NEAR(moments(values(loaded->weights.layers[0].gdn->norm)).first, 1.0, 0.05);      // w
  EXPECT_NEAR(moments(values(load(kFixtures / "tiny-llama", LoadFormat::dummy)->weights.final_norm)).first,
              1.0, 0.05);
}

TEST(DummyWeights, LargeOnesRepeatThemselvesToTheLastElement) {
  constexpr std::int64_t kPeriod = std::int64_t{1} << 26, kRest = 4099;
  const auto device = gpu::make_host_device(1);
  const auto stream = std::move(device->create_stream()).value();
  Weight weight;
  WeightMap map;
  map.weights.push_back({WeightSpec::Storage::as_stored, 2 * kPeriod + kRest, 1, {}, &weight, {0.0F, 1.0F}});
  const auto storage = place_weights(map, {{{gpu::DType::bf16}, {gpu::DType::bf16}}}, *device);
  ASSERT_TRUE(storage.ok());
  std::int64_t filled = 0;
  ASSERT_TRUE(
      fill_with_dummy_values(map, *storage, 1, *stream, [&](std::int64_t bytes) { filled += bytes; }).ok());
  EXPECT_EQ(filled, 2 * (2 * kPeriod + kRest));
  const std::byte* const base = storage->addresses[0];
  EXPECT_EQ(std::memcmp(base, base + 2 * kPeriod, 2 * kPeriod), 0);
  EXPECT_EQ(std::memcmp(base, base + 4 * kPeriod, 2 * kRest), 0);
  EXPECT_NE(std::memcmp(base, base + 2 * kRest, 2 * kRest), 0);
}

}  // namespace
}  // namespace model
