#pragma once

/// What differs between nvcc and the emulator (tests/cuda_emulator, which compiles kernels as plain C++):
/// everything else in kernels/cuda is written in what both understand. Kernels use no inline assembly and no
/// `<<<…>>>` of their own, take dynamic shared memory from dynamic_shared(), and 16-byte pieces from
/// values.cuh.
#include <cuda_runtime.h>

#include <cstdint>

namespace kernels::cuda {

#if defined(__CUDACC__)

/// The block's dynamic shared memory, 16-byte aligned.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char atlas_dynamic_shared[];
  return atlas_dynamic_shared;
}

/// d += a b for one warp, `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32` (PTX ISA, warp-level matrix
/// instructions). a: [16, 16] bf16 row-major, four registers of two values; b: [16, 8] column-major, two; d:
/// four fp32. With g = lane / 4, t = lane % 4: a[0] = rows g, columns 2t, 2t+1; a[1] = rows g + 8; a[2] =
/// rows g, columns 2t+8, +9; a[3] = rows g + 8, columns 2t+8, +9; b[0] = rows (k) 2t, 2t+1 of column g; b[1]
/// = rows 2t+8, +9; d[0], d[1] = row g, columns 2t, 2t+1; d[2], d[3] = row g + 8.
__device__ inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four 8x8 matrices of 16-bit values from shared memory: lane l gives the address of row l % 8 of matrix l /
/// 8, and gets of each matrix m in r[m] the two values of row l / 4, columns 2 (l % 4) and + 1
/// (`ldmatrix.x4`).
__device__ inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
/// The same, each matrix transposed.
__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// Copies 16 bytes (or, with `valid` false, zeros) to shared memory in the background: `cp.async`. Complete
/// for the calling thread after wait_copies, for others after a barrier behind that.
__device__ inline void copy_async_16(void* shared, const void* global, bool valid) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(global), "r"(bytes)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Waits until at most `kPending` of the groups committed last are still under way.
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

#else
}  // namespace kernels::cuda
#include "cuda_emulator/intrinsics.h"  // the same functions, in kernels::cuda
namespace kernels::cuda {
#endif

}  // namespace kernels::cuda
