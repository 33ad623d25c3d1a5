#include "kernels/recurrent.h"
#include "tests/kernels/cuda/twin.h"

namespace kernels::testing {
namespace {

using gpu::DType;
using ::testing::HasSubstr;

constexpr std::int32_t kSlots = 4;

struct Heads {
  std::int32_t k_heads, v_heads, k_dim, v_dim;
};

/// One layer's parameters, the inputs of `rows` rows and the states of kSlots sequences.
struct DeltaNet {
  Heads heads;
  Twin qkv, a, b, o, state;
  std::vector<float> a_log, dt_bias;
  DeviceVector<float> a_log_on_device, dt_bias_on_device;
  ValueHeads order = ValueHeads::grouped;
  GdnDecay decay = GdnDecay::log_rate;

  struct Options {
    GdnDecay decay = GdnDecay::log_rate;
    double log_rate = -1.0;
    double a_deviation = 1.0;
    std::int64_t extra_pitch = 16;
  };
  DeltaNet(const Heads& h, DType dtype, std::int64_t rows, std::mt19937& rng)
      : DeltaNet(h, dtype, rows, rng, Options{}) {}
  DeltaNet(const Heads& h, DType dtype, std::int64_t rows, std::mt19937& rng, const Options& options)
      : heads(h),
        qkv(Twin::random(dtype, rows, 2 * h.k_heads * h.k_dim + h.v_heads * h.v_dim, rng, 1.0,
                         options.extra_pitch)),
        a(Twin::random(dtype, rows, h.v_heads, rng, options.a_deviation, options.extra_pitch)),
        b(Twin::random(dtype, rows, h.v_heads, rng, 1.0, options.extra_pitch)),
        o(dtype, rows, h.v_heads * h.v_dim, options.extra_pitch),
        state(Twin::random(DType::f32, std::int64_t{kSlots} * h.v_heads, h.k_dim * h.v_dim, rng, 0.3)),
        a_log(rates(h, rng, options)),
        dt_bias(numbers(h.v_heads, -2.0, 1.0, rng)),
        a_log_on_device(a_log),
        dt_bias_on_device(dt_bias),
        decay(options.decay) {}

  static std::vector<float> numbers(std::int32_t n, double low, double high, std::mt19937& rng) {
    std::uniform_real_distribution<float> uniform(static_cast<float>(low), static_cast<float>(high));
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = uniform(rng);
    return values;
  }
  static std::vector<float> rates(const Heads& h, std::mt19937& rng, const Options& options) {
    std::vector<float> values = numbers(h.v_heads, options.log_rate - 2.0, options.log_rate + 2.0, rng);
    if (options.decay == GdnDecay::negative_rate) {
      for (float& value : values) value = -std::exp(value);
    }
    return values;
  }

  GdnArgs args(bool device, std::int64_t first, std::int64_t n) {
    GdnArgs args;
    args.o = o.part(device, first, n);
    args.qkv = qkv.part(device, first, n);
    args.a = a.part(device, first, n);
    args.b = b.part(device, first, n);
    args.a_log = device ? a_log_on_device.vector() : vector_of(a_log);
    args.dt_bias = device ? dt_bias_on_device.vector() : vector_of(dt_bias);
    args.state = state.at(device);
    args.num_k_heads = heads.k_heads;
    args.num_v_heads = heads.v_heads;
    args.k_dim = heads.k_dim;
    args.v_dim = heads.v_dim;
    args.value_heads = order;
    args.decay = decay;
    return args;
  }
  void run(Form form, std::int64_t first, const std::vector<Segment>& segments, bool cpu_too) {
    const SegmentRows rows(form, segments);
    const DeviceBatch batch(rows.batch());
    const std::int64_t n = rows.batch().num_rows.n;
    TestDevice& test = *TestDevice::get();
    expect_done(test.ops().gdn(test.stream(), batch.batch(), args(true, first, n)));
    EXPECT_EQ(complaint_of_step(), "");
    if (cpu_too) expect_done(test.cpu().gdn(test.host_stream(), rows.batch(), args(false, first, n)));
  }
  void run_cut(Form form, std::int32_t slot, const std::vector<std::int32_t>& cuts) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      run(form, cuts[i], {{slot, cuts[i], cuts[i + 1] - cuts[i]}}, false);
    }
  }
  void expect_near() {
    o.expect_near("o");
    state.expect_near("state");
  }
};

bool same_results(DeltaNet& a, DeltaNet& b) {
  return same_rows(a.o.from_device(), b.o.from_device()) &&
         same_rows(a.state.from_device(), b.state.from_device());
}

/// Small ones, dimensions that are no whole tiles, the real one; on a device the largest and whole layers
/// too.
std::vector<Heads> shapes() {
  std::vector<Heads> all = {{2, 4, 16, 16}, {1, 2, 24, 40}, {2, 2, 8, 72}, {1, 3, 128, 128}};
  if (!TestDevice::get()->small()) {
    for (const Heads real :
         {Heads{1, 2, 256, 256}, {2, 2, 136, 200}, {16, 32, 128, 128}, {16, 48, 128, 128}}) {
      all.push_back(real);
    }
  }
  return all;
}

std::string name_of(const Heads& h, DType dtype, std::int64_t rows) {
  return std::to_string(h.k_heads) + "/" + std::to_string(h.v_heads) + " heads of " +
         std::to_string(h.k_dim) + "x" + std::to_string(h.v_dim) + ", " + std::to_string(rows) + " rows of " +
         std::string(gpu::to_string(dtype));
}

TEST(CudaGdn, BothFormsAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(41);
  for (const DType dtype : kActivationTypes) {
    for (const Heads& heads : shapes()) {
      for (const std::int32_t rows : {1, 2, 17, 63, 64, 65, 128, 150}) {
        const bool large = heads.k_dim >= 128 && (heads.v_heads > 3 || TestDevice::get()->small());
        if (large && rows != 1 && rows != 65) continue;
        for (const Form form : {Form::prefill, Form::decode}) {
          SCOPED_TRACE(name_of(heads, dtype, rows) + (form == Form::decode ? ", decode" : ", prefill"));
          DeltaNet net(heads, dtype, rows, rng);
          net.run(form, 0, {{1, 0, rows}}, true);
          net.expect_near();
        }
      }
    }
  }
}

TEST(CudaGdn, TheLargestHeadsAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(42);
  for (const Form form : {Form::prefill, Form::decode}) {
    for (const Heads& heads : {Heads{1, 1, 256, 256}, Heads{1, 1, 136, 200}}) {
      DeltaNet net(heads, DType::f32, 70, rng);
      net.run(form, 0, {{0, 0, 70}}, true);
      net.expect_near();
    }
  }
}

TEST(CudaGdn, EveryOrderOfValueHeadsAndEveryFormOfDecayAgreesWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(43);
  for (const ValueHeads order : {ValueHeads::grouped, ValueHeads::tiled}) {
    for (const GdnDecay decay : {GdnDecay::log_rate, GdnDecay::negative_rate}) {
      for (const Form form : {Form::prefill, Form::decode}) {
        DeltaNet net({2, 6, 16, 24}, DType::f32, 70, rng, {.decay = decay});
        net.order = order;
        net.run(form, 0, {{2, 0, 70}}, true);
        net.expect_near();
      }
    }
  }
}

/// Decays so strong that exp(G) underflows and exp(-G) would overflow, and hardly any.
TEST(CudaGdn, ExtremeDecaysAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 rng(44);
  for (const double log_rate : {4.0, -12.0}) {
    for (const Form form : {Form::prefill, Form::decode}) {
      DeltaNet net({2, 4, 32, 32}, DType::f32, 100, rng, {.log_rate = log_rate, .a_deviation = 20.0});
      net.run(form, 0, {{0, 0, 100}}, true);
      net.expect_near();
    }
  }
}

TEST(CudaGdn, RandomSchedulesOfBothFormsAgreeWithTheCpu) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    for (unsigned seed = 50; seed < 54; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937 rng(seed);
      DeltaNet net({2, 4, 16, 24}, dtype, 1500, rng);
      std::int32_t position[kSlots] = {};  // prompts first, on the grid; then generated rows
      bool generates[kSlots] = {};
      std::int64_t first = 0;
      for (int step = 0; step < 12; ++step) {
        for (const Form form : {Form::prefill, Form::decode}) {
          std::vector<Segment> segments;
          std::int32_t n = 0;
          for (std::int32_t slot = 0; slot < kSlots; ++slot) {
            if (rng() % 3 == 0 || generates[slot] != (form == Form::decode)) continue;
            std::int32_t rows =
                static_cast<std::int32_t>(form == Form::decode ? 1 + rng() % 4 : rng() % 2 * 64);
            if (form == Form::prefill && rng() % 3 == 0) rows += static_cast<std::int32_t>(1 + rng() % 63);
            if (rows == 0) continue;
            segments.push_back({slot, position[slot], rows});
            position[slot] += rows;
            generates[slot] = position[slot] % kGdnChunk != 0 || form == Form::decode;
            n += rows;
          }
          if (n == 0 || first + n > 1500) continue;
          std::shuffle(segments.begin(), segments.end(), rng);
          net.run(form, first, segments, true);
          first += n;
        }
      }
      ASSERT_GT(first, 60);
      net.state.expect_near("state");
      net.o.expect_first_rows_near(first, "o");
    }
  }
}

TEST(CudaGdn, PrefillHasTheSameBitsForEveryCutOnTheGridAlignedOrNot) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    for (unsigned seed = 60; seed < 68; ++seed) {
      Heads heads = seed % 2 == 0 ? Heads{2, 4, 16, 16} : Heads{1, 2, 24, 40};
      if (seed % 4 == 3 && !TestDevice::get()->small()) heads = {2, 6, 128, 128};
      std::mt19937 a(seed), b(seed), c(seed), rng(seed);
      const auto rows = static_cast<std::int32_t>(65 + rng() % 250);
      DeltaNet whole(heads, dtype, rows, a), cut(heads, dtype, rows, b);
      DeltaNet odd(heads, dtype, rows, c, {.extra_pitch = kOddPitch});
      whole.run_cut(Form::prefill, 2, {0, rows});
      cut.run_cut(Form::prefill, 2, random_cuts(rows, kGdnChunk, 3 * kGdnChunk, rng));
      odd.run_cut(Form::prefill, 2, {0, rows});
      ASSERT_TRUE(same_results(cut, whole)) << "seed " << seed << ", " << rows << " rows";
      ASSERT_TRUE(same_results(odd, whole)) << "seed " << seed << ", " << rows << " rows";
    }
  }
}

TEST(CudaGdn, DecodeRowsOfOneSegmentHaveTheSameBitsOneByOne) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    for (std::int32_t rows = 1; rows <= 16; ++rows) {
      const Heads heads = rows % 4 == 0 ? Heads{1, 2, 128, 128} : Heads{2, 4, 24, 40};
      std::mt19937 a(70), b(70), c(70);
      DeltaNet verified(heads, dtype, rows, a), stepped(heads, dtype, rows, b);
      DeltaNet odd(heads, dtype, rows, c, {.extra_pitch = kOddPitch});
      verified.run(Form::decode, 0, {{3, 100, rows}}, false);
      odd.run(Form::decode, 0, {{3, 100, rows}}, false);
      for (std::int32_t r = 0; r < rows; ++r) stepped.run(Form::decode, r, {{3, 100 + r, 1}}, false);
      EXPECT_TRUE(same_results(verified, stepped)) << rows;
      EXPECT_TRUE(same_results(verified, odd)) << rows;
    }
  }
}

TEST(CudaGdn, ABatchGivesEachSequenceWhatItGetsAlone) {
  REQUIRE_DEVICE();
  for (const DType dtype : kActivationTypes) {
    for (const Form form : {Form::prefill, Form::decode}) {
      std::mt19937 a(80), b(80);
      DeltaNet together({2, 4, 32, 32}, dtype, 200, a), apart({2, 4, 32, 32}, dtype, 200, b);
      const std::vector<Segment> segments = {{2, 64, 100}, {0, 0, 1}, {1, 128, 99}};
      together.run(form, 0, segments, false);
      std::int64_t first = 0;
      for (const Segment& segment : segments) {
        apart.run(form, first, {segment}, false);
        first += segment.num_rows;
      }
      EXPECT_TRUE(same_results(together, apart));
    }
  }
}

TEST(CudaGdn, AShortChunkIsTheBeginningOfALongerOneEvenIfThatIsSpoilt) {
  REQUIRE_DEVICE();
  for (const std::int32_t rows : {1, 3, 16, 17, 31, 32, 40, 63}) {
    std::mt19937 a(90), b(90);
    DeltaNet whole({2, 4, 16, 40}, DType::f32, 64, a), part({2, 4, 16, 40}, DType::f32, 64, b);
    OpMatrix spoilt = whole.qkv.from_device();
    for (std::int64_t r = rows; r < 64; ++r) {
      for (std::int64_t c = 0; c < spoilt.cols(); ++c) spoilt.set(r, c, r % 2 == 0 ? kNaN : 3e38);
    }
    whole.qkv = Twin(spoilt);
    whole.run(Form::prefill, 0, {{0, 0, 64}}, false);
    part.run(Form::prefill, 0, {{0, 0, rows}}, false);
    EXPECT_TRUE(same_rows(part.o.from_device(), 0, whole.o.from_device(), 0, rows)) << rows;
  }
}

TEST(CudaGdn, APrefillSegmentOffTheGridIsNamedAndItsStateStays) {
  REQUIRE_DEVICE();
  std::mt19937 rng(91);
  DeltaNet net({2, 4, 16, 16}, DType::bf16, 20, rng);
  const OpMatrix before = net.state.from_device();
  const SegmentRows rows(Form::prefill, {{0, 64, 10}, {1, 65, 10}});
  const DeviceBatch batch(rows.batch());
  TestDevice& test = *TestDevice::get();
  expect_done(test.ops().gdn(test.stream(), batch.batch(), net.args(true, 0, 20)));
  EXPECT_THAT(complaint_of_step(), HasSubstr("gdn: row 10: a prefill segment begins at position 65"));
  EXPECT_TRUE(same_rows(net.state.from_device(), 4, before, 4, 12));
  net.run(Form::decode, 10, {{1, 65, 10}}, false);  // any position is on the grid of single steps
}

TEST(CudaGdn, DimensionsThatTheKernelsDoNotTakeAreRefused) {
  REQUIRE_DEVICE();
  std::mt19937 rng(92);
  for (const auto& [heads, said] :
       {std::pair{Heads{1, 1, 20, 16}, "k_dim is 20"}, std::pair{Heads{1, 1, 16, 264}, "v_dim is 264"}}) {
    DeltaNet net(heads, DType::f32, 1, rng);
    const SegmentRows rows(Form::decode, {{0, 0, 1}});
    const DeviceBatch batch(rows.batch());
    TestDevice& test = *TestDevice::get();
    const auto status = test.ops().gdn(test.stream(), batch.batch(), net.args(true, 0, 1));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, gpu::DeviceError::Kind::refused);
    EXPECT_THAT(status.error().what, HasSubstr(said));
  }
}

}  // namespace
}  // namespace kernels::testing
