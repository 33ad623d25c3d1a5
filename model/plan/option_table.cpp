#include "model/plan/option_table.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>

namespace model {
namespace {

using Problem = std::optional<std::string>;
using Setter = std::function<Problem(ServeOptions&, const std::string&)>;

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Take>
Setter whole(std::int64_t least, std::int64_t most, Take take) {
  return [=](ServeOptions& options, const std::string& text) -> Problem {
    const auto value = parse_number<std::int64_t>(text);
    if (value && *value >= least && *value <= most) {
      take(options, *value);
      return std::nullopt;
    }
    return "has to be an integer from " + std::to_string(least) + " to " + std::to_string(most);
  };
}

template <class Take>
Setter real(double least, double most, const char* range, Take take) {
  return [=](ServeOptions& options, const std::string& text) -> Problem {
    const auto value = parse_number<double>(text);
    if (value && *value >= least && *value <= most) {
      take(options, *value);
      return std::nullopt;
    }
    return std::string("has to be ") + range;
  };
}

template <class Take>
Setter seconds(double least, Take take) {
  return real(least, 1e7, least > 0.0 ? "a time in seconds above 0" : "a time in seconds", take);
}

template <class Take>
Setter one_of(std::vector<std::string> values, Take take) {
  return [=](ServeOptions& options, const std::string& text) -> Problem {
    if (std::find(values.begin(), values.end(), text) != values.end()) {
      take(options, text);
      return std::nullopt;
    }
    std::string all;
    for (const auto& value : values) all += (all.empty() ? "" : ", ") + value;
    return "has to be one of " + all;
  };
}

template <class Take>
Setter toggle(Take take) {
  return [=](ServeOptions& options, const std::string& text) -> Problem {
    const bool on = text == "on" || text == "true" || text == "1";
    if (!on && text != "off" && text != "false" && text != "0") return "has to be on or off";
    take(options, on);
    return std::nullopt;
  };
}

template <class Take>
Setter text(Take take) {
  return [=](ServeOptions& options, const std::string& value) -> Problem {
    if (value.empty()) return "must not be empty";
    take(options, value);
    return std::nullopt;
  };
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

/// Of a value that was found among the possible ones.
DTypeOption dtype_option(std::string_view value) {
  if (value == "auto") return DTypeOption::automatic;
  return value == "float32" ? DTypeOption::float32 : DTypeOption::bfloat16;
}

constexpr double kTick = 0.001;  // the least time that is one
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

std::vector<Option> make_table() {
  using O = ServeOptions;
  using Kind = Option::Kind;
  const std::vector<std::string> dtypes = {"auto", "float32", "bfloat16"};
  return {
      {"host", "", Kind::value, "Network", "ADDRESS", "127.0.0.1", "IPv4 or IPv6 address to listen on",
       text([](O& o, auto v) { o.host = v; })},
      {"port", "", Kind::value, "Network", "N", "8888", "0 picks a free one and prints it",
       whole(0, 65535, [](O& o, auto v) { o.port = narrow(v); })},
      {"max-connections", "", Kind::value, "Network", "N", "1024",
       "beyond it a connection is refused with 503",
       whole(1, 1'000'000, [](O& o, auto v) { o.max_connections = narrow(v); })},
      {"max-body-bytes", "", Kind::value, "Network", "BYTES", "33554432",
       "larger request bodies are refused with 413",
       whole(1, std::int64_t{1} << 32, [](O& o, auto v) { o.max_body_bytes = v; })},
      {"header-timeout", "", Kind::value, "Network", "SECONDS", "30",
       "for a request to arrive; 408 beyond it", seconds(kTick, [](O& o, auto v) { o.header_timeout = v; })},
      {"api-key", "", Kind::list, "Network", "KEY", "none",
       "needed by API routes, as a bearer token; repeatable",
       text([](O& o, auto v) { o.api_keys.push_back(v); }), true},
      {"api-key-file", "", Kind::value, "Network", "FILE", "none", "one key a line",
       text([](O& o, auto v) { o.api_key_file = v; })},
      {"cors-origin", "", Kind::value, "Network", "ORIGIN", "none",
       "answers of browsers' cross-origin requests", text([](O& o, auto v) { o.cors_origin = v; })},

      {"served-model-name", "", Kind::list, "Model", "NAME", "folder or id",
       "shown by /v1/models; repeatable: the rest are aliases",
       text([](O& o, auto v) { o.served_model_names.push_back(v); })},
      {"load-format", "", Kind::value, "Model", "auto|dummy", "auto",
       "dummy: seeded random weights of the config's shapes, for benchmarks",
       one_of(
           {"auto", "dummy"},
           [](O& o, auto v) { o.load_format = v == "dummy" ? LoadFormat::dummy : LoadFormat::automatic; })},
      {"chat-template", "", Kind::value, "Model", "FILE", "the model's",
       "Jinja template in place of the model's own", text([](O& o, auto v) { o.chat_template = v; })},
      {"default-chat-template-kwargs", "", Kind::value, "Model", "JSON", "none",
       "object below each request's chat_template_kwargs",
       text([](O& o, auto v) { o.default_chat_template_kwargs = v; })},
      {"sampling-defaults", "", Kind::value, "Model", "model|none", "model",
       "model: those of generation_config.json; none: the API's",
       one_of({"model", "none"}, [](O& o, auto v) { o.model_sampling_defaults = v == "model"; })},

      {"backend", "", Kind::value, "Compute", "auto|cpu|cuda", "auto", "where the model runs",
       one_of({"auto", "cpu", "cuda"}, [](O& o, auto v) { o.backend = v; })},
      {"threads", "", Kind::value, "Compute", "N", "cores", "workers of the CPU backend",
       whole(1, 1024, [](O& o, auto v) { o.threads = narrow(v); })},
      {"dtype", "", Kind::value, "Compute", "auto|float32|bfloat16", "auto",
       "of activations; the CPU computes in float32",
       one_of(dtypes,
              [](O& o, auto v) {
                o.dtype = v;
                o.plan.dtype = dtype_option(v);
              })},
      {"kv-cache-dtype", "", Kind::value, "Compute", "auto|float32|bfloat16", "auto",
       "of keys and values; auto: as --dtype",
       one_of(dtypes,
              [](O& o, auto v) {
                o.kv_cache_dtype = v;
                o.plan.kv_cache_dtype = dtype_option(v);
              })},

      {"max-seq-len", "", Kind::value, "Capacity", "TOKENS", "min(model, 32768)", "context of one sequence",
       whole(1, kMaxInt, [](O& o, auto v) { o.plan.max_seq_len = narrow(v); })},
      {"max-batch-size", "max-num-seqs", Kind::value, "Capacity", "N", "8 cpu, 64 cuda",
       "admitted sequences, all decoded each step",
       whole(1, plan_limits::kSequences, [](O& o, auto v) { o.plan.max_batch_size = narrow(v); })},
      {"max-prefill-tokens", "", Kind::value, "Capacity", "TOKENS", "512 cpu, 8192 cuda",
       "prompt tokens a step",
       whole(1, plan_limits::kPrefillTokens, [](O& o, auto v) { o.plan.max_prefill_tokens = narrow(v); })},
      {"block-size", "", Kind::value, "Capacity", "16|32|64", "16", "tokens of a KV page",
       one_of({"16", "32", "64"}, [](O& o, auto v) { o.plan.block_size = *parse_number<std::int32_t>(v); })},
      {"kv-cache-tokens", "", Kind::value, "Capacity", "TOKENS", "derived", "KV pages in tokens",
       whole(0, std::int64_t{1} << 40, [](O& o, auto v) { o.plan.kv_cache_tokens = v; })},
      {"gpu-memory-utilization", "", Kind::value, "Capacity", "FRACTION", "0.85", "ceiling on device memory",
       real(0.01, 1.0, "a fraction from 0.01 to 1", [](O& o, auto v) { o.plan.gpu_memory_utilization = v; })},
      {"enable-prefix-caching", "", Kind::toggle, "Capacity", "on|off", "on", "no cache is kept yet",
       toggle([](O& o, bool v) { o.enable_prefix_caching = v; })},
      {"prefix-cache-mb", "", Kind::value, "Capacity", "MIB", "derived", "its budget; none is reserved yet",
       whole(0, 1 << 30, [](O& o, auto v) { o.prefix_cache_mb = v; })},
      {"overlength", "", Kind::value, "Capacity", "clamp|reject", "clamp",
       "prompt + max_tokens beyond the capacity: fewer tokens, or 400",
       one_of({"clamp", "reject"}, [](O& o, auto v) { o.reject_overlength = v == "reject"; })},
      {"ple-max-tokens", "", Kind::value, "Capacity", "TOKENS", "derived", "override: PLE scratch of a step",
       whole(0, kMaxInt, [](O& o, auto v) { o.plan.ple_max_tokens = narrow(v); })},
      {"ple-cache-slots", "", Kind::value, "Capacity", "N", "derived", "override: PLE row cache of a layer",
       whole(0, std::int64_t{1} << 40, [](O& o, auto v) { o.plan.ple_cache_slots = v; })},
      {"ple-resident", "", Kind::value, "Capacity", "auto|always|never", "auto",
       "n-gram tables on the device, or row by row from their files; auto: as fits",
       one_of({"auto", "always", "never"},
              [](O& o, auto v) {
                o.plan.ple_resident = v == "auto"     ? PleResident::automatic
                                      : v == "always" ? PleResident::always
                                                      : PleResident::never;
              })},
      {"qsa-max-tokens", "", Kind::value, "Capacity", "TOKENS", "derived",
       "override: sparse-attention index of a sequence",
       whole(0, kMaxInt, [](O& o, auto v) { o.plan.qsa_max_tokens = narrow(v); })},
      {"max-queue", "", Kind::value, "Capacity", "N", "512", "waiting requests; beyond it 429",
       whole(0, 1'000'000, [](O& o, auto v) { o.max_queue = narrow(v); })},

      {"content-loop-watchdog", "", Kind::toggle, "Generation", "on|off", "off",
       "stops answers that repeat themselves; on is not in this build",
       toggle([](O& o, bool v) { o.content_loop_watchdog = v; })},
      {"max-rollbacks", "", Kind::value, "Generation", "N", "2", "of one answer, by the watchdog",
       whole(0, 1000, [](O& o, auto v) { o.max_rollbacks = narrow(v); })},
      {"snapshot-slots", "", Kind::value, "Generation", "N", "4",
       "rollback points of a sequence, fewer where memory is short; none while the watchdog is off",
       whole(0, plan_limits::kSnapshotSlots, [](O& o, auto v) { o.snapshot_slots = narrow(v); })},
      {"speculative", "", Kind::toggle, "Generation", "on|off", "off",
       "drafts of the model's MTP layer; on is not in this build",
       toggle([](O& o, bool v) { o.speculative = v; })},
      {"num-drafts", "", Kind::value, "Generation", "N", "1",
       "tokens drafted ahead, where --speculative is on",
       whole(0, plan_limits::kDrafts, [](O& o, auto v) { o.num_drafts = narrow(v); })},

      {"request-timeout", "", Kind::value, "Time", "SECONDS", "300", "of one request; 0: none",
       seconds(0.0, [](O& o, auto v) { o.request_timeout = v; })},
      {"step-deadline", "", Kind::value, "Time", "SECONDS", "30",
       "without progress of a step: the process ends",
       seconds(kTick, [](O& o, auto v) { o.step_deadline = v; })},
      {"fatal-grace", "", Kind::value, "Time", "SECONDS", "2", "bound of the way to exit after a fatal fault",
       seconds(0.0, [](O& o, auto v) { o.fatal_grace = v; })},
      {"drain-timeout", "", Kind::value, "Time", "SECONDS", "30", "for running requests after SIGTERM",
       seconds(0.0, [](O& o, auto v) { o.drain_timeout = v; })},
      {"health-canary", "", Kind::value, "Time", "SECONDS", "0",
       "between looks, while idle, whether a fixed prompt is still answered as at first; 0: none",
       seconds(0.0, [](O& o, auto v) { o.health_canary = v; })},

      {"log-level", "", Kind::value, "Log", "LEVEL", "info", "debug, info, warn, error",
       one_of({"debug", "info", "warn", "error"}, [](O& o, auto v) { o.log_level = v; })},
      {"log-format", "", Kind::value, "Log", "text|json", "text", "of the lines on stderr",
       one_of({"text", "json"}, [](O& o, auto v) { o.log_format = v; })},
      {"log-requests", "", Kind::toggle, "Log", "on|off", "off", "a line a request, with its id",
       toggle([](O& o, bool v) { o.log_requests = v; })},
  };
}

}  // namespace

std::vector<std::string> Option::variables() const {
  const auto of = [](const std::string& flag) {
    std::string out = "ATLAS_";
    for (const char c : flag)
      out += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    return out;
  };
  return alias.empty() ? std::vector{of(name)} : std::vector{of(name), of(alias)};
}

const std::vector<Option>& option_table() {
  static const std::vector<Option> table = make_table();
  return table;
}

const Option* find_option(std::string_view name) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '_', '-');
  for (const Option& option : option_table()) {
    if (option.name == wanted || (!option.alias.empty() && option.alias == wanted)) return &option;
  }
  return nullptr;
}

std::string nearest(std::string_view wrong, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string& name : known) {
    std::vector<std::size_t> row(name.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < name.size(); ++j) {
        const std::size_t changed = diagonal + (wrong[i] == name[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = name;
    }
  }
  return best;
}

}  // namespace model
