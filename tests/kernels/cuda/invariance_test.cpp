#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "tests/device/test_device.h"

/// Rule 0 of the exactness rules, measured: a row of a product, or of the experts, has the same bits whatever
/// the number of rows, its own place among them, and who else is there. Every row of every number of rows is
/// compared, byte for byte, with one run over the most rows.
namespace kernels {
namespace {

using gpu::DType;
using testing::TestDevice;

/// Device memory without a copy on the host.
class Room {
 public:
  Room(DType dtype, std::int64_t rows, std::int64_t cols)
      : dtype_(dtype), rows_(rows), cols_(cols), pitch_(gpu::round_up(cols, 8)) {
    auto made =
        TestDevice::get()->device().allocate(bytes_of(dtype, Elements{rows * pitch_}), "test operand");
    if (!made.ok()) {
      ADD_FAILURE() << made.error().what;
      std::abort();
    }
    buffer_ = *std::move(made);
  }
  gpu::Matrix matrix() const { return {buffer_.base(), dtype_, {rows_}, {cols_}, {pitch_}}; }
  gpu::Matrix rows(std::int64_t first, std::int64_t n) const {
    return matrix().from_row({first}).first_rows({n});
  }
  gpu::Bytes row_size() const { return bytes_of(dtype_, Elements{pitch_}); }
  gpu::Bytes size() const { return row_size() * rows_; }

  /// Values of random sign and mantissa between 1/2 and 2, times `scale` (a power of two): every sum rounds.
  /// A block of up to 64 MiB is made and repeated: of a weight, so that the larger ones stay cheap.
  void fill(std::uint64_t seed, float scale) {
    const std::int64_t whole = size().n / size_of(dtype_);
    const std::int64_t made = std::min<std::int64_t>(whole, std::int64_t{1} << 25);
    std::vector<std::uint16_t> block(static_cast<std::size_t>(made * size_of(dtype_) / 2));
    std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
    const auto exponent =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(scale * 0.5F) >> 16 & 0x7F80U);
    const std::size_t step = dtype_ == DType::f32 ? 2 : 1;
    for (std::size_t i = step - 1; i < block.size(); i += step) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const auto bits = static_cast<std::uint32_t>(state >> 32);
      block[i] = static_cast<std::uint16_t>((bits >> 16 & 0x80FFU) +
                                            exponent);  // one bit of exponent, seven of mantissa
      if (step == 2) block[i - 1] = static_cast<std::uint16_t>(bits);
    }
    gpu::Stream& stream = TestDevice::get()->stream();
    for (std::int64_t at = 0; at < whole; at += made) {
      const gpu::Bytes piece = bytes_of(dtype_, Elements{std::min(made, whole - at)});
      std::byte* const to = buffer_.base() + bytes_of(dtype_, Elements{at}).n;
      EXPECT_TRUE((at == 0 ? stream.copy_to_device(to, block.data(), piece, "test operand")
                           : stream.copy(to, buffer_.base(), piece, "test operand"))
                      .ok());
    }
  }

 private:
  DType dtype_;
  std::int64_t rows_, cols_, pitch_;
  gpu::Buffer buffer_;
};

/// Rows of results, downloaded piece by piece and compared with those of the first run.
class Comparison {
 public:
  /// Keeps y's rows as what they must be.
  void expect(const Room& y, std::int64_t rows) {
    row_size_ = static_cast<std::size_t>(y.row_size().n);
    expected_.resize(static_cast<std::size_t>(rows) * row_size_);
    const auto keep = [&](std::size_t at, std::size_t n) {
      std::memcpy(expected_.data() + at, piece_.data(), n);
    };
    for_pieces(y, rows, keep);
  }
  /// How many of y's first rows differ from those from `first` on.
  std::int64_t differing_rows(const Room& y, std::int64_t first, std::int64_t rows) {
    std::int64_t differing = 0;
    for_pieces(y, rows, [&](std::size_t at, std::size_t n) {
      const std::byte* const want = expected_.data() + static_cast<std::size_t>(first) * row_size_ + at;
      if (std::memcmp(piece_.data(), want, n) == 0) return;
      for (std::size_t row = 0; row < n; row += row_size_) {
        differing += std::memcmp(piece_.data() + row, want + row, row_size_) != 0;
      }
    });
    return differing;
  }

 private:
  template <class Use>
  void for_pieces(const Room& y, std::int64_t rows, const Use& use) {
    constexpr std::size_t kPiece = std::size_t{16} << 20;
    const std::size_t whole = static_cast<std::size_t>(rows) * row_size_;
    const std::size_t step = std::max<std::size_t>(kPiece / row_size_, 1) * row_size_;
    piece_.resize(std::min(whole, step));
    gpu::Stream& stream = TestDevice::get()->stream();
    for (std::size_t at = 0; at < whole; at += step) {
      const std::size_t n = std::min(step, whole - at);
      EXPECT_TRUE(
          stream
              .copy_to_host(piece_.data(), y.matrix().base + at, {static_cast<std::int64_t>(n)}, "rows of y")
              .ok());
      const auto done = stream.synchronize();
      ASSERT_TRUE(done.ok()) << done.error().what;
      use(at, n);
    }
  }

  std::size_t row_size_ = 1;
  std::vector<std::byte> expected_, piece_;
};

std::unique_ptr<Ops> make_ops() { return TestDevice::get()->make_ops({}); }

std::vector<std::int64_t> one_to(std::int64_t last, std::vector<std::int64_t> more = {}) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(last));
  std::iota(numbers.begin(), numbers.end(), 1);
  numbers.insert(numbers.end(), more.begin(), more.end());
  return numbers;
}

/// Where m rows are taken from among `most`: another place for each m, so that rows also change their index.
std::int64_t first_row(std::int64_t m, std::int64_t most) { return m * 37 % (most - m + 1); }

struct WeightShape {
  std::int64_t n, k;
};

/// Rows that differ from their value among the most rows, over all numbers of rows.
struct Differences {
  std::int64_t num_rows = 0;
  std::string text;  // of the first few numbers of rows
};

Differences differences(Ops& ops, const WeightShape& shape, DType x_type, DType y_type,
                        const std::vector<std::int64_t>& numbers) {
  TestDevice& test = *TestDevice::get();
  const std::int64_t most = *std::max_element(numbers.begin(), numbers.end());
  Room x(x_type, most, shape.k), w(x_type, shape.n, shape.k), y(y_type, most, shape.n);
  x.fill(1, 1.0F);
  w.fill(2, 0.0625F);
  EXPECT_TRUE(test.stream().fill_zero(y.matrix().base, y.size(), "y").ok());  // padding is compared as well
  const auto args_of = [&](std::int64_t first, std::int64_t m) {
    return GemmArgs{y.rows(0, m), x.rows(first, m), {w.matrix()}, Form::prefill, "invariance"};
  };
  const auto run = [&](const GemmArgs& args) {
    const auto done = ops.gemm(test.stream(), args);
    EXPECT_TRUE(done.ok()) << done.error().what;
  };
  const auto line = [&](const std::string& what, const GemmArgs& args) {
    const std::string choice = x_type == DType::bf16 ? ops.describe_choice(args) : "";
    return "\n  " + what + (choice.empty() ? "" : ": " + choice);
  };
  Comparison comparison;
  run(args_of(0, most));
  comparison.expect(y, most);
  Differences found;
  int num_lines = 0;
  for (const std::int64_t m : numbers) {
    const GemmArgs args = args_of(first_row(m, most), m);
    run(args);
    const std::int64_t differing = comparison.differing_rows(y, first_row(m, most), m);
    found.num_rows += differing;
    if (differing == 0 || ++num_lines > 8) continue;
    if (num_lines == 1) found.text = line("compared with M " + std::to_string(most), args_of(0, most));
    found.text += line(std::to_string(differing) + " rows of M " + std::to_string(m), args);
  }
  return found;
}

void expect_invariant(Ops& ops, const WeightShape& shape, DType x_type, DType y_type,
                      const std::vector<std::int64_t>& numbers) {
  const Differences found = differences(ops, shape, x_type, y_type, numbers);
  EXPECT_EQ(found.num_rows, 0) << "N " << shape.n << ", K " << shape.k << ", " << gpu::to_string(x_type)
                               << " to " << gpu::to_string(y_type) << found.text;
}

/// Projections of Qwen3.8-Flash-Next, the K of other families' (Qwen3-Next: 4096 and 512, a 27B: 17408, Qwen3
/// 0.6B: 3072), and of a model small enough for a fixture.
const std::vector<WeightShape>& layer_shapes() {
  static const std::vector<WeightShape> shapes = {
      {64, 64},     {1, 2560},     {4, 10240},   {48, 2560},   {320, 10240},  {512, 2560},
      {640, 2560},  {1024, 3072},  {2048, 512},  {2048, 4096}, {2560, 640},   {2560, 2560},
      {2560, 6144}, {5120, 17408}, {6144, 2560}, {10240, 320}, {10240, 2560}, {12288, 2560}};
  return shapes;
}

TEST(Invariance, LibraryProductsOfEveryNumberOfRows) {
  REQUIRE_DEVICE();
  const bool small = TestDevice::get()->small();
  const auto ops = make_ops();
  const auto numbers = small ? one_to(24, {40}) : one_to(300, {1117, 4095, 8192});
  const auto shapes = small ? std::vector<WeightShape>{{48, 72}} : layer_shapes();
  for (const WeightShape& shape : shapes) {
    for (const DType y_type : {DType::bf16, DType::f32})
      expect_invariant(*ops, shape, DType::bf16, y_type, numbers);
  }
  EXPECT_EQ(ops->num_fallbacks(), 0U) << "some of this measured another kernel";
}

TEST(Invariance, TheHead) {
  REQUIRE_DEVICE();
  if (TestDevice::get()->small()) GTEST_SKIP() << "too large for small tests";
  const auto ops = make_ops();
  const std::vector<std::int64_t> numbers = {1, 2, 3, 7, 16, 33, 64, 65, 128};
  for (const DType y_type : {DType::bf16, DType::f32}) {
    expect_invariant(*ops, {248320, 2560}, DType::bf16, y_type, numbers);
  }
  EXPECT_EQ(ops->num_fallbacks(), 0U);
}

/// The measurement can see what it looks for.
TEST(Invariance, ReductionsAcrossBlocksDoDiffer) {
  REQUIRE_DEVICE();
  if (TestDevice::get()->small()) GTEST_SKIP() << "of the library, at sizes at which it splits K";
  const auto ops = make_ops();
  ops->allow_split_k(true);
  std::int64_t differing = 0;
  for (const WeightShape& shape : layer_shapes()) {
    if (shape.k < 4096) continue;
    differing += differences(*ops, shape, DType::bf16, DType::f32, one_to(64, {1117})).num_rows;
  }
  EXPECT_GT(differing, 0);
}

TEST(Invariance, OwnBf16ProductsOfEveryNumberOfRows) {
  REQUIRE_DEVICE();
  const bool small = TestDevice::get()->small();
  const auto ops = make_ops();
  ops->refuse_products(1 << 30);
  const auto numbers = small ? one_to(20, {63, 64, 65, 130}) : one_to(300, {1117, 4095});
  const auto shapes = small ? std::vector<WeightShape>{{80, 72}}
                            : std::vector<WeightShape>{{48, 2560}, {4, 10240}, {2560, 6144}, {10240, 328}};
  for (const WeightShape& shape : shapes) {
    for (const DType y_type : {DType::bf16, DType::f32})
      expect_invariant(*ops, shape, DType::bf16, y_type, numbers);
  }
  EXPECT_EQ(ops->num_fallbacks(), 2 * shapes.size() * (numbers.size() + 1));
}

TEST(Invariance, F32ProductsOfEveryNumberOfRows) {
  REQUIRE_DEVICE();
  const bool small = TestDevice::get()->small();
  const auto numbers = small ? one_to(20, {63, 64, 65, 130}) : one_to(70, {127, 128, 129, 300, 1117});
  const auto shapes = small ? std::vector<WeightShape>{{80, 40}}
                            : std::vector<WeightShape>{{48, 2560}, {2560, 4096}, {4, 10240}};
  for (const WeightShape& shape : shapes) {
    expect_invariant(TestDevice::get()->ops(), shape, DType::f32, DType::f32, numbers);
  }
}

struct ExpertShape {
  std::int64_t hidden, inner, experts, top_k;
};

/// Rows choose experts at random, so that the same row meets other rows in every run.
void expect_invariant_experts(const ExpertShape& shape, DType dtype,
                              const std::vector<std::int64_t>& numbers) {
  TestDevice& test = *TestDevice::get();
  const std::int64_t most = *std::max_element(numbers.begin(), numbers.end());
  const std::int64_t pairs = most * shape.top_k;
  Room x(dtype, most, shape.hidden), y(dtype, most, shape.hidden), hidden(dtype, pairs, 2 * shape.inner),
      out(dtype, pairs, shape.hidden), gate_up(dtype, 2 * shape.experts * shape.inner, shape.hidden),
      down(dtype, shape.experts * shape.hidden, shape.inner), weights(DType::f32, most, shape.top_k);
  x.fill(1, 1.0F);
  gate_up.fill(2, 0.0625F);
  down.fill(3, 0.0625F);
  weights.fill(4, 0.125F);
  EXPECT_TRUE(test.stream().fill_zero(y.matrix().base, y.size(), "y").ok());
  std::mt19937 random(5);
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(pairs));
  for (std::int32_t& id : chosen)
    id = static_cast<std::int32_t>(random() % static_cast<unsigned long>(shape.experts));
  testing::DeviceVector<std::int32_t> ids(chosen),
      order(std::vector<std::int32_t>(static_cast<std::size_t>(pairs + shape.experts + 1)));

  const auto run = [&](std::int64_t first, std::int64_t m) {
    MoeExpertsArgs args;
    args.y = y.rows(0, m);
    args.x = x.rows(first, m);
    args.ids = gpu::MatrixView<const std::int32_t>{
        ids.view().base + first * shape.top_k, {m}, {shape.top_k}, {shape.top_k}};
    args.weights = gpu::typed<float>(gpu::ConstMatrix(weights.rows(first, m)));
    args.gate_up = gate_up.matrix();
    args.down = down.matrix();
    args.num_experts = static_cast<std::int32_t>(shape.experts);
    args.intermediate = static_cast<std::int32_t>(shape.inner);
    args.hidden = hidden.matrix();
    args.out = out.matrix();
    args.order = order.view();
    const auto done = test.ops().moe_experts(test.stream(), args);
    EXPECT_TRUE(done.ok()) << done.error().what;
  };
  Comparison comparison;
  run(0, most);
  comparison.expect(y, most);
  std::int64_t differing = 0;
  for (const std::int64_t m : numbers) {
    const std::int64_t first = first_row(m, most);
    run(first, m);
    differing += comparison.differing_rows(y, first, m);
  }
  EXPECT_EQ(differing, 0) << shape.experts << " experts, " << gpu::to_string(dtype);
}

TEST(Invariance, ExpertsOfEveryNumberOfRows) {
  REQUIRE_DEVICE();
  if (TestDevice::get()->small()) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
      expect_invariant_experts({40, 24, 3, 2}, dtype, one_to(12, {33, 65, 120}));
    }
    return;
  }
  expect_invariant_experts({2560, 640, 512, 10}, DType::bf16, one_to(300, {1117, 4095, 8192}));
  expect_invariant_experts({256, 64, 16, 4}, DType::bf16, one_to(300, {1117, 4095}));
  expect_invariant_experts({512, 128, 16, 4}, DType::f32, one_to(70, {129, 300, 1117}));
}

}  // namespace
}  // namespace kernels
