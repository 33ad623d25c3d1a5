#include "kernels/cuda/blas_lt.h"

#include <bit>
#include <set>
#include <tuple>

#include "cuda_emulator/runtime_api.h"

namespace kernels::cuda {
namespace {

float widened(gpu::bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

gpu::bf16 narrowed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}

/// Sums in ascending k in fp32, rounded once.
void multiply(const GemmArgs& args) {
  const auto x = gpu::typed<gpu::bf16>(args.x);
  const auto w = gpu::typed<gpu::bf16>(args.w.matrix);
  for (std::int64_t r = 0; r < x.rows.n; ++r) {
    for (std::int64_t n = 0; n < w.rows.n; ++n) {
      const gpu::bf16* const a = x.row({r});
      const gpu::bf16* const b = w.row({n});
      float sum = 0.0F;
      for (std::int64_t k = 0; k < x.cols.n; ++k) sum += widened(a[k]) * widened(b[k]);
      if (args.y.dtype == gpu::DType::f32) {
        gpu::typed<float>(args.y).row({r})[n] = sum;
      } else {
        gpu::typed<gpu::bf16>(args.y).row({r})[n] = narrowed(sum);
      }
    }
  }
}

std::string alignment_of(const char* name, const void* base, gpu::Elements pitch, gpu::DType dtype) {
  const auto bits =
      reinterpret_cast<std::uintptr_t>(base) | static_cast<std::uintptr_t>(bytes_of(dtype, pitch).n);
  return std::string(" ") + name + " " +
         std::to_string(bits == 0 ? 0 : std::uintptr_t{1} << std::countr_zero(bits));
}

/// In the library's place: takes every product that it is not told to refuse.
class EmulatedBlasLt final : public BlasLt {
 public:
  explicit EmulatedBlasLt(BackendLog warn) : warn_(std::move(warn)) {}

  gpu::Result<bool, gpu::DeviceError> matmul(gpu::CudaStream& stream, const GemmArgs& args) override {
    const Shape shape{args.w.rows().n, args.w.cols().n, args.y.dtype};
    if (refused_.count(shape) != 0 || num_to_refuse_ > 0) {
      note_refusal(shape, args);
      return false;
    }
    if (args.x.rows.n == 0) return true;
    const auto status =
        stream.check(cuda_emulator::enqueue(stream.handle(), [args] { multiply(args); }), args.name);
    if (!status.ok()) return status.error();
    return true;
  }

  std::vector<GemmFallbacks> take_fallbacks() override { return fallbacks_.take(); }
  void refuse_next(int count) override { num_to_refuse_ = count; }
  void allow_split_k(bool) override {}

 private:
  using Shape = std::tuple<std::int64_t, std::int64_t, gpu::DType>;

  void note_refusal(const Shape& shape, const GemmArgs& args) {
    if (num_to_refuse_ > 0) --num_to_refuse_;
    fallbacks_.add(std::get<0>(shape), std::get<1>(shape), std::get<2>(shape));
    if (!refused_.insert(shape).second || !warn_) return;
    warn_(std::string("gemm ") + args.name + ": cuBLASLt refused with CUBLAS_STATUS_NOT_SUPPORTED, M " +
          std::to_string(args.x.rows.n) + ", N " + std::to_string(std::get<0>(shape)) + ", K " +
          std::to_string(std::get<1>(shape)) + ", y " + std::string(to_string(args.y.dtype)) +
          ", alignment of" + alignment_of("x", args.x.base, args.x.pitch, args.x.dtype) + "," +
          alignment_of("w", args.w.matrix.base, args.w.matrix.pitch, args.w.matrix.dtype) + "," +
          alignment_of("y", args.y.base, args.y.pitch, args.y.dtype) + "; own kernel from now on");
  }

  BackendLog warn_;
  int num_to_refuse_ = 0;
  FallbackCounts fallbacks_;
  std::set<Shape> refused_;
};

}  // namespace

gpu::Result<std::unique_ptr<BlasLt>, gpu::DeviceError> BlasLt::create(gpu::Device&, BackendLog warn) {
  return std::unique_ptr<BlasLt>(std::make_unique<EmulatedBlasLt>(std::move(warn)));
}

}  // namespace kernels::cuda
