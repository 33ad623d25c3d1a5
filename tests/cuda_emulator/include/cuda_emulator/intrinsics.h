#pragma once

#include "cuda_emulator/block.h"

/// kernels/cuda/device/intrinsics.cuh as plain C++: same functions, same register layouts.
namespace kernels::cuda {

inline unsigned char* dynamic_shared() { return cuda_emulator::dynamic_shared_memory(); }

namespace emulated {

struct MmaOperands {
  float d[4];
  std::uint32_t a[4];
  std::uint32_t b[2];
};

/// All of one warp's product: what each lane brought is replaced by its part of the sum.
void multiply(cuda_emulator::Slot* slots);

/// What each lane brought, the address of a row, is replaced by its four registers.
void load_matrices(cuda_emulator::Slot* slots, bool transposed);

struct Registers {
  std::uint32_t r[4];
};

}  // namespace emulated

/// Products are exact in fp32 and are added in ascending k.
inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  emulated::MmaOperands operands;
  std::memcpy(operands.d, d, sizeof(d));
  std::memcpy(operands.a, a, sizeof(a));
  std::memcpy(operands.b, b, sizeof(b));
  int lane = 0;
  const auto* const slots =
      cuda_emulator::meet_warp("mma_bf16", 0xFFFFFFFFU, operands, &lane, emulated::multiply);
  std::memcpy(d, slots[lane].get<emulated::MmaOperands>().d, sizeof(d));
}

inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  int lane = 0;
  const auto* const slots =
      cuda_emulator::meet_warp("load_matrices", 0xFFFFFFFFU, row, &lane,
                               [](cuda_emulator::Slot* all) { emulated::load_matrices(all, false); });
  std::memcpy(r, slots[lane].get<emulated::Registers>().r, sizeof(r));
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  int lane = 0;
  const auto* const slots =
      cuda_emulator::meet_warp("load_matrices_transposed", 0xFFFFFFFFU, row, &lane,
                               [](cuda_emulator::Slot* all) { emulated::load_matrices(all, true); });
  std::memcpy(r, slots[lane].get<emulated::Registers>().r, sizeof(r));
}

inline void copy_async_16(void* shared, const void* global, bool valid) {
  cuda_emulator::start_copy(shared, global, valid);
}
inline void commit_copies() { cuda_emulator::close_copy_group(); }
template <int kPending>
void wait_copies() {
  cuda_emulator::finish_copies(kPending);
}

}  // namespace kernels::cuda
