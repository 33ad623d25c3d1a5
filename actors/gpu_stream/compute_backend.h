#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/engine.h"
#include "gpu/device.h"
#include "kernels/backend_module.h"
#include "model/errors.h"

namespace actors {

/// The device that a model will run on. It is made where the process starts, because the plan needs its
/// facts, and then belongs to the thread that loads the model: nobody else calls it.
struct ComputeBackend {
  std::shared_ptr<gpu::Device> device;
  const kernels::BackendModule* module = nullptr;  ///< null: the CPU
  gpu::DeviceFacts facts;
  std::string why;  ///< what the choice rests on, for the line at startup; "" where it was asked for

  std::string name() const { return module == nullptr ? "cpu" : module->name; }
};

/// What the operator and the model ask of a backend.
struct BackendWish {
  std::string backend = "auto";  ///< auto, cpu, cuda
  int workers = 1;               ///< of the CPU's
  std::string needs_cpu;         ///< why this model runs on the CPU alone; "": it does not
};

using ModuleLoader = std::function<gpu::Result<const kernels::BackendModule*, kernels::BackendUnavailable>()>;

/// "auto" takes the module's device where there is one, and else the CPU, for the reason in `why`; "cuda"
/// without one is a problem that gives the reason. `load` is called where a device is looked for.
model::Result<ComputeBackend, model::LoadError> choose_backend(const BackendWish& wish,
                                                               const ModuleLoader& load);

BackendInfo info_of(const ComputeBackend& backend);

/// "backend cuda: NVIDIA H200, compute capability 9.0, driver 13.0 …", "backend cpu (2 workers): …why…"
std::string describe(const ComputeBackend& backend);

}  // namespace actors
