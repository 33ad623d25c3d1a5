#include "model/plan/plan_memory.h"

#include <gmock/gmock.h>

#include <numeric>

#include "model/cache/kv_layout.h"
#include "model/layers/decoder.h"
#include "model/runner/null_ops.h"
#include "model/runner/runner.h"
#include "model/runner/step_buffers.h"
#include "tests/model/plan/plan_samples.h"

namespace model {
namespace {

using namespace testing_plan;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::int64_t bytes_of(const Matrix& m) { return m.rows.n * m.pitch.n * gpu::size_of(m.dtype); }

TEST(PlanMemory, OfASequenceAddsUpToItsPagesAndItsSlot) {
  for (const std::string& name : kFamilies) {
    const ModelConfig config = fixture(name);
    const ServePlan derived = plan(config, options(512, 8), device(gpu::Backend::cpu));
    const gpu::Bytes page{derived.kv_bytes.n / derived.num_pages};
    const gpu::Bytes slot{derived.state_bytes.n / derived.num_state_slots};
    EXPECT_EQ(derived.sequence.total(), page * derived.pages_per_sequence + slot) << name;
  }
}

/// The ledger's lines beside what the layers' memory holds, part by part.
TEST(PlanMemory, OfEachPartIsWhatTheLayersTake) {
  for (const std::string& name : kFamilies) {
    const ModelConfig config = fixture(name);
    const ServePlan derived = plan(config, options(512, 1), device(gpu::Backend::cpu));
    MeasuringArena pages, slots;
    std::vector<LayerMemory> layers(config.layers.size());
    ASSERT_TRUE(take_page_memory(config, derived, pages.arena(), layers).ok());
    ASSERT_TRUE(take_slot_memory(config, derived, slots.arena(), layers).ok());
    SequenceBytes taken;
    for (const LayerMemory& layer : layers) {
      taken.kv += {bytes_of(layer.attention.keys) + bytes_of(layer.attention.values)};
      taken.index += {bytes_of(layer.attention.index_keys) + bytes_of(layer.attention.index_ring)};
      taken.gdn += {bytes_of(layer.recurrent.conv_ring) + bytes_of(layer.recurrent.state)};
      taken.ple += {bytes_of(layer.ple.conv_ring)};
    }
    EXPECT_EQ(derived.sequence.kv, taken.kv) << name;
    EXPECT_EQ(derived.sequence.index, taken.index) << name;
    EXPECT_EQ(derived.sequence.gdn, taken.gdn) << name;
    EXPECT_EQ(derived.sequence.ple, taken.ple) << name;
  }
}

TEST(PlanMemory, OfASnapshotIsTheStateOfASlot) {
  for (const std::string& name : kFamilies) {
    const ModelConfig config = fixture(name);
    const ServePlan derived = plan(config, options(512, 2), device(gpu::Backend::cpu));
    MeasuringArena slots;
    std::vector<LayerMemory> layers(config.layers.size());
    ASSERT_TRUE(take_slot_memory(config, derived, slots.arena(), layers).ok());
    const ModelWeights weights = skeleton_weights(config);
    const std::vector<StateSpan> spans = Decoder(config, weights, layers, {}).state_of(1);
    const std::int64_t state =
        std::accumulate(spans.begin(), spans.end(), std::int64_t{0},
                        [](std::int64_t sum, const StateSpan& span) { return sum + span.size.n; });
    EXPECT_EQ(derived.snapshot_bytes.n, gpu::round_up(state, 256)) << name;
  }
}

/// What the layers take of a real arena while they do nothing, and the most that a PLE layer took of it.
struct Taken {
  bool fits = false;
  gpu::Bytes high_water, ple;
};
class SeePle final : public ForwardProbe {
 public:
  SeePle(const gpu::Arena& arena, gpu::Bytes before) : arena_(arena), before_(before) {}
  /// Row ids are the last that a PLE layer takes, beside all else that it holds.
  void see(std::string_view name, gpu::ConstMatrix, const kernels::RowBatch&) override {
    if (name.ends_with(".ngram_rows")) most = std::max(most, arena_.mark() - before_);
  }
  gpu::Bytes most;

 private:
  const gpu::Arena& arena_;
  gpu::Bytes before_;
};
Taken take_of_an_arena(const ModelConfig& config, const ServePlan& plan, gpu::Bytes size) {
  const auto memory = gpu::make_host_device(1);
  gpu::Arena arena(*memory->allocate(size, "arena"));
  const auto ops = make_null_ops();
  const auto stream = make_null_stream();
  const ModelWeights weights = skeleton_weights(config);
  const std::vector<LayerMemory> layers(config.layers.size());
  const Decoder decoder(config, weights, layers, {});
  const auto buffers = take_step_buffers(arena, config, plan);
  if (!buffers.ok()) return {};
  SeePle probe(arena, arena.mark());
  // One row beyond the selection bound: scratch is taken at capacity all the same.
  FormRows form;
  form.batch.num_rows = Rows{1};
  form.batch.max_position = plan.max_seq_len - 1;
  form.logits_rows.size = Elements{1};
  const StepContext context{*stream, *ops, arena, plan.activation,  Rows{plan.max_step_rows},
                            {},      {},   {},    plan.max_seq_len, &probe};
  const bool fits = decoder.forward(context, {&form, 1}, buffers->hidden, buffers->logits).ok();
  return {fits, arena.high_water(), probe.most};
}

TEST(PlanMemory, OfAStepIsWhatItsArenaHandsOut) {
  for (const ModelConfig& config : {mini(), fixture("tiny-qwen4_exp"), fixture("tiny-qwen3_next"), real()}) {
    for (const std::int32_t prefill : {8192, 20480}) {
      PlanOptions wide = options(prefill, 64);
      wide.weight_bytes = gpu::Bytes{0};
      const ServePlan derived = plan(config, wide, device(gpu::Backend::cuda, 512 * kGib));
      EXPECT_EQ(derived.max_batch_tokens, prefill + 64);
      const Taken taken = take_of_an_arena(config, derived, derived.arena_bytes);
      EXPECT_TRUE(taken.fits) << config.model_type << prefill;
      EXPECT_EQ(taken.high_water, derived.arena_bytes) << config.model_type << prefill;
      EXPECT_EQ(taken.ple, derived.ple_scratch_bytes) << config.model_type << prefill;
      EXPECT_FALSE(take_of_an_arena(config, derived, derived.arena_bytes - gpu::Bytes{1}).fits);
    }
  }
}

TEST(PlanMemory, OfAStepIsSharedByAllLayers) {
  PlanOptions wide = options(8192, 64);
  wide.weight_bytes = gpu::Bytes{0};
  const ModelConfig config = mini();
  const ServePlan shallow = plan(config, wide, device(gpu::Backend::cuda));
  ModelConfig deep = config;
  for (int i = 0; i < 5; ++i)
    deep.layers.insert(deep.layers.end(), config.layers.begin(), config.layers.end());
  deep.ple->layers.push_back(static_cast<LayerIndex>(deep.layers.size()) - 1);
  const ServePlan deeper = plan(deep, wide, device(gpu::Backend::cuda));
  EXPECT_EQ(deeper.arena_bytes, shallow.arena_bytes);
  EXPECT_EQ(deeper.ple_scratch_bytes, shallow.ple_scratch_bytes);
  EXPECT_EQ(deeper.sequence.gdn.n, 6 * shallow.sequence.gdn.n);
}

PlanOptions rolling_back(std::int32_t sequences) {
  PlanOptions asked = options(512, sequences);
  asked.weight_bytes = gpu::Bytes{0};
  asked.gpu_memory_utilization = 1.0;
  asked.rolls_back = true;
  return asked;
}

TEST(PlanMemory, OfSnapshotsIsNoneWhileNothingCapturesThem) {
  PlanOptions asked = rolling_back(8);
  asked.rolls_back = false;
  const ServePlan derived = plan(mini(), asked, device(gpu::Backend::cpu));
  EXPECT_EQ(derived.num_snapshots, 0);
  EXPECT_EQ(derived.snapshot_pool_bytes.n, 0);
  EXPECT_GT(derived.snapshot_bytes.n, 0);
}

TEST(PlanMemory, OfSnapshotsIsARingASequence) {
  PlanOptions asked = rolling_back(8);
  const ServePlan derived = plan(mini(), asked, device(gpu::Backend::cpu));
  EXPECT_EQ(derived.num_snapshots, 8 * 4);
  EXPECT_EQ(derived.snapshot_pool_bytes.n, 8 * 4 * derived.snapshot_bytes.n);
  EXPECT_THAT(derived.notes, IsEmpty());
  asked.snapshot_slots = 0;
  EXPECT_EQ(plan(mini(), asked, device(gpu::Backend::cpu)).num_snapshots, 0);
}

TEST(PlanMemory, OfSnapshotsShrinksBeforeASequenceLosesItsPages) {
  const PlanOptions asked = rolling_back(8);
  const ServePlan roomy = plan(mini(), asked, device(gpu::Backend::cpu));
  const gpu::Bytes page{roomy.kv_bytes.n / roomy.num_pages};
  const gpu::Bytes least = roomy.state_bytes + roomy.arena_bytes + page * roomy.pages_per_sequence;
  const auto with = [&](gpu::Bytes more) {
    return plan(mini(), asked, device(gpu::Backend::cpu, (least + more).n));
  };

  const ServePlan none = with({});
  EXPECT_EQ(none.num_snapshots, 0);
  EXPECT_EQ(none.num_pages, none.pages_per_sequence);
  EXPECT_THAT(none.notes, ElementsAre(AllOf(HasSubstr("--snapshot-slots is 4"), HasSubstr("0 a sequence"))));

  const ServePlan half = with(roomy.snapshot_bytes * 2 * 17);
  EXPECT_EQ(half.num_snapshots, 17);  // half of the bytes that one sequence's pages leave
  EXPECT_EQ(half.snapshot_slots, 2);
  EXPECT_EQ(half.num_pages, half.pages_per_sequence + roomy.snapshot_bytes.n * 17 / page.n);
  EXPECT_LE((half.kv_bytes + half.snapshot_pool_bytes + half.arena_bytes + half.state_bytes).n,
            half.memory_ceiling.n);

  PlanOptions chosen = asked;
  chosen.kv_cache_tokens = 8192;
  const ServePlan rest =
      plan(mini(), chosen, device(gpu::Backend::cpu, (least + roomy.snapshot_bytes * 17).n));
  EXPECT_EQ(rest.num_snapshots, 17);  // pages are as chosen, so all the rest
  EXPECT_EQ(rest.num_pages, 512);
}

TEST(PlanMemory, IsPrintedWithItsNumbersAndNotes) {
  PlanOptions asked = options(512, 8);
  asked.ple_max_tokens = 1000;
  const std::vector<std::string> lines = describe(plan(mini(), asked, device(gpu::Backend::cpu)));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("serve plan: 8 sequences of 8192 tokens; 520 tokens a step"))));
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("a sequence: KV "), HasSubstr("index "), HasSubstr("GDN "),
                             HasSubstr("PLE 36.0 KiB"), HasSubstr("tables "), HasSubstr("snapshots 0 B"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("scratch of a step: "), HasSubstr("PLE takes "))));
  EXPECT_THAT(lines, Contains(HasSubstr("PLE row cache: 16384 slots a layer (resident)")));
  EXPECT_THAT(
      lines, Contains(AllOf(HasSubstr("memory: weights "), HasSubstr("4096 pages"), HasSubstr("64.00 GiB"))));
  EXPECT_THAT(lines, Contains(HasSubstr("note: --ple-max-tokens is 1000")));
}

}  // namespace
}  // namespace model
