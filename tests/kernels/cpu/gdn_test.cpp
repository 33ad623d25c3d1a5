#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/recurrent.h"
#include "tests/kernels/cpu/sequence_rows.h"

namespace kernels::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kSlots = 3;

struct Shape {
  std::int32_t k_heads, v_heads, k_dim, v_dim;
};

/// One layer's parameters and states, and the inputs of one sequence.
struct DeltaNet {
  Shape shape;
  Floats qkv, a, b, state;
  std::vector<float> a_log, dt_bias;
  GdnDecay decay = GdnDecay::log_rate;

  DeltaNet(const Shape& s, std::int64_t rows, std::mt19937& rng)
      : shape(s),
        qkv(rows, 2 * s.k_heads * s.k_dim + s.v_heads * s.v_dim),
        a(rows, s.v_heads),
        b(rows, s.v_heads),
        state(std::int64_t{kSlots} * s.v_heads, s.k_dim * s.v_dim),
        a_log(static_cast<std::size_t>(s.v_heads)),
        dt_bias(static_cast<std::size_t>(s.v_heads)) {
    qkv.randomize(rng);
    a.randomize(rng);
    b.randomize(rng);
    std::uniform_real_distribution<float> rate(-3.0F, 1.0F), bias(-3.0F, 1.0F);
    for (float& x : a_log) x = rate(rng);
    for (float& x : dt_bias) x = bias(rng);
  }

  /// States of one slot begin as small random numbers; those of other slots stay NaN.
  void set_state(std::int32_t slot, std::mt19937& rng) {
    std::normal_distribution<float> normal(0.0F, 0.3F);
    for (std::int32_t h = 0; h < shape.v_heads; ++h) {
      float* row = state.row(std::int64_t{slot} * shape.v_heads + h);
      std::generate_n(row, state.cols, [&] { return normal(rng); });
    }
  }

  GdnArgs args(std::int64_t first, std::int64_t n, gpu::Matrix o) {
    GdnArgs args;
    args.o = o;
    args.qkv = qkv.part(first, n);
    args.a = a.part(first, n);
    args.b = b.part(first, n);
    args.a_log = vector_of(a_log);
    args.dt_bias = vector_of(dt_bias);
    args.state = state.view();
    args.num_k_heads = shape.k_heads;
    args.num_v_heads = shape.v_heads;
    args.k_dim = shape.k_dim;
    args.v_dim = shape.v_dim;
    args.decay = decay;
    return args;
  }
  Floats outputs() const { return Floats(qkv.rows, shape.v_heads * shape.v_dim); }

  void run(Form form, std::int32_t slot, std::int32_t first, std::int32_t end, Floats& o,
           int num_workers = 1) {
    const SegmentRows rows(form, {{slot, first, end - first}});
    ThreadsStream stream(num_workers);
    ASSERT_TRUE(cpu::gdn(stream, rows.batch(), args(first, end - first, o.part(first, end - first))).ok());
  }
  Floats run_cut(Form form, std::int32_t slot, const std::vector<std::int32_t>& cuts) {
    Floats o = outputs();
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
      run(form, slot, cuts[i], cuts[i + 1], o, 1 + static_cast<int>(i % 3));
    return o;
  }
};

/// The recurrence of model-spec 2.4 in double precision, from the states of `slot`.
struct Reference {
  std::vector<std::vector<double>> o;      ///< [rows][v_heads * v_dim]
  std::vector<std::vector<double>> state;  ///< [v_heads][k_dim * v_dim]

  Reference(const DeltaNet& net, std::int32_t slot, std::int32_t rows) {
    const Shape& s = net.shape;
    const auto dk = static_cast<std::size_t>(s.k_dim), dv = static_cast<std::size_t>(s.v_dim);
    o.assign(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(s.v_heads) * dv));
    for (std::int32_t h = 0; h < s.v_heads; ++h) {
      const float* begin = net.state.row(std::int64_t{slot} * s.v_heads + h);
      std::vector<double> S(begin, begin + net.state.cols);
      const std::int32_t key_head = h / (s.v_heads / s.k_heads);
      for (std::int32_t t = 0; t < rows; ++t) {
        const std::vector<double> q =
            unit(net.qkv.row(t) + key_head * s.k_dim, dk, 1.0 / std::sqrt(static_cast<double>(dk)));
        const std::vector<double> k = unit(net.qkv.row(t) + (s.k_heads + key_head) * s.k_dim, dk, 1.0);
        const float* v = net.qkv.row(t) + 2 * s.k_heads * s.k_dim + h * s.v_dim;
        const double x = double{net.a.at(t, h)} + double{net.dt_bias[static_cast<std::size_t>(h)]};
        const double decay =
            std::exp(-std::exp(double{net.a_log[static_cast<std::size_t>(h)]}) * std::log1p(std::exp(x)));
        const double beta = 1.0 / (1.0 + std::exp(-double{net.b.at(t, h)}));
        for (double& value : S) value *= decay;
        for (std::size_t j = 0; j < dv; ++j) {
          double m = 0.0, out = 0.0;
          for (std::size_t i = 0; i < dk; ++i) m += S[i * dv + j] * k[i];
          for (std::size_t i = 0; i < dk; ++i) {
            S[i * dv + j] += k[i] * beta * (double{v[j]} - m);
            out += S[i * dv + j] * q[i];
          }
          o[static_cast<std::size_t>(t)][static_cast<std::size_t>(h) * dv + j] = out;
        }
      }
      state.push_back(S);
    }
  }

  static std::vector<double> unit(const float* x, std::size_t n, double scale) {
    double squares = 1e-6;
    for (std::size_t i = 0; i < n; ++i) squares += double{x[i]} * double{x[i]};
    std::vector<double> y;
    for (std::size_t i = 0; i < n; ++i) y.push_back(double{x[i]} / std::sqrt(squares) * scale);
    return y;
  }

  void expect_near(const Floats& got, const DeltaNet& after, std::int32_t slot, double tolerance) const {
    double worst = 0.0;
    for (std::size_t t = 0; t < o.size(); ++t) {
      for (std::size_t c = 0; c < o[t].size(); ++c) {
        const double diff =
            std::abs(got.at(static_cast<std::int64_t>(t), static_cast<std::int64_t>(c)) - o[t][c]);
        worst = diff <= worst ? worst : diff;  // keeps a NaN
      }
    }
    EXPECT_LE(worst, tolerance) << "outputs";
    worst = 0.0;
    for (std::size_t h = 0; h < state.size(); ++h) {
      const float* row =
          after.state.row(std::int64_t{slot} * after.shape.v_heads + static_cast<std::int64_t>(h));
      for (std::size_t i = 0; i < state[h].size(); ++i) {
        const double diff = std::abs(row[i] - state[h][i]);
        worst = diff <= worst ? worst : diff;
      }
    }
    EXPECT_LE(worst, tolerance) << "state";
  }
};

const std::vector<Shape> kShapes{{2, 4, 16, 16}, {4, 8, 32, 32}, {1, 3, 128, 128}, {1, 2, 20, 40}};

TEST(GatedDeltaNet, BothFormsMatchTheRecurrenceInDoublePrecision) {
  std::mt19937 rng(41);
  for (const Shape& shape : kShapes) {
    for (const std::int32_t rows : {1, 2, 17, 63, 64, 65, 128, 150}) {
      DeltaNet chunked(shape, rows, rng);
      chunked.set_state(1, rng);
      DeltaNet stepped = chunked;
      const Reference reference(chunked, 1, rows);
      reference.expect_near(chunked.run_cut(Form::prefill, 1, {0, rows}), chunked, 1, 1e-5);
      reference.expect_near(stepped.run_cut(Form::decode, 1, {0, rows}), stepped, 1, 1e-5);
    }
  }
}

TEST(GatedDeltaNet, PrefillHasTheSameBitsForEveryCutOnTheGrid) {
  std::mt19937 rng(42);
  std::cout << "seed 42\n";
  for (int round = 0; round < 40; ++round) {
    const auto rows = static_cast<std::int32_t>(1 + rng() % 330);
    DeltaNet whole(kShapes[static_cast<std::size_t>(round) % 2], rows, rng);
    whole.set_state(2, rng);
    DeltaNet cut = whole;
    const Floats expected = whole.run_cut(Form::prefill, 2, {0, rows});
    const Floats got = cut.run_cut(Form::prefill, 2, random_cuts(rows, kGdnChunk, 3 * kGdnChunk, rng));
    ASSERT_TRUE(same_bits(got, expected)) << "round " << round << " rows " << rows;
    ASSERT_TRUE(same_bits(cut.state, whole.state)) << "round " << round << " rows " << rows;
  }
}

TEST(GatedDeltaNet, AShortChunkIsTheBeginningOfALongerOne) {
  std::mt19937 rng(43);
  for (const Shape& shape : kShapes) {
    DeltaNet net(shape, 64, rng);
    net.set_state(0, rng);
    const DeltaNet before = net;
    const Floats whole = net.run_cut(Form::prefill, 0, {0, 64});
    for (std::int32_t rows = 1; rows < 64; ++rows) {
      DeltaNet part = before;
      const Floats got = part.run_cut(Form::prefill, 0, {0, rows});
      for (std::int32_t t = 0; t < rows; ++t)
        ASSERT_TRUE(same_bits(got.row(t), whole.row(t), whole.cols)) << rows << " rows, row " << t;
    }
  }
}

TEST(GatedDeltaNet, RowsAfterAChunkCannotReachItEvenWithInfinities) {
  std::mt19937 rng(44);
  DeltaNet net(kShapes[0], 40, rng);
  net.set_state(0, rng);
  DeltaNet spoilt = net;
  for (std::int64_t t = 23; t < 40; ++t)
    std::fill_n(spoilt.qkv.row(t), spoilt.qkv.cols, t % 2 == 0 ? kNaN : 3e38F);
  const Floats expected = net.run_cut(Form::prefill, 0, {0, 40});
  const Floats got = spoilt.run_cut(Form::prefill, 0, {0, 40});
  for (std::int64_t t = 0; t < 23; ++t)
    EXPECT_TRUE(same_bits(got.row(t), expected.row(t), got.cols)) << "row " << t;
}

TEST(GatedDeltaNet, DecodeHasTheSameBitsForEveryCut) {
  std::mt19937 rng(45);
  std::cout << "seed 45\n";
  for (int round = 0; round < 30; ++round) {
    DeltaNet whole(kShapes[static_cast<std::size_t>(round) % kShapes.size()], 25, rng);
    whole.set_state(1, rng);
    DeltaNet cut = whole;
    const Floats expected = whole.run_cut(Form::decode, 1, {0, 25});
    const Floats got = cut.run_cut(Form::decode, 1, random_cuts(25, 1, 5, rng));
    ASSERT_TRUE(same_bits(got, expected)) << "round " << round;
    ASSERT_TRUE(same_bits(cut.state, whole.state)) << "round " << round;
  }
}

TEST(GatedDeltaNet, ABatchGivesEachSequenceWhatItGetsAlone) {
  std::mt19937 rng(46);
  for (const Form form : {Form::prefill, Form::decode}) {
    for (const int workers : {1, 2, 3}) {
      DeltaNet together(kShapes[1], 200, rng);
      for (std::int32_t slot = 0; slot < kSlots; ++slot) together.set_state(slot, rng);
      DeltaNet apart = together;
      const SegmentRows rows(form, {{2, 64, 100}, {0, 0, 1}, {1, 128, 99}});
      Floats all = together.outputs(), one = apart.outputs();
      ThreadsStream stream(workers);
      ASSERT_TRUE(cpu::gdn(stream, rows.batch(), together.args(0, 200, all.view())).ok());
      std::int64_t first = 0;
      for (const Segment& s : {Segment{2, 64, 100}, Segment{0, 0, 1}, Segment{1, 128, 99}}) {
        const SegmentRows alone(form, {s});
        ASSERT_TRUE(
            cpu::gdn(stream, alone.batch(), apart.args(first, s.num_rows, one.part(first, s.num_rows))).ok());
        first += s.num_rows;
      }
      EXPECT_TRUE(same_bits(all, one));
      EXPECT_TRUE(same_bits(together.state, apart.state));
    }
  }
}

TEST(GatedDeltaNet, ANegativeRateIsTheSameDecayAsItsLogarithm) {
  std::mt19937 rng(49);
  for (const Form form : {Form::prefill, Form::decode}) {
    DeltaNet log(kShapes[0], 40, rng);
    log.set_state(0, rng);
    DeltaNet rate = log;
    rate.decay = GdnDecay::negative_rate;
    for (float& x : rate.a_log) x = -std::exp(x);
    const Floats expected = log.run_cut(form, 0, {0, 40}), got = rate.run_cut(form, 0, {0, 40});
    for (std::int64_t t = 0; t < 40; ++t)
      for (std::int64_t c = 0; c < got.cols; ++c) EXPECT_NEAR(got.row(t)[c], expected.row(t)[c], 1e-5);
  }
}

/// Decays so strong that exp(G) underflows and exp(-G) would overflow; and none at all.
TEST(GatedDeltaNet, ExtremeDecaysStayFinite) {
  std::mt19937 rng(47);
  for (const float extreme : {60.0F, -60.0F}) {
    DeltaNet chunked(kShapes[1], 100, rng);
    chunked.a.fill(extreme);
    for (float& x : chunked.a_log) x = 2.0F;
    chunked.set_state(0, rng);
    DeltaNet stepped = chunked;
    const Reference reference(chunked, 0, 100);
    reference.expect_near(chunked.run_cut(Form::prefill, 0, {0, 100}), chunked, 0, 2e-5);
    reference.expect_near(stepped.run_cut(Form::decode, 0, {0, 100}), stepped, 0, 2e-5);
  }
}

TEST(GatedDeltaNet, APrefillSegmentOffTheGridIsRefusedAndNothingRuns) {
  std::mt19937 rng(48);
  DeltaNet net(kShapes[0], 20, rng);
  net.set_state(0, rng);
  const Floats state = net.state;
  Floats o = net.outputs();
  const SegmentRows rows(Form::prefill, {{0, 64, 10}, {1, 65, 10}});
  ThreadsStream stream;
  const gpu::Status status = cpu::gdn(stream, rows.batch(), net.args(0, 20, o.view()));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, gpu::DeviceError::Kind::refused);
  EXPECT_THAT(status.error().what, HasSubstr("segment 1 starts at position 65"));
  EXPECT_TRUE(same_bits(net.state, state));
  EXPECT_TRUE(same_bits(o, net.outputs()));
}

}  // namespace
}  // namespace kernels::testing
