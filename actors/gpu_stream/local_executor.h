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

/// A model of this machine (a folder or a GGUF file), read as far as a plan needs, and how it is brought up
/// later on the device that the plan was made for. This is where options become a device (compute_backend.h)
/// and files become text (served_text.h), so that http/ need not know one.
struct LocalModel {
  std::shared_ptr<const ServedModel> served;
  ExecutorFactory make_executor;  ///< called once
  std::string backend_note;       ///< which backend was taken, and why
};

/// Lines for the operator, from whichever thread loads or computes. Either may be empty.
struct LocalLog {
  std::function<void(std::string_view)> notice;   ///< now and then while weights are loaded
  std::function<void(std::string_view)> warning;  ///< a slower path that the device took, and why
};

/// Reads config, tokenizer and template, chooses the device and derives the plan: no weights, no device
/// memory. Every problem at once.
model::Result<LocalModel, model::LoadError> open_local_model(const std::filesystem::path& folder,
                                                             const std::string& name,
                                                             const model::ServeOptions& options,
                                                             LocalLog log);

}  // namespace actors
