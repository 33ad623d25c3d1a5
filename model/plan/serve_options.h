#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/loader.h"
#include "model/errors.h"
#include "model/plan/fault_drill.h"
#include "model/plan/serve_plan.h"

namespace model {

/// Everything an operator may set, resolved. Times in seconds.
struct ServeOptions {
  std::string model;      ///< folder or hub id; "": the embedded model
  std::string hub_cache;  ///< where hub ids are looked up; from HF_HUB_CACHE, HF_HOME or HOME

  std::string host = "127.0.0.1";
  int port = 8888;
  int max_connections = 1024;
  std::int64_t max_body_bytes = 32 * 1024 * 1024;
  double header_timeout = 30.0;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string cors_origin;

  std::string backend = "auto";
  int threads = 0;  ///< 0: one a core
  std::string dtype = "auto";
  std::string kv_cache_dtype = "auto";
  LoadFormat load_format = LoadFormat::automatic;
  PlanOptions plan;
  // Set only when the operator said so.
  std::optional<bool> enable_prefix_caching;
  std::optional<std::int64_t> prefix_cache_mb;
  bool content_loop_watchdog = false;
  std::optional<std::int32_t> max_rollbacks, snapshot_slots;
  bool speculative = false;
  std::optional<std::int32_t> num_drafts;

  std::vector<std::string> served_model_names;
  bool model_sampling_defaults = true;
  std::string chat_template;                 ///< file
  std::string default_chat_template_kwargs;  ///< JSON object

  int max_queue = 512;
  bool reject_overlength = false;  ///< prompt + max_tokens beyond the capacity: refused instead of clamped
  double request_timeout = 300.0;  ///< 0: off
  double step_deadline = 30.0;
  double fatal_grace = 2.0;
  double drain_timeout = 30.0;

  std::string log_level = "info";
  std::string log_format = "text";
  bool log_requests = false;

  std::vector<FaultOrder> faults;  ///< of ATLAS_TEST_FAULT: steps that fail on purpose
};

enum class Command { serve, plan, inspect, tokenize, version, help, print_config };

struct ParsedOptions {
  Command command = Command::serve;
  ServeOptions options;
  std::vector<std::string> warnings;
  std::string text;  ///< of help and print_config
};

/// Why the process ends before it did anything: 2 for a command line that cannot be read, 1 for what a file
/// or a variable says.
struct OptionsError {
  int exit_code = 2;
  std::vector<std::string> problems;
};

/// What options are read from, as values: nothing else in the program looks at the environment.
struct OptionSources {
  std::vector<std::string> arguments;  ///< without the program's name
  std::map<std::string, std::string> environment;
  std::function<std::optional<std::string>(const std::string& path)> read_file;
};

/// Flag, then ATLAS_<FLAG>, then --config FILE, then default. Every problem at once; an unknown name comes
/// with its nearest known one.
Result<ParsedOptions, OptionsError> parse_options(const OptionSources& sources);

/// What is asked for and cannot be had of this build: errors of the start, beside those of the plan.
std::vector<std::string> not_in_this_build(const ServeOptions& options);

}  // namespace model
