#include "cuda_emulator/intrinsics.h"

#include <bit>

#include "tests/cuda_emulator/faults.h"

namespace kernels::cuda::emulated {
namespace {

float low(std::uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float high(std::uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000U); }

}  // namespace

void multiply(cuda_emulator::Slot* slots) {
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto mine = slots[lane].get<MmaOperands>();
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, column = 2 * t + i / 2 * 8;
      a[row][column] = low(mine.a[i]);
      a[row][column + 1] = high(mine.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[2 * t + 8 * i][g] = low(mine.b[i]);
      b[2 * t + 8 * i + 1][g] = high(mine.b[i]);
    }
    for (int i = 0; i < 4; ++i) d[g + i / 2 * 8][2 * t + i % 2] = mine.d[i];
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    MmaOperands result = {};
    for (int i = 0; i < 4; ++i) result.d[i] = d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
    slots[lane].set(result);
  }
}

void load_matrices(cuda_emulator::Slot* slots, bool transposed) {
  const std::uint16_t* rows[32];
  for (int lane = 0; lane < 32; ++lane) {
    rows[lane] = slots[lane].get<const std::uint16_t*>();
    if (reinterpret_cast<std::uintptr_t>(rows[lane]) % 16 != 0) {
      cuda_emulator::raise_fault({cudaErrorMisalignedAddress, rows[lane]});
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    Registers registers;
    const int row = lane / 4, column = 2 * (lane % 4);
    for (int m = 0; m < 4; ++m) {
      const std::uint16_t* const* const matrix = rows + 8 * m;
      const std::uint32_t first = transposed ? matrix[column][row] : matrix[row][column];
      const std::uint32_t second = transposed ? matrix[column + 1][row] : matrix[row][column + 1];
      registers.r[m] = first | second << 16;
    }
    slots[lane].set(registers);
  }
}

}  // namespace kernels::cuda::emulated
