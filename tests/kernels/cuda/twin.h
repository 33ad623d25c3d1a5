#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/test_device.h"

/// Operands of one op on the device and, with the same numbers in f32, for the CPU backend.
namespace kernels::testing {

inline constexpr gpu::DType kActivationTypes[] = {gpu::DType::f32, gpu::DType::bf16};

/// Padding of rows: with this one no row but the first lies on a 16-byte boundary.
inline constexpr std::int64_t kOddPitch = 17;

inline void expect_done(const gpu::Status& status) {
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().what);
}
/// What the step's end says of the operations enqueued before it; empty when nothing.
inline std::string complaint_of_step() {
  const auto status = TestDevice::get()->stream().synchronize();
  return status.ok() ? "" : status.error().what;
}

/// Equality of n rows, bit for bit.
inline bool same_rows(const OpMatrix& a, std::int64_t first_a, const OpMatrix& b, std::int64_t first_b,
                      std::int64_t n) {
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < a.cols(); ++c) {
      const double x = a.at(first_a + r, c), y = b.at(first_b + r, c);
      if (std::memcmp(&x, &y, sizeof x) != 0) return false;
    }
  }
  return true;
}
inline bool same_rows(const OpMatrix& a, const OpMatrix& b) {
  return a.rows() == b.rows() && same_rows(a, 0, b, 0, a.rows());
}

class Twin {
 public:
  explicit Twin(const OpMatrix& values) : device_(values), host_(values.converted(gpu::DType::f32)) {}
  /// NaN everywhere: an output, or what nobody may read.
  Twin(gpu::DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t extra_pitch = 16)
      : Twin(OpMatrix(dtype, rows, cols, extra_pitch)) {}
  static Twin random(gpu::DType dtype, std::int64_t rows, std::int64_t cols, std::mt19937& rng,
                     double deviation = 1.0, std::int64_t extra_pitch = 16) {
    OpMatrix values(dtype, rows, cols, extra_pitch);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) values.set(r, c, deviation * bell(rng()));
    }
    return Twin(values);
  }

  gpu::Matrix device() { return device_.matrix(); }
  gpu::Matrix host() { return host_.matrix(); }
  gpu::Matrix at(bool on_device) { return on_device ? device() : host(); }
  gpu::Matrix part(bool on_device, std::int64_t first, std::int64_t n) {
    return at(on_device).from_row({first}).first_rows({n});
  }
  const OpMatrix& from_device() { return device_.download(); }
  const OpMatrix& from_host() const { return host_; }

  /// As near as the type allows, and nothing written between rows.
  void expect_near(const char* what) {
    const OpMatrix& got = from_device();
    EXPECT_LE(relative_error(got, host_), error_allowed()) << what;
    EXPECT_TRUE(got.padding_untouched()) << what;
  }
  /// The same of rows [0, n), where no others were written.
  void expect_first_rows_near(std::int64_t n, const char* what) {
    const OpMatrix& got = from_device();
    OpMatrix a = f32(n, got.cols()), b = f32(n, got.cols());
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t c = 0; c < got.cols(); ++c) {
        a.set(r, c, got.at(r, c));
        b.set(r, c, host_.at(r, c));
      }
    }
    EXPECT_LE(relative_error(a, b), error_allowed()) << what;
    EXPECT_TRUE(got.padding_untouched()) << what;
  }
  void expect_equal(const char* what) {
    EXPECT_TRUE(same_rows(from_device(), host_)) << what;
    EXPECT_TRUE(from_device().padding_untouched()) << what;
  }

 private:
  /// Nearly normal, of deviation 1: four bytes added up. Operands of whole layers are made of it.
  static double bell(std::mt19937::result_type bits) {
    const auto sum =
        static_cast<double>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24));
    return (sum + 0.37 - 510.0) / 147.8;
  }
  double error_allowed() { return device().dtype == gpu::DType::bf16 ? kBf16Error : kF32Error; }

  DeviceMatrix device_;
  OpMatrix host_;
};

/// f(ops, stream, on_device) on the device, then on the CPU.
template <class F>
void on_both(const F& f) {
  TestDevice& test = *TestDevice::get();
  expect_done(f(test.ops(), test.stream(), true));
  expect_done(f(test.cpu(), test.host_stream(), false));
}
template <class F>
void on_device(const F& f) {
  expect_done(f(TestDevice::get()->ops(), TestDevice::get()->stream()));
}

struct RowsAndCols {
  std::int64_t rows, cols;
};
/// Rows of every kind of length: shorter than a 16-byte piece, whole pieces, a piece and a rest, longer than
/// a block; real ones on a device.
inline std::vector<RowsAndCols> row_shapes() {
  std::vector<RowsAndCols> shapes = {{1, 1},   {1, 8},   {3, 40},   {2, 100}, {5, 7},
                                     {1, 257}, {70, 48}, {3, 2048}, {2, 2049}};
  if (!TestDevice::get()->small()) shapes.insert(shapes.end(), {{1, 2560}, {65, 2560}, {300, 6144}});
  return shapes;
}
/// Numbers of rows that a row must not notice.
inline std::vector<std::int64_t> batch_sizes() {
  std::vector<std::int64_t> sizes = {1, 2, 7, 33, 70};
  if (!TestDevice::get()->small()) {
    sizes.insert(sizes.end(), {3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 63, 64, 65, 129, 300});
  }
  return sizes;
}

}  // namespace kernels::testing
