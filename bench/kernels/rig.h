#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/shapes.h"
#include "gpu/device.h"
#include "kernels/ops.h"

namespace bench {

using gpu::ConstVector;
using gpu::DType;
using gpu::Elements;
using gpu::Matrix;
using gpu::MatrixView;
using gpu::Rows;
using gpu::VectorView;

/// What one call of an operation must at least move and compute.
struct Cost {
  double bytes = 0.0;
  double flops = 0.0;
};

/// Enqueues the operation once; `turn` counts the calls, so that operands can rotate.
using Call = std::function<gpu::Status(std::int64_t turn)>;

/// A device, its operations, and the rows of the table. The floor of a row is the larger of its bytes by the
/// bandwidth and its flops by the matmul rate that this machine reached just before.
class Rig {
 public:
  struct Timing {
    double seconds = 0.0;  ///< a call: many enqueued between two synchronises, the best of three rounds
    double host_seconds =
        0.0;  ///< a call's enqueueing alone; where it is all of it, the host is what was timed
  };

  Rig(std::shared_ptr<gpu::Device> device, std::unique_ptr<kernels::Ops> ops, Shapes shapes,
      double seconds_a_row, std::string only);

  const Shapes& shapes() const { return shapes_; }
  gpu::Device& device() { return *device_; }
  gpu::Stream& stream() { return *stream_; }
  kernels::Ops& ops() { return *ops_; }

  /// False: nothing of this op is wanted (--only).
  bool wants(const std::string& op) const { return only_.empty() || op.find(only_) != std::string::npos; }
  /// Times and prints one row of the table; a refusal is printed in its place.
  void row(const std::string& op, const std::string& shape, std::int64_t rows, Cost cost, const Call& call);
  gpu::Result<Timing, gpu::DeviceError> time(const Call& call);

  double bandwidth = 0.0, matmul_rate = 0.0;  ///< bytes and flops a second, measured by measure_machine

 private:
  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Stream> stream_;
  std::unique_ptr<kernels::Ops> ops_;
  Shapes shapes_;
  double seconds_a_row_;
  std::string only_;
};

[[noreturn]] void fail(const std::string& what);
inline void must(const gpu::Status& status) {
  if (!status.ok()) fail(status.error().what);
}

/// Operands: device memory that goes when this goes. Random values are normal with a deviation of 0.05.
class Memory {
 public:
  explicit Memory(Rig& rig) : rig_(rig) {}
  ~Memory() { (void)rig_.stream().synchronize(); }

  Matrix random(DType dtype, std::int64_t rows, std::int64_t cols);
  Matrix activation(std::int64_t rows, std::int64_t cols) {
    return random(rig_.shapes().activation, rows, cols);
  }
  Matrix weight(std::int64_t rows, std::int64_t cols) { return random(DType::bf16, rows, cols); }
  Matrix zeros(DType dtype, std::int64_t rows, std::int64_t cols);
  ConstVector vector(std::int64_t size);  ///< random f32
  /// As many of them as bring what a call reads, `bytes`, beyond the cache.
  template <class Make>
  auto rotating(double bytes, const Make& make) {
    std::vector<decltype(make())> all;
    const auto wanted = static_cast<double>(rig_.shapes().beyond_cache);
    do all.push_back(make());
    while (bytes * static_cast<double>(all.size()) < wanted && all.size() < 64);
    return all;
  }
  template <class T>
  VectorView<T> of(const std::vector<T>& values) {
    std::byte* const base = allocate(static_cast<std::int64_t>(values.size() * sizeof(T)));
    upload(base, values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)));
    return {reinterpret_cast<T*>(base), {static_cast<std::int64_t>(values.size())}};
  }
  template <class T>
  MatrixView<T> of(const std::vector<T>& values, std::int64_t cols) {
    const VectorView<T> all = of(values);
    return {all.base, {all.size.n / cols}, {cols}, {cols}};
  }

 private:
  std::byte* allocate(std::int64_t bytes);
  void upload(std::byte* to, const void* from, std::int64_t bytes);

  Rig& rig_;
  std::vector<gpu::Buffer> buffers_;
};

/// One of `all`, by turn.
template <class T>
const T& nth(const std::vector<T>& all, std::int64_t turn) {
  return all[static_cast<std::size_t>(turn) % all.size()];
}

/// Bytes of a matrix in the type of activations.
inline double activation_bytes(const Shapes& shapes, std::int64_t rows, std::int64_t cols) {
  return static_cast<double>(rows * cols * size_of(shapes.activation));
}

// The table, a family of operations each.
void measure_machine(Rig& rig);
void bench_products(Rig& rig);
void bench_rows(Rig& rig);
void bench_attention(Rig& rig);
void bench_recurrent(Rig& rig);
void bench_tables(Rig& rig);
void bench_experts(Rig& rig);
void bench_sampling(Rig& rig);

}  // namespace bench
