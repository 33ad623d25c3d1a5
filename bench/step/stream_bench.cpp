// What a token costs on its way from the device to a client: the real listener, connections and actors over
// an executor that only sleeps, read by a client in a process of its own. Prints one Markdown row.
//   stream_bench [MODEL] [--streams N] [--steps N] [--step-ms X] [--warm N] [--threads]
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "actors/gpu_stream/local_executor.h"
#include "actors/system.h"
#include "bench/step/null_executor.h"
#include "bench/step/socket_clock.h"
#include "bench/step/stream_client.h"
#include "http/listener.h"
#include "http/log.h"
#include "http/service.h"

namespace {

using bench::Reading;
using bench::SocketWrites;
using bench::StreamMarks;

struct Options {
  std::string model = ATLAS_MODELS "/atlas-mini";
  std::int32_t streams = 256;
  std::int32_t steps = 200;
  std::int32_t warm_steps = 25;
  double step_ms = 20.0;
  bool by_thread = false;
};

[[noreturn]] void fail(const std::vector<std::string>& problems) {
  for (const auto& problem : problems) std::fprintf(stderr, "stream_bench: %s\n", problem.c_str());
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      return i + 1 < argc ? argv[++i] : (fail({argument + " needs a value"}), "");
    };
    if (argument == "--streams")
      options.streams = std::max(1, std::stoi(value()));
    else if (argument == "--steps")
      options.steps = std::max(1, std::stoi(value()));
    else if (argument == "--warm")
      options.warm_steps = std::max(1, std::stoi(value()));
    else if (argument == "--step-ms")
      options.step_ms = std::stod(value());
    else if (argument == "--by-thread")
      options.by_thread = true;
    else
      options.model = argument;
  }
  return options;
}

/// Streams begin one after the other: those that began first still run when the window closes.
std::int32_t tokens_each(const Options& options) { return 2 * options.warm_steps + options.steps + 64; }

std::string request_of(const Options& options) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"hello"}],"stream":true,"ignore_eos":true,"temperature":0,"max_tokens":)" +
      std::to_string(tokens_each(options)) + "}";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: "
         "application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// Tokens that are words: each gives one event.
std::vector<model::TokenId> plain_tokens(const model::text::Tokenizer& tokenizer) {
  std::vector<model::TokenId> ids;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' '; };
  for (model::TokenId id = 0; id < tokenizer.size() && ids.size() < 1000; ++id) {
    const auto bytes = tokenizer.bytes(id);
    if (bytes.size() > 1 && bytes.back() != ' ' && !tokenizer.is_added(id) &&
        std::all_of(bytes.begin(), bytes.end(), is_letter))
      ids.push_back(id);
  }
  return ids;
}

/// The model's own tokenizer and template with a plan that holds all streams; nothing of it is computed.
std::shared_ptr<const actors::ServedModel> served_model(const Options& options) {
  model::ServeOptions cpu;
  cpu.backend = "cpu";
  const auto local = actors::open_local_model(options.model, "bench", cpu, {});
  if (!local.ok()) fail(local.error().problems);
  if (!local->served->tokenizer || !local->served->chat_template)
    fail({options.model + " has no tokenizer or no chat template"});
  auto served = std::make_shared<actors::ServedModel>(*local->served);
  auto& plan = served->plan;
  plan.max_batch_size = plan.num_state_slots = options.streams;
  plan.num_pages = options.streams * plan.pages_per_sequence;
  served->known_answer.reset();  // the null executor has its own
  return served;
}

/// What the server measured, by the executor's thread.
struct Window {
  Reading opened, closed;
  SocketWrites writes_opened, writes_closed;
  std::map<std::string, double> threads_opened, threads_closed;
};

/// CPU seconds by thread.
std::map<std::string, double> thread_times() {
  std::map<std::string, double> times;
  DIR* const folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return times;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream file("/proc/self/task/" + std::string(entry->d_name) + "/schedstat");
    double nanoseconds = 0.0;
    if (file >> nanoseconds) times[entry->d_name] = 1e-9 * nanoseconds;
  }
  ::closedir(folder);
  return times;
}

Window serve(const Options& options, const std::shared_ptr<const actors::ServedModel>& served, int port_pipe,
             pid_t client, StreamMarks& marks) {
  Window window;
  bench::NullRun run;
  run.step = std::chrono::nanoseconds(static_cast<std::int64_t>(options.step_ms * 1e6));
  run.streams = options.streams;
  run.warm_steps = options.warm_steps;
  run.steps = options.steps;
  run.vocabulary = plain_tokens(*served->tokenizer);
  const auto opened = [&](Reading reading) {
    if (options.by_thread) window.threads_opened = thread_times();
    window.writes_opened = bench::socket_writes();
    window.opened = reading;
    marks.measuring.store(true, std::memory_order_release);
  };
  const auto closed = [&](Reading reading) {
    marks.measuring.store(false, std::memory_order_release);
    window.closed = reading;
    window.writes_closed = bench::socket_writes();
    if (options.by_thread) window.threads_closed = thread_times();
  };

  http::IoLoop loop;
  http::ListenOptions listen;
  listen.max_connections = static_cast<std::size_t>(options.streams) + 8;
  auto listener = http::Listener::bind(loop, listen);
  if (!listener.ok()) fail(listener.error().problems);
  actors::SystemOptions system_options;
  system_options.max_queue = options.streams;
  std::promise<void> drained;
  auto system = actors::System::start(
      served, system_options,
      [&](actors::HealthWord&) -> model::Result<std::unique_ptr<model::StepExecutor>, model::LoadError> {
        return std::unique_ptr<model::StepExecutor>(
            std::make_unique<bench::NullExecutor>(run, opened, closed));
      },
      [&](int code, const std::string& why) {
        if (code != 0) fail({why});
        drained.set_value();
      });
  http::ServiceParts parts;
  parts.served = served;
  parts.engine = &system->engine();
  parts.health = &system->health();
  parts.metrics_text = [&system] { return system->metrics_text(); };
  (*listener)->start(http::make_service(std::move(parts), {}));
  loop.start();
  while (system->health().state() == actors::ProcessState::starting) ::usleep(1000);
  const int port = (*listener)->port();
  if (::write(port_pipe, &port, sizeof port) != sizeof port) fail({"the client is gone"});
  ::waitpid(client, nullptr, 0);
  system->drain();
  drained.get_future().wait();
  (*listener)->stop();
  loop.stop();
  return window;
}

[[noreturn]] void be_client(const Options& options, int port_pipe, StreamMarks& marks) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int port = 0;
  if (::read(port_pipe, &port, sizeof port) == sizeof port)
    bench::read_streams(port, options.streams, request_of(options), tokens_each(options), marks);
  ::_exit(0);
}

double percentile(const std::vector<float>& sorted, double part) {
  if (sorted.empty()) return 0.0;
  return static_cast<double>(sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))]);
}

void print(const Options& options, const Window& window, const StreamMarks& marks) {
  const double tokens = static_cast<double>(options.streams) * options.steps;
  const double seconds = std::chrono::duration<double>(window.closed.at - window.opened.at).count();
  const double cpu = window.closed.cpu_seconds - window.opened.cpu_seconds;
  const double write = window.writes_closed.cpu_seconds - window.writes_opened.cpu_seconds;
  const auto calls = window.writes_closed.calls - window.writes_opened.calls;
  std::vector<float> gaps(marks.gaps, marks.gaps + marks.num_gaps.load());
  std::sort(gaps.begin(), gaps.end());
  const double step = options.step_ms;
  std::printf(
      "| streams | step ms | tokens/s | CPU us/token | writes | the rest | writes/token | step wall ms | ITL "
      "p50 - step ms | "
      "ITL p99 - step ms |\n|---|---|---|---|---|---|---|---|---|---|\n");
  std::printf("| %d | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", options.streams,
              step, tokens / seconds, 1e6 * cpu / tokens, 1e6 * write / tokens, 1e6 * (cpu - write) / tokens,
              static_cast<double>(calls) / tokens, 1e3 * seconds / options.steps,
              1e3 * percentile(gaps, 0.5) - step, 1e3 * percentile(gaps, 0.99) - step);
  for (const auto& [thread, time] : window.threads_closed) {
    const auto before = window.threads_opened.find(thread);
    const double used = time - (before == window.threads_opened.end() ? 0.0 : before->second);
    if (used > 0.0) std::printf("thread %s: %.2f us/token\n", thread.c_str(), 1e6 * used / tokens);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  http::start_log("warn", "text");
  void* const shared =
      ::mmap(nullptr, sizeof(StreamMarks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int port_pipe[2];
  if (shared == MAP_FAILED || ::pipe(port_pipe) != 0) fail({"no shared memory or no pipe"});
  auto& marks = *new (shared) StreamMarks;
  const auto served = served_model(options);
  const pid_t client = ::fork();  // before any thread
  if (client < 0) fail({"no second process"});
  if (client == 0) be_client(options, port_pipe[0], marks);
  ::close(port_pipe[0]);
  const Window window = serve(options, served, port_pipe[1], client, marks);
  if (marks.complete.load() != options.streams)
    fail({std::to_string(marks.complete.load()) + " of " + std::to_string(options.streams) +
          " streams were complete"});
  if (window.closed.cpu_seconds <= 0.0) fail({"the streams never ran all at once for long enough"});
  print(options, window, marks);
  return 0;
}
