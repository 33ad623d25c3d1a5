#pragma once

#include <csignal>
#include <optional>

#include "cuda_emulator/runtime_api.h"
#include "tests/cuda_emulator/fiber.h"

namespace cuda_emulator {

struct FaultCaught {
  cudaError_t error;
  const void* address;
};

/// While it lives, an access of a kernel that the processor refuses (or that the compiler's alignment check
/// refuses) gives the kernel up and goes on with `launcher`. One at a time, on the thread that made it.
class FaultCatcher {
 public:
  explicit FaultCatcher(Fiber& launcher);
  ~FaultCatcher();
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;

  const std::optional<FaultCaught>& caught() const { return caught_; }
  [[noreturn]] void give_up_kernel(const FaultCaught& fault);

 private:
  Fiber& launcher_;
  std::optional<FaultCaught> caught_;
  static constexpr int kNumSignals = 4;
  struct sigaction before_[kNumSignals];
  stack_t stack_before_ = {};
};

/// The running kernel commits it.
[[noreturn]] void raise_fault(const FaultCaught& fault);

}  // namespace cuda_emulator
