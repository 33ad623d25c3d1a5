#include "kernels/check_args.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kernels/arg_rules.h"

namespace kernels {
namespace {

using gpu::DType;

// Checks never read through a pointer, so addresses are made up.
std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

/// Matrices of one call, each in memory of its own.
struct Places {
  std::uintptr_t next = 0x10000;
  gpu::Matrix operator()(DType dtype, std::int64_t rows, std::int64_t cols) {
    const std::uintptr_t here = next;
    next += 0x100000;
    return {at(here), dtype, {rows}, {cols}, {gpu::round_up(cols, 8)}};
  }
  template <class T>
  gpu::MatrixView<T> view(std::int64_t rows, std::int64_t cols) {
    using Plain = std::remove_const_t<T>;
    return gpu::typed<Plain>((*this)(gpu::DTypeOf<Plain>::value, rows, cols));
  }
  template <class T>
  gpu::VectorView<T> array(std::int64_t size) {
    next += 0x100000;
    return {reinterpret_cast<T*>(next - 0x100000), {size}};
  }
  gpu::ConstVector vector(std::int64_t size) {
    return {(*this)(DType::f32, 1, size).base, DType::f32, {size}};
  }
  RowBatch batch(std::int64_t rows, std::int32_t max_position) {
    return {Form::decode,
            {rows},
            array<const std::int32_t>(rows),
            array<const std::int32_t>(rows),
            1,
            array<const std::int32_t>(1),
            array<const std::int32_t>(1),
            array<const std::int32_t>(1),
            static_cast<std::int32_t>(rows),
            max_position};
  }
  PageTables pages() { return {view<const std::int32_t>(4, 8), 16}; }
};

template <class Args>
std::string answer(const Args& args) {
  const Refusal refusal = check_args(args);
  return refusal ? refusal->what : "";
}
template <class Args>
std::string answer(const RowBatch& batch, const Args& args) {
  const Refusal refusal = check_args(batch, args);
  return refusal ? refusal->what : "";
}

GemmArgs good_gemm() {
  Places place;
  return {
      place(DType::f32, 3, 24), place(DType::f32, 3, 16), {place(DType::bf16, 24, 16)}, Form::decode, "qkv"};
}
std::string gemm_with(const std::function<void(GemmArgs&)>& change) {
  GemmArgs args = good_gemm();
  change(args);
  return answer(args);
}

TEST(CheckGemm, AcceptsWhatTheContractAllows) {
  EXPECT_EQ(answer(good_gemm()), "");
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(gemm_with([&](GemmArgs& a) { a.w.matrix.dtype = dtype; }), "");
  }
  EXPECT_EQ(answer(GemmArgs{}), "") << "no rows";
}

TEST(CheckGemm, NamesOpOperandAndNumbers) {
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.w.matrix.cols = {8}; }),
            "gemm qkv: w is [24, 8], expected [24, 16]");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.y.cols = {23}; }), "gemm qkv: y is [3, 23], expected [3, 24]");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.y.rows = {2}; }), "gemm qkv: y is [2, 24], expected [3, 24]");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.x.dtype = DType::bf16; }), "gemm qkv: x is bf16, expected f32");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.w.matrix.dtype = DType::i32; }),
            "gemm qkv: w is i32, expected f32 or f16 or bf16");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.x.base = nullptr; }), "gemm qkv: x [3, 16] has no memory");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.x.pitch = {15}; }), "gemm qkv: x [3, 16] has pitch 15");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.x.base += 8; }), "gemm qkv: x row 0 is not 16-byte aligned");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.y.pitch = {26}; }),
            "gemm qkv: y row 1 is not 16-byte aligned: pitch 26");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.x.cols = a.w.matrix.cols = {12}; }),
            "gemm qkv: K is 12, expected a multiple of 8");
  EXPECT_EQ(gemm_with([](GemmArgs& a) { a.y.base = const_cast<std::byte*>(a.x.base); }),
            "gemm qkv: y overlaps x");
  EXPECT_EQ(check_args(GemmArgs{{}, good_gemm().x, {}, Form::decode, "o"})->kind,
            gpu::DeviceError::Kind::refused);
}

TEST(CheckGemm, OneRowNeedsNoPitch) {
  EXPECT_EQ(gemm_with([](GemmArgs& a) {
              a.x.rows = a.y.rows = {1};
              a.y.pitch = {25};
            }),
            "");
}

TEST(Overlap, IsAboutElementsNotAddressRanges) {
  Places place;
  const gpu::Matrix wide = place(DType::f32, 4, 32);
  const gpu::Matrix other = place(DType::f32, 4, 32);
  const auto columns = [&](std::int64_t first, std::int64_t n) { return wide.columns({first}, {n}); };
  EXPECT_FALSE(overlap(wide, other));
  EXPECT_TRUE(overlap(wide, wide));
  EXPECT_FALSE(overlap(columns(0, 16), columns(16, 16)));
  EXPECT_FALSE(overlap(columns(16, 16), columns(0, 16)));
  EXPECT_TRUE(overlap(columns(0, 17), columns(16, 16)));
  EXPECT_TRUE(overlap(columns(0, 16), wide.from_row({1}).columns({15}, {2})));
  EXPECT_FALSE(overlap(columns(0, 16), wide.from_row({1}).columns({16}, {2})));
  EXPECT_FALSE(overlap(wide.first_rows({2}), wide.from_row({2})));
  EXPECT_FALSE(overlap(wide.first_rows({0}), wide));
  gpu::Matrix folded = wide;
  folded.pitch = {33};
  folded.rows = {3};
  EXPECT_TRUE(overlap(columns(0, 16), folded)) << "other pitches: the ranges decide";
}

/// One good call of each op, and what is answered when one thing is broken.
TEST(CheckArgs, RowOpsRefuseByOperand) {
  Places place;
  const auto y = place(DType::f32, 3, 8), x = place(DType::f32, 3, 8), up = place(DType::f32, 3, 8);
  const auto wide = place(DType::f32, 3, 32), wide2 = place(DType::f32, 3, 32),
             short_rows = place(DType::f32, 2, 8);
  const auto w8 = place.vector(8);
  const auto gather = place.array<const std::int32_t>(3);

  EXPECT_EQ(answer(GatherRowsArgs{y, wide.columns({0}, {8}), gather}), "");
  EXPECT_EQ(answer(GatherRowsArgs{short_rows, x, gather}), "gather_rows: y is [2, 8], expected [3, 8]");
  EXPECT_EQ(answer(GatherRowsArgs{y, y, gather}), "gather_rows: y overlaps x");

  EXPECT_EQ(answer(AddArgs{y, x}), "");
  EXPECT_EQ(answer(AddArgs{y, y}), "");
  EXPECT_EQ(answer(AddArgs{y, short_rows}), "add: x is [2, 8], expected [3, 8]");
  EXPECT_EQ(answer(AddArgs{wide.columns({0}, {8}), wide.columns({4}, {8})}), "add: y overlaps x");

  EXPECT_EQ(answer(ScaledSiluArgs{y, y, 1.0F}), "");
  EXPECT_EQ(answer(ScaledSiluArgs{y, wide, 1.0F}), "scaled_silu: x is [3, 32], expected [3, 8]");

  EXPECT_EQ(answer(SwigluArgs{wide.columns({0}, {8}), wide.columns({0}, {8}), wide.columns({8}, {8})}), "");
  EXPECT_EQ(answer(SwigluArgs{y, x, short_rows}), "swiglu: up is [2, 8], expected [3, 8]");

  EXPECT_EQ(answer(RmsNormArgs{wide, wide, w8, {8}}), "");
  EXPECT_EQ(answer(RmsNormArgs{wide, wide, place.vector(32), {8}}), "");
  EXPECT_EQ(answer(RmsNormArgs{wide, wide, place.vector(16), {8}}), "rms_norm: w has 16 entries, expected 8");
  EXPECT_EQ(answer(RmsNormArgs{wide, wide, w8, {0}}), "rms_norm: group is 0, expected at least 1");
  EXPECT_EQ(answer(RmsNormArgs{wide, wide, place.vector(12), {12}}),
            "rms_norm: cols is 32, expected a multiple of 12");

  EXPECT_EQ(answer(GatedRmsNormArgs{wide, wide, wide2, w8, {8}}), "");
  EXPECT_EQ(answer(GatedRmsNormArgs{wide, wide, y, w8, {8}}),
            "gated_rms_norm: z is [3, 8], expected [3, 32]");

  EXPECT_EQ(answer(HeadGateArgs{y, wide, 2, 4, 8}), "");
  EXPECT_EQ(answer(HeadGateArgs{y, x, 2, 4, 8}), "head_gate: gate is [3, 8], expected at least [3, 12]");

  EXPECT_EQ(answer(RepeatStreamsArgs{wide, x, 4}), "");
  EXPECT_EQ(answer(RepeatStreamsArgs{wide, x, 3}), "repeat_streams: h is [3, 32], expected [3, 24]");
  EXPECT_EQ(answer(MixStreamsArgs{x, wide, wide2, 4}), "");
  EXPECT_EQ(answer(MixStreamsArgs{x, wide, y, 4}), "mix_streams: xn is [3, 8], expected [3, 32]");
  EXPECT_EQ(answer(InjectStreamsArgs{wide, y, x, 4}), "");
  EXPECT_EQ(answer(InjectStreamsArgs{wide, y, x.columns({0}, {3}), 4}),
            "inject_streams: inject is [3, 3], expected at least [3, 4]");
  EXPECT_EQ(answer(InjectStreamsArgs{wide, y, wide, 4}), "inject_streams: h overlaps inject");

  EXPECT_EQ(answer(SharedExpertAddArgs{y, x, up}), "");
  EXPECT_EQ(answer(SharedExpertAddArgs{y, x, short_rows}), "shared_expert_add: gate rows is 2, expected 3");
}

TEST(CheckArgs, SequenceOpsRefuseByOperand) {
  Places place;
  const RowBatch batch = place.batch(3, 100);
  const auto rows = [&](std::int64_t cols) { return place(DType::f32, 3, cols); };
  const auto ids = place.view<const std::int32_t>(4, 128);

  EXPECT_EQ(answer(batch, EmbeddingArgs{rows(8), place(DType::bf16, 50, 8), ids}), "");
  EXPECT_EQ(answer(batch,
                   EmbeddingArgs{rows(8), place(DType::bf16, 50, 8), place.view<const std::int32_t>(4, 100)}),
            "embedding: ids is [4, 100], expected at least [1, 101]");
  RowBatch broken = batch;
  broken.row_slot.size = {2};
  EXPECT_EQ(answer(broken, EmbeddingArgs{rows(8), place(DType::bf16, 50, 8), ids}),
            "embedding: row_slot has 2 entries, expected 3");

  HeadNormRopeArgs rope{rows(16),
                        rows(32),
                        2,
                        8,
                        16,
                        place.vector(8),
                        NormWeight::one_plus,
                        1e-6F,
                        {place.array<const float>(4), 1.0F}};
  EXPECT_EQ(answer(batch, rope), "");
  rope.rope.inv_freq.size = {5};
  EXPECT_EQ(answer(batch, rope), "head_norm_rope: head_dim (twice inv_freq) is 8, expected at least 10");
  rope.rope.inv_freq.size = {4};
  rope.y = {const_cast<std::byte*>(rope.x.base), DType::f32, {3}, {16}, {32}};
  EXPECT_EQ(answer(batch, rope), "head_norm_rope: y overlaps x");

  const PageTables pages = place.pages();
  KvAppendArgs kv{place(DType::f32, 64, 16), place(DType::f32, 64, 16), rows(16), rows(16), pages};
  EXPECT_EQ(answer(batch, kv), "");
  kv.pages.table.cols = {6};
  EXPECT_EQ(answer(batch, kv), "kv_append: positions in the page table is 96, expected at least 101");
  kv.pages.table.cols = {8};
  kv.pages.block = 24;
  EXPECT_EQ(answer(batch, kv), "kv_append: page block is 24, expected 16, 32 or 64");

  AttentionArgs attention{rows(32), rows(32), kv.k_cache, kv.v_cache, pages, 4, 2, 8, 1.0F, {}};
  EXPECT_EQ(answer(batch, attention), "");
  attention.num_kv_heads = 3;
  EXPECT_EQ(answer(batch, attention), "attention: num_heads is 4, expected a multiple of 3");
  attention.num_kv_heads = 2;
  attention.selection = {place.view<const std::int32_t>(3, 5), 4, 6};
  EXPECT_EQ(answer(batch, attention), "attention: selection blocks is [3, 5], expected [3, 6]");

  QsaIndexAppendArgs append{place(DType::f32, 16, 8),
                            place(DType::f32, 32, 8),
                            rows(8),
                            8,
                            4,
                            pages,
                            place.vector(8),
                            1e-6F,
                            {place.array<const float>(4), 1.0F}};
  EXPECT_EQ(answer(batch, append), "");
  append.ring_rows = 6;
  EXPECT_EQ(answer(batch, append), "qsa_index_append: ring_rows is 6, expected a multiple of 4");

  QsaSelectArgs select{
      place.view<std::int32_t>(3, 6), rows(25), rows(16), place(DType::f32, 16, 8), 2, 8, 4, 6, pages};
  EXPECT_EQ(answer(batch, select), "");
  select.scores.cols = {24};
  EXPECT_EQ(answer(batch, select), "qsa_select: scores is [3, 24], expected at least [3, 25]");
  select.top_blocks = 25;
  select.blocks = place.view<std::int32_t>(3, 25);
  EXPECT_EQ(answer(batch, select), "") << "below the bound no scores are needed";

  CausalConvArgs conv{rows(8), rows(8), place(DType::f32, 8, 4), place(DType::f32, 18, 8), 9, 4, 3};
  EXPECT_EQ(answer(batch, conv), "");
  conv.ring_rows = 6;
  EXPECT_EQ(answer(batch, conv), "causal_conv: ring_rows is 6, expected at least 9");
  conv.ring_rows = 9;
  conv.y = {const_cast<std::byte*>(conv.x.base), DType::f32, {3}, {8}, {8}};
  EXPECT_EQ(answer(batch, conv), "causal_conv: y overlaps x");

  GdnArgs gdn{
      rows(32), rows(64), rows(4), rows(4), place.vector(4), place.vector(4), place(DType::f32, 8, 64),
      2,        4,        8,       8};
  EXPECT_EQ(answer(batch, gdn), "");
  gdn.state.rows = {7};
  EXPECT_EQ(answer(batch, gdn), "gdn: state rows is 7, expected a multiple of 4");

  NgramRowsArgs ngram{place.view<std::int64_t>(3, 8),
                      ids,
                      place.array<const std::int64_t>(3),
                      place.array<const std::int64_t>(8),
                      place.array<const std::int64_t>(8),
                      3,
                      4,
                      2};
  EXPECT_EQ(answer(batch, ngram), "");
  ngram.offsets.size = {7};
  EXPECT_EQ(answer(batch, ngram), "ngram_rows: offsets has 7 entries, expected 8");

  RowBatch none = batch;
  none.num_rows = {0};
  EXPECT_EQ(answer(none, GdnArgs{}), "") << "no rows: nothing is required";
}

TEST(CheckArgs, ChoosingOpsRefuseByOperand) {
  Places place;
  const auto rows = [&](std::int64_t cols) { return place(DType::f32, 3, cols); };

  EXPECT_EQ(
      answer(GatherTableArgs{rows(32), place(DType::f16, 100, 8), place.view<const std::int64_t>(3, 4)}), "");
  EXPECT_EQ(
      answer(GatherTableArgs{rows(24), place(DType::f16, 100, 8), place.view<const std::int64_t>(3, 4)}),
      "gather_table: y is [3, 24], expected [3, 32]");
  EXPECT_EQ(answer(PleGateArgs{rows(32), rows(32), rows(32), rows(8), 4}), "");
  EXPECT_EQ(answer(PleGateArgs{rows(32), rows(32), rows(24), rows(8), 4}),
            "ple_gate: query is [3, 24], expected [3, 32]");

  EXPECT_EQ(answer(MoeRouteArgs{place.view<std::int32_t>(3, 2), place.view<float>(3, 2), rows(8)}), "");
  EXPECT_EQ(answer(MoeRouteArgs{place.view<std::int32_t>(3, 9), place.view<float>(3, 9), rows(8)}),
            "moe_route: experts is 8, expected at least 9");

  MoeExpertsArgs experts{rows(16),
                         rows(16),
                         place.view<const std::int32_t>(3, 2),
                         place.view<const float>(3, 2),
                         {place(DType::bf16, 64, 16)},
                         {place(DType::bf16, 64, 8)},
                         4,
                         8,
                         Form::decode,
                         place(DType::f32, 6, 16),
                         place(DType::f32, 6, 16),
                         place.array<std::int32_t>(11)};
  EXPECT_EQ(answer(experts), "");
  experts.order.size = {10};
  EXPECT_EQ(answer(experts), "moe_experts: order entries is 10, expected at least 11");
  experts.order.size = {11};
  experts.hidden.rows = {5};
  EXPECT_EQ(answer(experts), "moe_experts: hidden is [5, 16], expected at least [6, 16]");
  experts.hidden.rows = {6};
  experts.down.matrix.rows = {63};
  EXPECT_EQ(answer(experts), "moe_experts: down is [63, 8], expected [64, 8]");

  SampleArgs sample{place.array<SampledRow>(3),
                    place.view<std::int32_t>(4, 8),
                    place.view<const float>(3, 10),
                    place.view<float>(3, 10),
                    place.array<const RowSampling>(3),
                    {},
                    {}};
  EXPECT_EQ(answer(sample), "");
  sample.params.size = {2};
  EXPECT_EQ(answer(sample), "sample: params has 2 entries, expected 3");
}

}  // namespace
}  // namespace kernels
