#include "model/plan/serve_plan.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "model/cache/kv_layout.h"
#include "model/checkpoint/weight_map.h"
#include "tests/model/plan/plan_samples.h"

namespace model {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

using namespace testing_plan;

TEST(ServePlan, ChunkOf8192AndOneSequenceNeed8193TokensAnd262144RowSlots) {
  ModelConfig config = mini();
  ASSERT_EQ(config.ple->num_heads(), 16);
  const ServePlan derived = plan(config, options(8192, 1), device(gpu::Backend::cuda));
  EXPECT_EQ(derived.max_batch_tokens, 8193);
  EXPECT_EQ(derived.ple_tokens, 8193);
  EXPECT_EQ(derived.ple_cache_slots, 262144);
  EXPECT_EQ(derived.chunk_width, 8192);
}

TEST(ServePlan, DefaultsDependOnTheBackendAndTheModel) {
  const ServePlan cpu = plan(mini(), {}, device(gpu::Backend::cpu));
  EXPECT_EQ(cpu.max_seq_len, 8192);
  EXPECT_EQ(cpu.max_batch_size, 8);
  EXPECT_EQ(cpu.max_prefill_tokens, 512);
  EXPECT_EQ(cpu.max_batch_tokens, 520);
  EXPECT_EQ(cpu.vocab_size, 4096);
  EXPECT_EQ(cpu.sparse_selection_bound, 131);
  EXPECT_EQ(cpu.qsa_tokens, 8192);
  EXPECT_EQ(cpu.qsa_ring_rows, 4);
  EXPECT_EQ(cpu.num_state_slots, 8);
  EXPECT_EQ(cpu.pages_per_sequence, 512);
  EXPECT_EQ(cpu.num_pages, 8 * 512);
  const ServePlan cuda = plan(mini(), {}, device(gpu::Backend::cuda));
  EXPECT_EQ(cuda.max_batch_size, 64);
  EXPECT_EQ(cuda.max_prefill_tokens, 8192);
  ModelConfig longer = mini();
  longer.max_positions = 262144;
  EXPECT_EQ(plan(longer, {}, device(gpu::Backend::cpu)).max_seq_len, 32768);
}

TEST(ServePlan, OfAModelWithoutSelectionOrTablesHasNone) {
  const ServePlan derived = plan(tiny_llama(), {}, device(gpu::Backend::cpu));
  EXPECT_EQ(derived.sparse_selection_bound, 0);
  EXPECT_EQ(derived.qsa_tokens, 0);
  EXPECT_EQ(derived.qsa_ring_rows, 0);
  EXPECT_EQ(derived.ple_cache_slots, 0);
  EXPECT_EQ(derived.ple_tokens, 0);
}

TEST(ServePlan, ChunkWidthIsTheGridBelowThePrefillBudget) {
  for (const auto& [tokens, width] :
       {std::pair(64, 64), std::pair(65, 64), std::pair(127, 64), std::pair(128, 128)}) {
    EXPECT_EQ(plan(mini(), options(tokens, 1), device(gpu::Backend::cpu)).chunk_width, width) << tokens;
  }
}

/// Every mix of prefill rows and re-fed rows within the budget fits, and one of them needs the last row.
TEST(ServePlan, StepRowsHoldEveryMixOfFormsExactly) {
  for (const std::int32_t budget : {64, 65, 100, 128, 511, 512}) {
    for (const std::int32_t drafts : {0, 3}) {
      const ServePlan derived = plan(mini(), options(budget, 5, drafts), device(gpu::Backend::cpu));
      std::int64_t most = 0;
      for (std::int32_t prefill = 0; prefill <= budget; ++prefill) {
        const std::int32_t fed_again = budget - prefill;
        most = std::max(most, gpu::round_up(prefill, 64) + fed_again + 5 * (1 + drafts));
      }
      EXPECT_EQ(derived.max_step_rows, most) << budget;
    }
  }
}

TEST(ServePlan, DraftsWidenTheBatchTheRingAndTheState) {
  const ServePlan without = plan(mini(), options(512, 8), device(gpu::Backend::cpu));
  const ServePlan with = plan(mini(), options(512, 8, 3), device(gpu::Backend::cpu));
  EXPECT_EQ(with.max_batch_tokens, 512 + 8 * 4);
  EXPECT_EQ(with.qsa_ring_rows, 8);  // 4 * ceil((4 + 3) / 4)
  EXPECT_EQ(plan(mini(), options(512, 8, 5), device(gpu::Backend::cpu)).qsa_ring_rows, 12);
  EXPECT_GT(with.state_bytes, without.state_bytes);
  EXPECT_GT(with.kv_bytes, without.kv_bytes);  // the draft layer has pages too
}

TEST(ServePlan, BytesAreThoseOfTheModel) {
  const ServePlan derived = plan(mini(), options(512, 8), device(gpu::Backend::cpu));
  // 2 sparse layers; K and V of 2 heads * 64; one index key of 32 for 4 positions; f32
  const std::int64_t page = 2 * (2 * 16 * 128 * 4 + 16 / 4 * 32 * 4);
  EXPECT_EQ(derived.kv_bytes.n, page * derived.num_pages);
  const std::int64_t gdn = 6 * (4 * 8 * 32 * 32 + 3 * 512 * 4);
  const std::int64_t index_ring = 2 * 4 * 32 * 4;
  const std::int64_t ple = 9 * 4 * 256 * 4;
  EXPECT_EQ(derived.state_bytes.n, 8 * (gdn + index_ring + ple + tables_of_a_slot(8192, 512, 4096)));
}

TEST(ServePlan, CudaComputesInBfloat16UnlessFloat32IsAskedFor) {
  const auto cpu = device(gpu::Backend::cpu), cuda = device(gpu::Backend::cuda);
  PlanOptions asked = options(512, 8);
  EXPECT_EQ(plan(mini(), asked, cpu).activation, gpu::DType::f32);
  EXPECT_EQ(plan(mini(), asked, cpu).weight_matrices, std::nullopt);
  const ServePlan narrow = plan(mini(), asked, cuda);
  EXPECT_EQ(narrow.activation, gpu::DType::bf16);
  EXPECT_EQ(narrow.weight_matrices, gpu::DType::bf16);
  for (const DTypeOption same : {DTypeOption::bfloat16, DTypeOption::automatic}) {
    asked.dtype = asked.kv_cache_dtype = same;
    EXPECT_EQ(plan(mini(), asked, cuda).activation, gpu::DType::bf16);
  }
  asked.dtype = asked.kv_cache_dtype = DTypeOption::float32;
  const ServePlan wide = plan(mini(), asked, cuda);
  EXPECT_EQ(wide.activation, gpu::DType::f32);
  EXPECT_EQ(wide.weight_matrices, gpu::DType::f32);
  EXPECT_EQ(wide.kv_bytes.n, 2 * narrow.kv_bytes.n);
  EXPECT_EQ(plan(mini(), asked, cpu).activation, gpu::DType::f32);
}

TEST(ServePlan, TypesThatABackendDoesNotComputeInAreViolations) {
  PlanOptions asked = options(512, 8);
  asked.dtype = DTypeOption::bfloat16;
  const auto on_cpu = derive_serve_plan(mini(), asked, device(gpu::Backend::cpu));
  ASSERT_FALSE(on_cpu.ok());
  EXPECT_THAT(on_cpu.error().problems,
              ElementsAre("--dtype bfloat16: the CPU backend computes in float32 only"));
  asked.kv_cache_dtype = DTypeOption::float32;
  const auto on_cuda = derive_serve_plan(mini(), asked, device(gpu::Backend::cuda));
  ASSERT_FALSE(on_cuda.ok());
  EXPECT_THAT(on_cuda.error().problems,
              ElementsAre(AllOf(HasSubstr("--kv-cache-dtype"), HasSubstr("bfloat16, or auto"))));
}

/// 11461000 parameters or so, of which some thousands are vectors, f32 on every device.
TEST(ServePlan, WeightsWithoutFilesAreCountedInTheTypeThatTheDeviceHolds) {
  const std::int64_t stored = device_weight_bytes(mini(), std::nullopt).n;
  EXPECT_EQ(device_weight_bytes(mini(), gpu::DType::bf16).n, stored);
  const std::int64_t wide = device_weight_bytes(mini(), gpu::DType::f32).n;
  EXPECT_GT(wide, stored * 19 / 10);
  EXPECT_LT(wide, stored * 2);
}

/// Three recurrent layers without n-grams, one dense attention without an index.
TEST(ServePlan, BytesOfAHybridModelWithoutStreams) {
  for (const char* name : {"tiny-qwen3_next", "tiny-qwen3_5", "tiny-qwen3_5_moe"}) {
    const ServePlan derived = plan(fixture(name), options(512, 8), device(gpu::Backend::cpu));
    EXPECT_EQ(derived.kv_bytes.n, 2 * 16 * (2 * 16) * 4 * std::int64_t{derived.num_pages}) << name;
    const std::int64_t gdn = 3 * (4 * 4 * 16 * 16 + 3 * 128 * 4);
    EXPECT_EQ(derived.state_bytes.n, 8 * (gdn + tables_of_a_slot(1024, 64, derived.vocab_size))) << name;
  }
}

/// What the plan counts is what the runner takes.
TEST(ServePlan, CountsTheBytesThatTheLayersTakeInEveryFamily) {
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-qwen3_moe", "tiny-qwen3_next", "tiny-qwen3_5",
                           "tiny-qwen3_5_moe", "tiny-qwen4_exp"}) {
    const ModelConfig config = fixture(name);
    const ServePlan derived = plan(config, options(512, 8), device(gpu::Backend::cpu));
    EXPECT_EQ(derived.kv_bytes, page_memory_bytes(config, derived)) << name;
    const std::int64_t tables =
        8 * tables_of_a_slot(derived.max_seq_len, derived.pages_per_sequence, derived.vocab_size);
    EXPECT_EQ(derived.state_bytes.n, slot_memory_bytes(config, derived).n + tables) << name;
  }
}

TEST(ServePlan, PagesShrinkToTheMemoryThatIsLeft) {
  PlanOptions small = options(512, 8);
  small.weight_bytes = gpu::Bytes{0};
  const ServePlan roomy = plan(mini(), small, device(gpu::Backend::cpu));
  const std::int64_t page = roomy.kv_bytes.n / roomy.num_pages;
  small.gpu_memory_utilization = 1.0;
  const std::int64_t one_sequence = roomy.state_bytes.n + roomy.arena_bytes.n + 512 * page;
  EXPECT_EQ(plan(mini(), small, device(gpu::Backend::cpu, one_sequence)).num_pages, 512);
  EXPECT_EQ(plan(mini(), small, device(gpu::Backend::cpu, one_sequence + page)).num_pages, 513);
  const auto refused = derive_serve_plan(mini(), small, device(gpu::Backend::cpu, one_sequence - 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().problems,
              ElementsAre(AllOf(HasSubstr("KV memory"), HasSubstr("--max-seq-len of at most 8176"))));
}

TEST(ServePlan, WeightsCountAgainstTheMemory) {
  PlanOptions heavy = options(512, 8);
  heavy.weight_bytes = gpu::Bytes{64 * kGib};
  EXPECT_FALSE(derive_serve_plan(mini(), heavy, device(gpu::Backend::cpu)).ok());
  // 11.46 M parameters as bf16 where nothing else is known
  heavy.weight_bytes.reset();
  heavy.gpu_memory_utilization = 1.0;
  EXPECT_FALSE(derive_serve_plan(mini(), heavy, device(gpu::Backend::cpu, 11461000 * 2)).ok());
}

TEST(ServePlan, KvCacheTokensArePagesOfTheOperatorsChoice) {
  PlanOptions chosen = options(512, 8);
  chosen.kv_cache_tokens = 8192;
  EXPECT_EQ(plan(mini(), chosen, device(gpu::Backend::cpu)).num_pages, 512);
  chosen.kv_cache_tokens = 8193;
  EXPECT_EQ(plan(mini(), chosen, device(gpu::Backend::cpu)).num_pages, 513);
  chosen.kv_cache_tokens = 8176;
  EXPECT_THAT(derive_serve_plan(mini(), chosen, device(gpu::Backend::cpu)).error().problems,
              ElementsAre(AllOf(HasSubstr("--kv-cache-tokens is 8176"), HasSubstr("8192 are needed"))));
  chosen.kv_cache_tokens = std::int64_t{1} << 62;
  EXPECT_THAT(derive_serve_plan(mini(), chosen, device(gpu::Backend::cpu)).error().problems,
              ElementsAre(AllOf(HasSubstr("--kv-cache-tokens"), HasSubstr("fit"))));
}

/// Options with a table of that many bytes among the weights, in files of bf16.
PlanOptions with_table(std::int64_t table_bytes, PleResident resident) {
  PlanOptions given = options(512, 8);
  given.gpu_memory_utilization = 1.0;
  given.ple_resident = resident;
  given.weight_bytes = gpu::Bytes{kGib / 64 + table_bytes};
  given.ple_table = PleTableFacts{gpu::Bytes{table_bytes}, gpu::Bytes{table_bytes}, gpu::Bytes{16}, ""};
  return given;
}

TEST(ServePlan, TablesAreResidentAsLongAsOneSequenceFitsBesideThem) {
  const auto given = with_table(kGib, PleResident::automatic);
  const ServePlan roomy = plan(mini(), given, device(gpu::Backend::cuda));
  EXPECT_EQ(roomy.ple_tables, PleTables::resident);
  EXPECT_EQ(roomy.ple_tables_why, "1.00 GiB fit beside weights, scratch and one sequence");
  EXPECT_EQ(roomy.ple_store_bytes.n, 0);
  const std::int64_t page = roomy.kv_bytes.n / roomy.num_pages;
  const std::int64_t needed = given.weight_bytes->n + roomy.state_bytes.n + roomy.arena_bytes.n +
                              std::int64_t{roomy.pages_per_sequence} * page;
  EXPECT_EQ(plan(mini(), given, device(gpu::Backend::cuda, needed)).ple_tables, PleTables::resident);
  const ServePlan tight = plan(mini(), given, device(gpu::Backend::cuda, needed - (1 << 20)));
  EXPECT_EQ(tight.ple_tables, PleTables::stored);
  EXPECT_EQ(tight.ple_tables_why, "1.00 GiB are 1.0 MiB too many beside weights, scratch and one sequence");
  EXPECT_GT(tight.num_pages, tight.pages_per_sequence);  // the table's bytes are free for pages
  // Asked for, they are resident or nothing is served.
  const auto asked = with_table(kGib, PleResident::always);
  EXPECT_EQ(plan(mini(), asked, device(gpu::Backend::cuda, needed)).ple_tables_why, "--ple-resident always");
  EXPECT_FALSE(derive_serve_plan(mini(), asked, device(gpu::Backend::cuda, needed - (1 << 20))).ok());
}

TEST(ServePlan, StoredTablesCostTheHostTheirCache) {
  for (const gpu::Backend backend : {gpu::Backend::cpu, gpu::Backend::cuda}) {
    const PlanOptions given = with_table(kGib, PleResident::never);
    const ServePlan stored = plan(mini(), given, device(backend));
    EXPECT_EQ(stored.ple_tables, PleTables::stored);
    EXPECT_EQ(stored.ple_tables_why, "--ple-resident never");
    EXPECT_GT(stored.ple_store_bytes.n, stored.ple_cache_slots * given.ple_table->row_bytes.n);
    const std::vector<std::string> lines = describe(stored);
    EXPECT_THAT(lines, Contains(AllOf(HasSubstr("PLE row cache: 16384 slots a layer, "),
                                      HasSubstr("n-gram tables stay in their files: --ple-resident never"))));
    EXPECT_THAT(lines, Contains(AllOf(HasSubstr("memory: weights 16.0 MiB"), backend == gpu::Backend::cpu
                                                                                 ? HasSubstr(", n-gram rows ")
                                                                                 : HasSubstr(", scratch "))));
    // What is left for pages differs by the table, and by the store where both are in one memory.
    const std::int64_t store = backend == gpu::Backend::cpu ? stored.ple_store_bytes.n : 0;
    const std::int64_t page = stored.kv_bytes.n / stored.num_pages;
    const std::int64_t least = stored.state_bytes.n + stored.arena_bytes.n + kGib / 64 + store +
                               std::int64_t{stored.pages_per_sequence} * page;
    EXPECT_EQ(plan(mini(), given, device(backend, least)).num_pages, stored.pages_per_sequence);
    EXPECT_FALSE(derive_serve_plan(mini(), given, device(backend, least - 1)).ok());
  }
}

TEST(ServePlan, TablesWhoseRowsCannotBeReadStayResidentOrAreRefused) {
  auto given = with_table(kGib, PleResident::never);
  given.ple_table->not_readable = "x.gguf holds t as q8_0";
  EXPECT_THAT(derive_serve_plan(mini(), given, device(gpu::Backend::cpu)).error().problems,
              ElementsAre("--ple-resident never: x.gguf holds t as q8_0; auto or always is needed"));
  given.ple_resident = PleResident::automatic;
  EXPECT_FALSE(derive_serve_plan(mini(), given, device(gpu::Backend::cpu, kGib)).ok());
  EXPECT_EQ(plan(mini(), given, device(gpu::Backend::cpu)).ple_tables, PleTables::resident);
  given = with_table(kGib, PleResident::never);
  given.ple_cache_slots = std::int64_t{1} << 31;
  EXPECT_THAT(derive_serve_plan(mini(), given, device(gpu::Backend::cuda)).error().problems,
              ElementsAre(AllOf(HasSubstr("--ple-cache-slots is 2147483648"),
                                HasSubstr("1 to 2147483647 are possible"))));
  // Of a model without tables nothing is asked.
  PlanOptions never = options(512, 8);
  never.ple_resident = PleResident::never;
  EXPECT_EQ(plan(tiny_llama(), never, device(gpu::Backend::cpu)).ple_tables, PleTables::none);
}

struct Impossible {
  const char* says;
  const char* needed;
  void (*change)(PlanOptions&);
};

TEST(ServePlan, EveryViolationSaysWhatWhyAndTheValueNeeded) {
  const std::vector<Impossible> table{
      {"--max-seq-len is 8193", "2 to 8192", [](PlanOptions& o) { o.max_seq_len = 8193; }},
      {"--max-seq-len is 1", "2 to 8192", [](PlanOptions& o) { o.max_seq_len = 1; }},
      {"--max-batch-size is 0", "1 to", [](PlanOptions& o) { o.max_batch_size = 0; }},
      {"--max-prefill-tokens is 63", "64 to", [](PlanOptions& o) { o.max_prefill_tokens = 63; }},
      {"--max-prefill-tokens is 2147483647", "64 to",
       [](PlanOptions& o) { o.max_prefill_tokens = 2147483647; }},
      {"--snapshot-slots is -1", "0 to 64", [](PlanOptions& o) { o.snapshot_slots = -1; }},
      {"--num-drafts is -1", "0 to", [](PlanOptions& o) { o.num_drafts = -1; }},
      {"--block-size is 8", "16, 32 or 64", [](PlanOptions& o) { o.block_size = 8; }},
      {"--block-size is 48", "16, 32 or 64", [](PlanOptions& o) { o.block_size = 48; }},
      {"--block-size is 0", "16, 32 or 64", [](PlanOptions& o) { o.block_size = 0; }},
      {"--gpu-memory-utilization is 1.5", "at most 1",
       [](PlanOptions& o) { o.gpu_memory_utilization = 1.5; }},
  };
  for (const Impossible& impossible : table) {
    SCOPED_TRACE(impossible.says);
    PlanOptions changed;
    impossible.change(changed);
    const auto result = derive_serve_plan(mini(), changed, device(gpu::Backend::cpu));
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().problems,
                testing::Contains(AllOf(HasSubstr(impossible.says), HasSubstr(impossible.needed))));
  }
}

TEST(ServePlan, OverridesHoldFromTheirFloorOn) {
  const auto with = [](std::int64_t below) {
    PlanOptions wanted = options(512, 8);
    wanted.ple_max_tokens = static_cast<std::int32_t>(520 - below);
    wanted.ple_cache_slots = 520 * 16 - below;
    wanted.qsa_max_tokens = static_cast<std::int32_t>(8192 - below);
    return derive_serve_plan(mini(), wanted, device(gpu::Backend::cpu));
  };
  const auto held = with(0);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(held->ple_tokens, 520);
  EXPECT_EQ(held->ple_cache_slots, 8320);
  EXPECT_EQ(held->qsa_tokens, 8192);
  const auto refused = with(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().problems,
              ElementsAre(AllOf(HasSubstr("--qsa-max-tokens is 8191"), HasSubstr("8192 is needed")),
                          AllOf(HasSubstr("--ple-max-tokens is 519"), HasSubstr("520 tokens")),
                          AllOf(HasSubstr("--ple-cache-slots is 8319"), HasSubstr("8320 rows"))));
}

TEST(ServePlan, OverridesThatGiveNothingAreNoted) {
  PlanOptions wanted = options(512, 8);
  wanted.ple_max_tokens = 521;
  wanted.ple_cache_slots = 524288;
  wanted.qsa_max_tokens = 8193;
  const ServePlan large = plan(mini(), wanted, device(gpu::Backend::cpu));
  EXPECT_THAT(large.notes, ElementsAre(AllOf(HasSubstr("--qsa-max-tokens is 8193"), HasSubstr("8192")),
                                       AllOf(HasSubstr("--ple-max-tokens is 521"), HasSubstr("520"))));
  EXPECT_EQ(large.arena_bytes, plan(mini(), options(512, 8), device(gpu::Backend::cpu)).arena_bytes);
  EXPECT_THAT(plan(tiny_llama(), wanted, device(gpu::Backend::cpu)).notes,
              ElementsAre(HasSubstr("--qsa-max-tokens is 8193: this model has no sparse attention"),
                          HasSubstr("--ple-max-tokens is 521: this model has no n-gram rows"),
                          HasSubstr("--ple-cache-slots is 524288: this model has no n-gram rows")));
}

TEST(ServePlan, OfTheRealModelHasTheNumbersOfItsOperators) {
  PlanOptions served = options(20480, 64);
  served.weight_bytes = gpu::Bytes{60 * kGib};
  served.max_seq_len = 262144;
  served.qsa_max_tokens = 262144;
  served.ple_max_tokens = 20544;
  served.ple_cache_slots = 524288;
  const ServePlan derived = plan(real(), served, device(gpu::Backend::cuda, 256 * kGib));
  EXPECT_EQ(derived.max_batch_tokens, 20544);
  EXPECT_EQ(derived.qsa_tokens, 262144);
  EXPECT_EQ(derived.ple_cache_slots, 524288);  // also what is derived
  EXPECT_THAT(derived.notes, testing::IsEmpty());
  PlanOptions one = options(8192, 1);
  one.weight_bytes = served.weight_bytes;
  EXPECT_EQ(plan(real(), one, device(gpu::Backend::cuda, 256 * kGib)).ple_cache_slots, 262144);
}

TEST(ServePlan, APageMustHoldWholeIndexBlocks) {
  ModelConfig config = mini();
  config.indexer->ratio = 32;
  config.indexer->budget = 128;
  PlanOptions small;
  small.block_size = 16;
  EXPECT_THAT(derive_serve_plan(config, small, device(gpu::Backend::cpu)).error().problems,
              ElementsAre(AllOf(HasSubstr("--block-size is 16"), HasSubstr("multiple of 32"))));
  small.block_size = 32;
  EXPECT_TRUE(derive_serve_plan(config, small, device(gpu::Backend::cpu)).ok());
}

TEST(ServePlan, DraftsNeedADraftLayer) {
  EXPECT_THAT(derive_serve_plan(tiny_llama(), options(512, 8, 2), device(gpu::Backend::cpu)).error().problems,
              ElementsAre(AllOf(HasSubstr("--num-drafts is 2"), HasSubstr("no MTP layer"))));
}

TEST(ServePlan, AllViolationsAreListedAtOnceMemoryIncluded) {
  PlanOptions wrong = options(32, 8);
  wrong.max_seq_len = 100000;
  wrong.block_size = 24;
  const auto result = derive_serve_plan(mini(), wrong, device(gpu::Backend::cpu, kGib / 64));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().problems.size(), 4U);
}

TEST(ServePlan, IsPrintedUnderItsFieldNames) {
  const ServePlan derived = plan(mini(), {}, device(gpu::Backend::cpu));
  const auto json = nlohmann::json::parse(to_json(derived));
  EXPECT_EQ(json["max_seq_len"], 8192);
  EXPECT_EQ(json["vocab_size"], 4096);
  EXPECT_EQ(json["chunk_width"], 512);
  EXPECT_EQ(json["sparse_selection_bound"], 131);
  EXPECT_EQ(json["kv_bytes"], derived.kv_bytes.n);
  EXPECT_EQ(json["prompt_logits_rows"], 64);
  EXPECT_EQ(json["activation"], "f32");
  EXPECT_EQ(json["ple_tables"], "resident");
  EXPECT_EQ(json["ple_store_bytes"], 0);
  const auto plain = nlohmann::json::parse(to_json(plan(tiny_llama(), {}, device(gpu::Backend::cpu))));
  EXPECT_EQ(plain.count("ple_tables"), 0U);
  EXPECT_EQ(json["arena_bytes"], derived.arena_bytes.n);
  EXPECT_EQ(json["ple_scratch_bytes"], derived.ple_scratch_bytes.n);
  EXPECT_EQ(json["sequence_gdn_bytes"], derived.sequence.gdn.n);
  EXPECT_EQ(json["snapshot_bytes"], derived.snapshot_bytes.n);
  EXPECT_EQ(json["memory_total_bytes"], 64 * kGib);
  EXPECT_EQ(json.size(), 39U);
}

}  // namespace
}  // namespace model
