#pragma once

// Every instruction set that any kernel is compiled for. A kernel without code for one runs the scalar
// fallback when that one is chosen alone.
#define HWY_WANT_AVX3_DL
#include "kernels/cpu/targets.h"

#include "hwy/highway.h"

namespace kernels::testing {

/// Runs `body` once for each instruction set that this machine has, the scalar fallback included.
template <class Body>
void for_every_target(const Body& body) {
  hwy::SetSupportedTargetsForTest(0);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace kernels::testing
