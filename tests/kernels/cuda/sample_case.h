#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "tests/device/test_device.h"

/// One call of `sample` on the CPU and on the device from the same memory. Everything that comes back is
/// compared as bits, except what sums of exponentials make of it.
namespace kernels::testing {

/// PenaltyCounts as host memory.
struct CountsMemory {
  CountsMemory(std::int64_t slots, std::int64_t vocab, std::int64_t positions)
      : of_token(zeros(slots, vocab)),
        seen(zeros(slots, positions)),
        counted(static_cast<std::size_t>(slots), 0),
        num_seen(static_cast<std::size_t>(slots), 0) {}
  static OpMatrix zeros(std::int64_t rows, std::int64_t cols) {
    OpMatrix m(gpu::DType::i32, rows, cols);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) m.set(r, c, 0.0);
    return m;
  }
  PenaltyCounts view() {
    const auto slots = static_cast<std::int64_t>(counted.size());
    return {of_token.view<std::int32_t>(),
            seen.view<std::int32_t>(),
            {counted.data(), {slots}},
            {num_seen.data(), {slots}}};
  }
  OpMatrix of_token, seen;
  std::vector<std::int32_t> counted, num_seen;
};

/// What a call left behind.
struct Sampled {
  std::vector<SampledRow> out;
  OpMatrix ids, scratch;
  std::optional<CountsMemory> counts;
  gpu::Status status = gpu::Done{};
};

struct SampleCase {
  static constexpr std::int64_t kSlots = 4, kPositions = 64;

  explicit SampleCase(std::int64_t rows, std::int64_t vocab, std::int64_t extra_pitch = 16)
      : logits(gpu::DType::f32, rows, vocab, extra_pitch),
        ids(gpu::DType::i32, kSlots, kPositions),
        params(static_cast<std::size_t>(rows)),
        extra_pitch(extra_pitch) {
    for (std::int64_t s = 0; s < kSlots; ++s)
      for (std::int64_t p = 0; p < kPositions; ++p) ids.set(s, p, -1.0);
  }
  SampleCase& random_logits(std::mt19937& source, double scale = 2.0) {
    std::normal_distribution<double> normal(0.0, scale);
    for (std::int64_t r = 0; r < logits.rows(); ++r)
      for (std::int64_t i = 0; i < logits.cols(); ++i) logits.set(r, i, normal(source));
    return *this;
  }
  void set_row(std::int64_t r, const std::vector<double>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) logits.set(r, static_cast<std::int64_t>(i), row[i]);
  }

  /// Rows in ascending order by one worker, as the device must have them.
  Sampled on_cpu() const {
    Sampled result = before();
    SampleCase copy = *this;
    gpu::PooledHostStream stream(1);
    SampleArgs args{{result.out.data(), {copy.num_rows()}},
                    result.ids.view<std::int32_t>(),
                    copy.logits.view<float>(),
                    result.scratch.view<float>(),
                    {copy.params.data(), {copy.num_rows()}},
                    {copy.biases.data(), {static_cast<std::int64_t>(copy.biases.size())}},
                    {copy.bans.data(), {static_cast<std::int64_t>(copy.bans.size())}},
                    {}};
    if (result.counts) args.counts = result.counts->view();
    result.status = TestDevice::get()->cpu().sample(stream, args);
    return result;
  }
  Sampled on_device() const {
    Sampled result = before();
    DeviceMatrix on_logits(logits), on_ids(ids), on_scratch(result.scratch);
    DeviceVector<SampledRow> on_out(result.out);
    DeviceVector<RowSampling> on_params(params);
    DeviceVector<TokenBias> on_biases(biases);
    DeviceVector<std::int32_t> on_bans(bans);
    std::optional<DeviceCounts> on_counts;
    SampleArgs args{on_out.view(),           on_ids.view<std::int32_t>(),
                    on_logits.view<float>(), on_scratch.view<float>(),
                    on_params.view(),        on_biases.view(),
                    on_bans.view(),          {}};
    if (counts) args.counts = on_counts.emplace(*counts).view();
    TestDevice& test = *TestDevice::get();
    result.status = test.ops().sample(test.stream(), args);
    if (result.status.ok()) result.status = test.stream().synchronize();
    result.out = on_out.download();
    result.ids = on_ids.download();
    result.scratch = on_scratch.download();
    if (on_counts) on_counts->download(*result.counts);
    return result;
  }

  std::int64_t num_rows() const { return static_cast<std::int64_t>(params.size()); }

  OpMatrix logits, ids;
  std::vector<RowSampling> params;
  std::vector<TokenBias> biases;
  std::vector<std::int32_t> bans;
  std::optional<CountsMemory> counts;
  std::int64_t extra_pitch;

 private:
  struct DeviceCounts {
    explicit DeviceCounts(const CountsMemory& host)
        : of_token(host.of_token), seen(host.seen), counted(host.counted), num_seen(host.num_seen) {}
    PenaltyCounts view() {
      return {of_token.view<std::int32_t>(), seen.view<std::int32_t>(), counted.view(), num_seen.view()};
    }
    void download(CountsMemory& to) {
      to.of_token = of_token.download();
      to.seen = seen.download();
      to.counted = counted.download();
      to.num_seen = num_seen.download();
    }
    DeviceMatrix of_token, seen;
    DeviceVector<std::int32_t> counted, num_seen;
  };

  /// Poisoned results.
  Sampled before() const {
    Sampled result{
        {}, ids, OpMatrix(gpu::DType::f32, num_rows(), logits.cols(), extra_pitch), counts, gpu::Done{}};
    result.out.resize(params.size());
    std::memset(static_cast<void*>(result.out.data()), 0xFF, result.out.size() * sizeof(SampledRow));
    return result;
  }
};

/// The bits of a matrix, padding included.
inline std::vector<unsigned char> bytes_of(OpMatrix m) {
  const auto* const base = reinterpret_cast<const unsigned char*>(m.bytes());
  return {base, base + m.num_bytes()};
}
inline bool same_bits(const SampledRow& a, const SampledRow& b) {
  return std::memcmp(&a, &b, sizeof(SampledRow)) == 0;
}

}  // namespace kernels::testing
