#pragma once

// Include before any Highway header. The instruction sets that kernels are compiled for: those with a fused
// multiply-add and vectors of a fixed size; everything else runs the scalar fallback, which rounds alike.
// (SSE has no FMA; SVE vectors cannot be members of Lanes16.)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
