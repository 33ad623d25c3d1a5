#include "model/layers/slot_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "gpu/device.h"
#include "model/layers/decoder.h"
#include "tests/model/arch/config_samples.h"

namespace model {
namespace {

/// A model of one linear layer with n-grams and one sparse layer, of which only the memory is real.
ModelConfig small_config() {
  ModelConfig config;
  config.family = Family::qwen4_exp;
  config.vocab_size = 32;
  config.hidden_size = 8;
  config.layers = {LayerKind::linear_attention, LayerKind::sparse_attention};
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  config.gdn = GdnConfig{1, 2, 8, 8, 4};
  config.moe = MoeConfig{2, 1, 8, 8};
  config.hyper_connection = HyperConnectionConfig{2, 8};
  config.ple = PleConfig{};
  config.ple->layers = {0};
  config.ple->embed_dim = 16;
  config.indexer = IndexerConfig{1, 8, 16, 4};
  return config;
}
ServePlan small_plan() {
  ServePlan plan;
  plan.num_state_slots = 3;
  plan.num_pages = 4;
  plan.block_size = 16;
  plan.qsa_ring_rows = 4;
  return plan;
}

class SlotStateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = gpu::make_host_device(1);
    stream_ = *device_->create_stream();
    const gpu::Bytes size = slot_memory_bytes(config_, plan_);
    arena_ = gpu::Arena(*device_->allocate(size, "slots"));
    memory_.resize(config_.layers.size());
    ASSERT_TRUE(take_slot_memory(config_, plan_, arena_, memory_).ok());
    weights_ = skeleton_weights(config_);
    decoder_ = std::make_unique<Decoder>(config_, weights_, memory_, kernels::Rope{});
  }
  std::vector<StateSpan> state_of(StateSlot slot) const { return decoder_->state_of(slot); }
  void fill(StateSlot slot, int value) {
    for (const StateSpan& span : state_of(slot))
      std::memset(span.base, value, static_cast<std::size_t>(span.size.n));
  }
  bool all(StateSlot slot, int value) const {
    for (const StateSpan& span : state_of(slot))
      for (std::int64_t i = 0; i < span.size.n; ++i)
        if (std::to_integer<int>(span.base[i]) != value) return false;
    return true;
  }

  ModelConfig config_ = small_config();
  ServePlan plan_ = small_plan();
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Stream> stream_;
  gpu::Arena arena_;
  std::vector<LayerMemory> memory_;
  ModelWeights weights_;
  std::unique_ptr<Decoder> decoder_;
};

// Three rings and S: 3 convolution rows of 32 channels, 9 n-gram rows of 16, two heads of 8 x 8, 4 raw index
// keys of 8.
TEST_F(SlotStateTest, TheSpansAreEveryPerSlotPartOfTheModel) {
  EXPECT_EQ(state_of(0).size(), 4U);
  EXPECT_EQ(state_bytes(state_of(0)).n, 4 * (3 * 32 + 9 * 16 + 2 * 64 + 4 * 8));
}

TEST_F(SlotStateTest, ResetZeroesOneSlotAndNoOther) {
  for (const StateSlot slot : {0, 1, 2}) fill(slot, 7);
  ASSERT_TRUE(reset_state(*stream_, state_of(1)).ok());
  EXPECT_TRUE(all(0, 7));
  EXPECT_TRUE(all(1, 0));
  EXPECT_TRUE(all(2, 7));
}

TEST_F(SlotStateTest, WhatOneSlotSavedAnotherRestores) {
  std::vector<std::byte> pattern(static_cast<std::size_t>(state_bytes(state_of(0)).n));
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i * 31);
  ASSERT_TRUE(restore_state(*stream_, pattern.data(), state_of(0)).ok());
  std::vector<std::byte> snapshot(pattern.size());
  ASSERT_TRUE(save_state(*stream_, state_of(0), snapshot.data()).ok());
  EXPECT_EQ(snapshot, pattern);

  fill(1, 3);
  fill(2, 9);
  ASSERT_TRUE(restore_state(*stream_, snapshot.data(), state_of(2)).ok());
  std::vector<std::byte> again(pattern.size());
  ASSERT_TRUE(save_state(*stream_, state_of(2), again.data()).ok());
  EXPECT_EQ(again, pattern);
  EXPECT_TRUE(all(1, 3));
}

/// What a slot remembers is all that is kept for it, in every family: nothing is left out of a reset or a
/// copy.
TEST(SlotState, TheSpansOfAllSlotsAreTheSlotMemory) {
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-qwen3_moe", "tiny-qwen3_next", "tiny-qwen3_5",
                           "tiny-qwen3_5_moe", "tiny-qwen4_exp"}) {
    SCOPED_TRACE(name);
    const ModelConfig config = testing_config::parsed(testing_config::fixture(name));
    ServePlan plan = small_plan();
    MeasuringArena addresses;
    std::vector<LayerMemory> memory(config.layers.size());
    ASSERT_TRUE(take_slot_memory(config, plan, addresses.arena(), memory).ok());
    const ModelWeights weights = skeleton_weights(config);
    const Decoder decoder(config, weights, memory, kernels::Rope{});
    std::vector<std::pair<const std::byte*, std::int64_t>> spans;
    std::int64_t bytes = 0;
    for (StateSlot slot = 0; slot < plan.num_state_slots; ++slot) {
      for (const StateSpan& span : decoder.state_of(slot)) {
        spans.emplace_back(span.base, span.size.n);
        bytes += span.size.n;
      }
    }
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i)
      EXPECT_LE(spans[i - 1].first + spans[i - 1].second, spans[i].first) << "spans overlap";
    EXPECT_EQ(bytes, slot_memory_bytes(config, plan).n);
  }
}

}  // namespace
}  // namespace model
