#pragma once

/// Stands in for the CUDA Toolkit's header where kernels are compiled as plain C++ (tests/cuda_emulator).
#include "cuda_emulator/device_functions.h"
#include "cuda_emulator/runtime_api.h"
#include "cuda_emulator/types.h"
