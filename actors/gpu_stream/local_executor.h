#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "actors/engine.h"
#include "actors/system.h"
#include "model/plan/serve_options.h"

namespace actors {

/// A model of this machine (a folder or a GGUF file), read as far as a plan needs, and how its device is
/// brought up later. This is where options become a device, so that http/ need not know one.
struct LocalModel {
  std::shared_ptr<const ServedModel> served;
  ExecutorFactory make_executor;
  std::string backend;       ///< "cpu"
  std::string backend_note;  ///< what was taken, and why
};

/// Reads config, tokenizer and template and derives the plan: no weights, no device memory. Every problem at
/// once. `notice` hears a line now and then while weights are loaded, from the loading thread.
model::Result<LocalModel, model::LoadError> open_local_model(const std::filesystem::path& folder,
                                                             const std::string& name,
                                                             const model::ServeOptions& options,
                                                             std::function<void(std::string_view)> notice);

}  // namespace actors
