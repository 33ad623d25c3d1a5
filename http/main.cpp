#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "http/serve_command.h"
#include "model/plan/serve_options.h"
#include "model/plan/text_file.h"

namespace {

namespace fs = std::filesystem;

model::OptionSources sources_of(int argc, char** argv, char** environment) {
  model::OptionSources sources;
  sources.arguments.assign(argv + (argc > 0 ? 1 : 0), argv + argc);
  for (char** entry = environment; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) sources.environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  sources.read_file = model::read_text_file;
  return sources;
}

/// The embedded model: beside the binary, in the tree that the binary was built in, or where it was when that
/// was configured.
http::Build this_build() {
  http::Build build{ATLAS_VERSION, ATLAS_GIT_REVISION, {}};
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  const fs::path model = fs::path("conf") / "models" / "atlas-mini";
  if (!error)
    build.embedded_models = {binary.parent_path() / model, binary.parent_path() / ".." / ".." / model};
  build.embedded_models.push_back(fs::path(ATLAS_MODELS) / "atlas-mini");
  return build;
}

/// A mapped file became shorter while it was read, which only loading does: a startup error. Anything else
/// under this signal (memory that failed) ends the process as it always did.
void on_bus_error(int number, siginfo_t* info, void*) {
  if (info->si_code == BUS_ADRERR) {
    constexpr std::string_view kLine = "atlas: a model file became shorter while it was read\n";
    (void)!::write(STDERR_FILENO, kLine.data(), kLine.size());
    std::_Exit(1);
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void set_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

/// What was printed has to have arrived.
int checked(int code) {
  if (code != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return code;
  std::fprintf(stderr, "atlas: standard output: %s\n", std::generic_category().message(errno).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv, char** environment) {
  set_signals();
  const auto parsed = model::parse_options(sources_of(argc, argv, environment));
  if (!parsed.ok()) {
    for (const std::string& problem : parsed.error().problems)
      std::fprintf(stderr, "atlas: %s\n", problem.c_str());
    return parsed.error().exit_code;
  }
  for (const std::string& warning : parsed->warnings)
    std::fprintf(stderr, "atlas: warning: %s\n", warning.c_str());
  switch (parsed->command) {
    case model::Command::serve:
      return http::run_serve(parsed->options, this_build());
    case model::Command::plan:
      return checked(http::run_plan(parsed->options, this_build()));
    case model::Command::inspect:
      return checked(http::run_inspect(parsed->options, this_build()));
    case model::Command::tokenize:
      return checked(http::run_tokenize(parsed->options.model));
    case model::Command::version:
      std::printf("atlas %s (%s)\n", ATLAS_VERSION, ATLAS_GIT_REVISION);
      return checked(0);
    case model::Command::help:
    case model::Command::print_config:
      std::fputs(parsed->text.c_str(), stdout);
      return checked(0);
  }
  return 0;
}
