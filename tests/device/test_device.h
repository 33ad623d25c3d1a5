#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "kernels/backend_module.h"
#include "kernels/ops.h"
#include "tests/kernels/cpu/op_matrix.h"
#include "tests/kernels/cpu/sequence_rows.h"

/// The device that device tests run on: the module named by ATLAS_DEVICE_MODULE (the emulated one in CI),
/// else lib/atlas_cuda.so beside the test binary.
namespace kernels::testing {

class TestDevice {
 public:
  /// Null when there is none, for the reason that `why_not()` gives. One for the process: a device that a
  /// test lost is lost for all, so tests of loss run in processes of their own (gtest death tests).
  static TestDevice* get();
  static const std::string& why_not();
  /// A module was named: then its absence is a failure and no reason to skip.
  static bool is_required();

  gpu::Device& device() { return *device_; }
  gpu::Stream& stream() { return *stream_; }
  Ops& ops() { return *ops_; }
  const BackendModule& module() const { return *module_; }
  /// Operations beside `ops()`. Where ATLAS_DEVICE_OWN_PRODUCTS is set, their products all are our own
  /// kernels: sanitizers see neither into the library's nor what it writes.
  std::unique_ptr<Ops> make_ops(BackendLog warn);
  /// Lines that the backend said since the last call.
  std::vector<std::string> take_warnings();
  /// Kernels run as plain code, thread by thread.
  bool emulated() const { return emulated_; }
  /// Sizes must be small: emulated, or under a sanitizer (ATLAS_DEVICE_SMALL).
  bool small() const { return small_; }

  /// The CPU backend beside it: the specification.
  Ops& cpu() { return *cpu_; }
  gpu::Stream& host_stream() { return *host_stream_; }

 private:
  friend struct TestDeviceMaker;
  const BackendModule* module_ = nullptr;
  std::unique_ptr<gpu::Device> device_, host_;
  std::unique_ptr<gpu::Stream> stream_, host_stream_;
  std::unique_ptr<Ops> ops_, cpu_;
  std::vector<std::string> warnings_;
  bool emulated_ = false, small_ = false;
};

/// First line of every device test.
#define REQUIRE_DEVICE()                                                                                    \
  if (::kernels::testing::TestDevice::get() == nullptr) {                                                   \
    if (::kernels::testing::TestDevice::is_required()) FAIL() << ::kernels::testing::TestDevice::why_not(); \
    GTEST_SKIP() << ::kernels::testing::TestDevice::why_not();                                              \
  }                                                                                                         \
  static_assert(true, "a semicolon follows")

/// Device memory with the bytes of `host`, given back when it goes.
class OnDevice {
 public:
  OnDevice(const void* host, std::size_t bytes);
  const std::byte* base() const { return buffer_.base(); }
  std::byte* base() { return buffer_.base(); }
  /// Waits for the stream; a failure of what ran before fails the test here.
  void download(void* to) const;

 private:
  std::size_t bytes_;
  gpu::Buffer buffer_;
};

/// A matrix and its copy on the device, same type, pitch and padding.
class DeviceMatrix {
 public:
  explicit DeviceMatrix(OpMatrix host) : host_(std::move(host)), device_(host_.bytes(), host_.num_bytes()) {}
  gpu::Matrix matrix() {
    gpu::Matrix m = host_.matrix();
    m.base = device_.base();
    return m;
  }
  template <class T>
  gpu::MatrixView<T> view() {
    const gpu::Matrix m = matrix();
    return {reinterpret_cast<T*>(m.base), m.rows, m.cols, m.pitch};
  }
  /// What the device holds now.
  const OpMatrix& download() {
    device_.download(host_.bytes());
    return host_;
  }

 private:
  OpMatrix host_;
  OnDevice device_;
};

template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(std::vector<T> host)
      : host_(std::move(host)), device_(host_.data(), host_.size() * sizeof(T)) {}
  gpu::VectorView<T> view() {
    return {reinterpret_cast<T*>(device_.base()), {static_cast<std::int64_t>(host_.size())}};
  }
  /// As an f32 vector of weights.
  gpu::ConstVector vector() {
    return {device_.base(), gpu::DTypeOf<T>::value, {static_cast<std::int64_t>(host_.size())}};
  }
  const std::vector<T>& download() {
    device_.download(host_.data());
    return host_;
  }

 private:
  std::vector<T> host_;
  OnDevice device_;
};

/// A host batch's arrays on the device.
class DeviceBatch {
 public:
  explicit DeviceBatch(const RowBatch& host);
  const RowBatch& batch() const { return batch_; }

 private:
  RowBatch batch_;
  DeviceVector<std::int32_t> row_slot_, row_position_, segment_slot_, segment_first_row_, segment_num_rows_;
};

/// ‖a − b‖ / ‖b‖ over all elements, NaN counted as infinite.
double relative_error(const OpMatrix& a, const OpMatrix& b);

/// What bf16 activations may cost beside the CPU's f32: one rounding of operands, one of the result.
inline constexpr double kBf16Error = 6e-3;
inline constexpr double kF32Error = 3e-6;

}  // namespace kernels::testing
