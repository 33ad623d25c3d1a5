#pragma once

#include <cstdlib>
#include <iostream>

#include "tests/device/test_device.h"
#include "tests/model/runner/model_rig.h"

namespace model::testing {

/// Whole models take minutes on the emulator; what it runs is chosen to take seconds, unless
/// ATLAS_EMULATE_ALL is set.
inline bool emulated() {
  return kernels::testing::TestDevice::get()->emulated() && std::getenv("ATLAS_EMULATE_ALL") == nullptr;
}
#define SKIP_WHERE_EMULATED() \
  if (::model::testing::emulated()) GTEST_SKIP() << "too large for the emulator (ATLAS_EMULATE_ALL runs it)"

/// A stream and operations of its own on the device of the device tests, which outlives every rig.
inline RigBackend device_backend() {
  auto& test = *kernels::testing::TestDevice::get();
  RigBackend backend;
  backend.device = std::shared_ptr<gpu::Device>(&test.device(), [](gpu::Device*) {});
  backend.stream = *test.device().create_stream();
  backend.ops = test.make_ops([](const std::string& line) { std::cerr << line << '\n'; });
  return backend;
}

inline RigOptions on_device(DTypeOption dtype, RigOptions options = {}) {
  options.backend = device_backend;
  options.dtype = dtype;
  return options;
}

inline constexpr DTypeOption kDTypes[] = {DTypeOption::float32, DTypeOption::bfloat16};
inline const char* name_of(DTypeOption dtype) {
  return dtype == DTypeOption::float32 ? "float32" : "bfloat16";
}

}  // namespace model::testing
