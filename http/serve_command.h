#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/plan/serve_options.h"

namespace http {

struct Build {
  std::string version;
  std::string git_revision;
  std::vector<std::filesystem::path>
      embedded_models;  ///< where the model served without a MODEL may lie, best first
};

/// `atlas serve`: plan, port, actors, weights, requests, until a signal or a fault ends it. The process's
/// exit code.
int run_serve(const model::ServeOptions& options, const Build& build);

/// `atlas plan`: the plan as JSON; exit 1 lists every violation.
int run_plan(const model::ServeOptions& options, const Build& build);

/// `atlas inspect`: tensors, types, tokenizer and template of a model, for reading.
int run_inspect(const model::ServeOptions& options, const Build& build);

/// `atlas tokenize FOLDER|FILE.gguf --json`: a request a line on stdin.
int run_tokenize(const std::string& place);

}  // namespace http
