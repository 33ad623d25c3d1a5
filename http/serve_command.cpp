#include "http/serve_command.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>

#include "actors/gpu_stream/local_executor.h"
#include "actors/system.h"
#include "http/listener.h"
#include "http/log.h"
#include "http/open_files.h"
#include "http/service.h"
#include "http/startup_report.h"
#include "model/checkpoint/gguf_text.h"
#include "model/checkpoint/inspect.h"
#include "model/checkpoint/mapped_file.h"
#include "model/plan/model_location.h"
#include "model/text/json_escape.h"
#include "model/text/tokenize_json.h"

namespace http {
namespace {

using std::chrono::milliseconds;

constexpr int kExitStart = 1;
constexpr int kExitSignalBase = 128;
constexpr milliseconds kFlush{2'000};
constexpr milliseconds kTearDown{2'000};

milliseconds from_seconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

void say(const std::string& line) {
  std::fputs((line + '\n').c_str(), stdout);
  std::fflush(stdout);
}

int fail(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) std::fputs(("atlas: " + problem + '\n').c_str(), stderr);
  std::fflush(stderr);
  return kExitStart;
}

model::Result<actors::LocalModel, model::LoadError> open_model(const model::ServeOptions& options,
                                                               const Build& build) {
  auto location = model::locate_model(options.model, options.hub_cache, build.embedded_models);
  if (!location.ok()) return std::move(location).error();
  return actors::open_local_model(location->folder, location->name, options,
                                  {[](std::string_view line) { spdlog::info("{}", line); },
                                   [](std::string_view line) { spdlog::warn("{}", line); }});
}

ListenOptions listen_options(const model::ServeOptions& options) {
  ListenOptions listen;
  listen.host = options.host;
  listen.port = options.port;
  listen.max_connections = static_cast<std::size_t>(options.max_connections);
  listen.limits.max_body_bytes = static_cast<std::size_t>(options.max_body_bytes);
  listen.limits.header_timeout = from_seconds(options.header_timeout);
  return listen;
}

actors::SystemOptions system_options(const model::ServeOptions& options) {
  actors::SystemOptions system;
  system.max_queue = options.max_queue;
  system.step_deadline = from_seconds(options.step_deadline);
  system.fatal_grace = from_seconds(options.fatal_grace);
  system.drain_timeout = from_seconds(options.drain_timeout);
  system.log_requests = options.log_requests;
  return system;
}

std::string version_json(const Build& build, const actors::BackendInfo& backend) {
  std::string out = R"({"version":)";
  model::text::append_json_string(out, build.version);
  const auto add = [&out](const char* name, const std::string& value) {
    out += std::string(",\"") + name + "\":";
    model::text::append_json_string(out, value);
  };
  add("git_revision", build.git_revision);
  add("backend", backend.name);
  add("device", backend.device);
  if (!backend.compute_capability.empty()) add("compute_capability", backend.compute_capability);
  if (!backend.libraries.empty()) add("libraries", backend.libraries);
  return out + '}';
}

Service make_front(const actors::LocalModel& local, actors::System& system,
                   const model::ServeOptions& options, const Build& build) {
  ServiceParts parts;
  parts.served = local.served;
  parts.engine = &system.engine();
  parts.health = &system.health();
  parts.metrics_text = [&system] { return system.metrics_text(); };
  if (options.log_requests) parts.log = log_request;
  ServiceOptions service;
  service.sampling_defaults =
      options.model_sampling_defaults ? openai::SamplingDefaults::model : openai::SamplingDefaults::none;
  if (options.request_timeout > 0.0) service.request_timeout = from_seconds(options.request_timeout);
  service.default_template_kwargs = options.default_chat_template_kwargs;
  service.overlength = options.reject_overlength ? actors::Overlength::reject : actors::Overlength::clamp;
  service.max_queue = options.max_queue;
  service.cors_origin = options.cors_origin;
  service.api_keys = options.api_keys;
  service.version_json = version_json(build, local.served->backend);
  return make_service(std::move(parts), std::move(service));
}

/// What ends the process, from whichever thread: the first says how.
struct Ending {
  int code = 0;
  std::string why;
};
class EndingPromise {
 public:
  void set(int code, std::string why) {
    if (!set_.exchange(true)) promise_.set_value({code, std::move(why)});
  }
  std::future<Ending> future() { return promise_.get_future(); }

 private:
  std::atomic<bool> set_{false};
  std::promise<Ending> promise_;
};

/// First signal: drain. Second: out at once.
void on_signals(IoLoop& loop, actors::System& system) {
  loop.on_signal([&system, signalled = false](int number) mutable {
    if (signalled) std::_Exit(kExitSignalBase + number);
    signalled = true;
    spdlog::info("draining: running requests finish, a second signal ends at once");
    system.drain();
  });
}

void report_startup(IoLoop& loop, const actors::System& system, const actors::ServedModel& served,
                    const std::string& url) {
  const auto report = std::make_shared<StartupReport>(served, url);
  const auto tick = [report, &system] {
    for (const std::string& line : report->lines(system.health().view())) say(line);
    return !report->done();
  };
  loop.every(milliseconds(20), tick);
}

/// Answers that are still on their way leave; nobody waits longer for a reader that does not read.
void flush_connections(Listener& listener) {
  listener.stop();
  const auto end = std::chrono::steady_clock::now() + kFlush;
  while (listener.num_connections() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(milliseconds(5));
}

/// Whatever the last steps of the process wait for (a device deep in a load or a step, a full stderr), they
/// end.
void leave_within(milliseconds time, int code) {
  std::thread([time, code] {
    std::this_thread::sleep_for(time);
    std::_Exit(code);
  }).detach();
}

/// Before nobody listens to signals any more: one more ends the process as it would any other.
void restore_signals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

int run_serve(const model::ServeOptions& options, const Build& build) {
  start_log(options.log_level, options.log_format);
  auto local = open_model(options, build);
  if (!local.ok()) return fail(local.error().problems);
  if (const auto files = allow_open_files(options.max_connections); !files.ok())
    return fail(files.error().problems);

  // Order matters: the loop outlives the actors, whose sinks hold connections; the listener goes before both.
  IoLoop loop;
  EndingPromise ending;
  auto ended = ending.future();
  auto listener = Listener::bind(loop, listen_options(options));
  if (!listener.ok()) return fail(listener.error().problems);
  say("atlas " + build.version + ": " + local->backend_note);
  if (const auto penalty = local->served->generation.repetition_penalty; penalty && *penalty != 1.0F)
    spdlog::info("generation_config.json: repetition_penalty {} is left to requests to set", *penalty);

  auto system =
      actors::System::start(local->served, system_options(options), std::move(local->make_executor),
                            [&ending](int code, std::string why) { ending.set(code, std::move(why)); });
  (*listener)->start(make_front(*local, *system, options, build));
  on_signals(loop, *system);
  report_startup(loop, *system, *local->served, (*listener)->url());
  loop.start();
  say("listening on " + (*listener)->url());

  const Ending end = ended.get();
  if (end.code != 0) {
    // The device may be gone or its thread stuck: nothing is torn down.
    leave_within(kTearDown, end.code);
    if (!end.why.empty()) fail({end.why});
    spdlog::default_logger()->flush();
    std::_Exit(end.code);
  }
  flush_connections(**listener);
  // Before the loop stops listening, and before anybody is told: whoever saw "drained" is obeyed.
  restore_signals();
  spdlog::info("drained");
  loop.stop();
  leave_within(kTearDown, 0);
  system.reset();
  return 0;
}

int run_plan(const model::ServeOptions& options, const Build& build) {
  start_log(options.log_level, options.log_format);
  const auto local = open_model(options, build);
  if (!local.ok()) return fail(local.error().problems);
  // On stderr, for people: what is on stdout is the plan alone, for programs.
  spdlog::info("{}", local->backend_note);
  for (const std::string& line : describe(local->served->plan)) spdlog::info("{}", line);
  say(to_json(local->served->plan));
  return 0;
}

int run_inspect(const model::ServeOptions& options, const Build& build) {
  const auto location = model::locate_model(options.model, options.hub_cache, build.embedded_models);
  if (!location.ok()) return fail(location.error().problems);
  const auto described = model::describe_model(location->folder);
  if (!described.ok()) return fail(described.error().problems);
  std::fputs(described->c_str(), stdout);
  return 0;
}

namespace {

using LoadedTokenizer = model::Result<std::shared_ptr<const model::text::Tokenizer>, model::LoadError>;

/// Of a folder that need hold nothing but tokenizer.json, or of a GGUF file.
LoadedTokenizer load_tokenizer(const std::string& place) {
  if (model::is_gguf_file(place)) {
    const auto gguf = model::open_gguf(place);
    if (!gguf.ok()) return gguf.error();
    auto text = model::read_gguf_text(*gguf);
    if (!text.ok()) return std::move(text).error();
    if (!text->tokenizer) return model::LoadError{{place + ": has no tokenizer"}};
    return model::text::Tokenizer::from_parts(std::move(*text->tokenizer), place);
  }
  const auto path = std::filesystem::path(place) / "tokenizer.json";
  const auto json = model::read_small_file(path, 256 << 20);
  if (!json.ok()) return json.error();
  return model::text::Tokenizer::from_json(*json, path.string());
}

}  // namespace

int run_tokenize(const std::string& place) {
  const auto tokenizer = load_tokenizer(place);
  if (!tokenizer.ok()) return fail(tokenizer.error().problems);
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) say(model::text::answer_tokenize_line(**tokenizer, line));
  }
  return 0;
}

}  // namespace http
