#include "actors/gpu_stream/compute_backend.h"

#include <utility>

namespace actors {
namespace {

using model::LoadError;

ComputeBackend cpu_backend(int workers, std::string why) {
  ComputeBackend backend;
  backend.device = gpu::make_host_device(workers);
  backend.facts = backend.device->facts();
  backend.why = std::move(why);
  return backend;
}

/// The module's device, or why there is none.
model::Result<ComputeBackend, std::string> module_backend(const ModuleLoader& load) {
  const auto module = load();
  if (!module.ok()) return module.error().why;
  auto device = (*module)->make_device();
  if (!device.ok()) return std::move(device).error().what;
  ComputeBackend backend;
  backend.device = *std::move(device);
  backend.module = *module;
  backend.facts = backend.device->facts();
  return backend;
}

}  // namespace

model::Result<ComputeBackend, LoadError> choose_backend(const BackendWish& wish, const ModuleLoader& load) {
  if (wish.backend == "cpu") return cpu_backend(wish.workers, "");
  if (!wish.needs_cpu.empty()) {
    if (wish.backend == "cuda") return LoadError{{"--backend cuda: " + wish.needs_cpu}};
    return cpu_backend(wish.workers, wish.needs_cpu);
  }
  auto found = module_backend(load);
  if (found.ok()) return *std::move(found);
  if (wish.backend == "cuda") return LoadError{{"--backend cuda: " + found.error()}};
  return cpu_backend(wish.workers, std::move(found).error());
}

BackendInfo info_of(const ComputeBackend& backend) {
  const int capability = backend.facts.compute_capability;
  BackendInfo info{backend.name(), backend.facts.name, "", backend.facts.libraries};
  if (capability > 0)
    info.compute_capability = std::to_string(capability / 10) + '.' + std::to_string(capability % 10);
  return info;
}

std::string describe(const ComputeBackend& backend) {
  std::string out = "backend " + backend.name();
  if (backend.module == nullptr) {
    out += " (" + std::to_string(backend.facts.num_workers) + " workers)";
    return backend.why.empty() ? out : out + ": " + backend.why;
  }
  const BackendInfo info = info_of(backend);
  out += ": " + info.device;
  if (!info.compute_capability.empty()) out += ", compute capability " + info.compute_capability;
  return info.libraries.empty() ? out : out + ", " + info.libraries;
}

}  // namespace actors
