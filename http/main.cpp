#include <csignal>
#include <cstdio>
#include <filesystem>

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

}  // namespace

int main(int argc, char** argv, char** environment) {
  std::signal(SIGPIPE, SIG_IGN);
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
      return http::run_plan(parsed->options, this_build());
    case model::Command::inspect:
      return http::run_inspect(parsed->options, this_build());
    case model::Command::tokenize:
      return http::run_tokenize(parsed->options.model);
    case model::Command::version:
      std::printf("atlas %s (%s)\n", ATLAS_VERSION, ATLAS_GIT_REVISION);
      return 0;
    case model::Command::help:
    case model::Command::print_config:
      std::fputs(parsed->text.c_str(), stdout);
      return 0;
  }
  return 0;
}
