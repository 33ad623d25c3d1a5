#include "bench/kernels/rig.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Normal values in a type, a block of them that matrices repeat.
constexpr std::int64_t kBlock = 1 << 20;
const std::vector<float>& random_block() {
  static const std::vector<float> block = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.05F);
    std::vector<float> values(kBlock);
    for (float& value : values) value = normal(random);
    return values;
  }();
  return block;
}
std::vector<std::uint16_t> as_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values)
    bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  return bits;
}

/// Rows begin at 16-byte boundaries.
std::int64_t pitch_of(std::int64_t cols) { return gpu::round_up(cols, 8); }

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "kernel_bench: %s\n", what.c_str());
  std::exit(1);
}

Rig::Rig(std::shared_ptr<gpu::Device> device, std::unique_ptr<kernels::Ops> ops, Shapes shapes,
         double seconds_a_row, std::string only)
    : device_(std::move(device)),
      ops_(std::move(ops)),
      shapes_(std::move(shapes)),
      seconds_a_row_(seconds_a_row),
      only_(std::move(only)) {
  auto stream = device_->create_stream();
  if (!stream.ok()) fail(stream.error().what);
  stream_ = *std::move(stream);
}

gpu::Result<Rig::Timing, gpu::DeviceError> Rig::time(const Call& call) {
  std::int64_t turn = 0;
  const auto run = [&](std::int64_t calls, Timing& timing) -> gpu::Status {
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) RETURN_IF_ERROR(call(turn++));
    timing.host_seconds = since(begin) / static_cast<double>(calls);
    RETURN_IF_ERROR(stream_->synchronize());
    timing.seconds = since(begin) / static_cast<double>(calls);
    return gpu::Done{};
  };
  Timing timing;
  for (const std::int64_t warm : {2, 3}) RETURN_IF_ERROR(run(warm, timing));
  const double round = seconds_a_row_ / 3;
  const auto calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(round / timing.seconds), 1, 20000);
  Timing best{1e9, 1e9};
  for (int i = 0; i < 3; ++i) {
    RETURN_IF_ERROR(run(calls, timing));
    if (timing.seconds < best.seconds) best.seconds = timing.seconds;
  }
  RETURN_IF_ERROR(run(std::min<std::int64_t>(calls, 64), timing));  // few enough for the stream's queue
  best.host_seconds = timing.host_seconds;
  return best;
}

void Rig::row(const std::string& op, const std::string& shape, std::int64_t rows, Cost cost,
              const Call& call) {
  const auto timing = time(call);
  std::printf("| %s | %s | %lld | ", op.c_str(), shape.c_str(), static_cast<long long>(rows));
  if (!timing.ok()) {
    std::printf("%s | | | | | |\n", timing.error().what.c_str());
    if (timing.error().kind == gpu::DeviceError::Kind::lost) fail("the device is lost");
    (void)stream_->synchronize();
    return;
  }
  const double floor = std::max(cost.bytes / bandwidth, cost.flops / matmul_rate);
  std::printf("%.2f | %.2f | %.3f | %.3f | %.2f | %.0f |\n", 1e6 * timing->seconds,
              1e6 * timing->host_seconds, 1e-6 * cost.bytes, 1e-9 * cost.flops, 1e6 * floor,
              100.0 * floor / timing->seconds);
  std::fflush(stdout);
}

std::byte* Memory::allocate(std::int64_t bytes) {
  auto buffer = rig_.device().allocate({std::max<std::int64_t>(bytes, 16)}, "bench operand");
  if (!buffer.ok()) fail(buffer.error().what);
  buffers_.push_back(*std::move(buffer));
  return buffers_.back().base();
}

void Memory::upload(std::byte* to, const void* from, std::int64_t bytes) {
  must(rig_.stream().copy_to_device(to, from, {bytes}, "bench operand"));
}

Matrix Memory::random(DType dtype, std::int64_t rows, std::int64_t cols) {
  static const std::vector<std::uint16_t> bf16_block = as_bf16(random_block());
  const std::int64_t pitch = pitch_of(cols);
  const std::int64_t bytes = rows * pitch * size_of(dtype);
  std::byte* const base = allocate(bytes);
  std::int64_t filled = std::min(bytes, kBlock * size_of(dtype));
  upload(base, dtype == DType::f32 ? static_cast<const void*>(random_block().data()) : bf16_block.data(),
         filled);
  while (filled < bytes) {
    const std::int64_t more = std::min(filled, bytes - filled);
    must(rig_.stream().copy(base + filled, base, {more}, "bench operand"));
    filled += more;
  }
  must(rig_.stream().synchronize());
  return {base, dtype, {rows}, {cols}, {pitch}};
}

Matrix Memory::zeros(DType dtype, std::int64_t rows, std::int64_t cols) {
  const std::int64_t pitch = pitch_of(cols);
  std::byte* const base = allocate(rows * pitch * size_of(dtype));
  must(rig_.stream().fill_zero(base, {rows * pitch * size_of(dtype)}, "bench operand"));
  return {base, dtype, {rows}, {cols}, {pitch}};
}

ConstVector Memory::vector(std::int64_t size) {
  const Matrix values = random(DType::f32, 1, size);
  return {values.base, DType::f32, {size}};
}

}  // namespace bench
