#include "model/plan/serve_options.h"

#include <simdjson.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "model/plan/config_file.h"
#include "model/plan/option_table.h"

namespace model {
namespace {

constexpr std::array<std::string_view, 5> kCommands = {"serve", "plan", "inspect", "tokenize", "help"};

constexpr const char* kConfigVariable = "ATLAS_CONFIG";

constexpr const char* kFaultVariable = "ATLAS_TEST_FAULT";
constexpr const char* kScriptVariable = "ATLAS_TEST_SCRIPT";

/// Variables of the scripts and tests around the binary: not options.
constexpr std::array<std::string_view, 6> kForeignVariables = {
    "ATLAS_CACHE", "ATLAS_BINARY", "ATLAS_JOBS", "ATLAS_DEVICE_MODULE", "ATLAS_FIXTURES", "ATLAS_MODELS"};

bool is_toggle_word(const std::string& word) {
  return word == "on" || word == "off" || word == "true" || word == "false" || word == "1" || word == "0";
}

std::vector<std::string> known_flags() {
  std::vector<std::string> names = {"--config", "--print-config", "--help", "--version"};
  for (const Option& option : option_table()) {
    names.push_back("--" + option.name);
    if (!option.alias.empty()) names.push_back("--" + option.alias);
  }
  return names;
}

/// What was set, with the best source of each: a later, weaker source leaves it alone.
struct Settings {
  struct Set {
    std::string value;
    std::string source;
  };
  std::map<std::string, std::vector<Set>> by_option;

  bool has(const std::string& name) const { return by_option.count(name) > 0; }
};

struct CommandLine {
  Command command = Command::serve;
  bool print_config = false;
  bool json = false;
  std::string model;
  std::optional<std::string> config_file;
  Settings settings;
  std::vector<std::string> problems;
};

void read_flag(const std::vector<std::string>& arguments, std::size_t& at, CommandLine& line) {
  const std::string& word = arguments[at];
  const auto equals = word.find('=');
  const std::string flag = word.substr(0, equals);
  std::optional<std::string> value;
  if (equals != std::string::npos) value = word.substr(equals + 1);
  if (flag == "--help" || flag == "-h") {
    line.command = Command::help;
    return;
  }
  if (flag == "--version") {
    line.command = Command::version;
    return;
  }
  if (flag == "--print-config") {
    line.print_config = true;
    return;
  }
  if (flag == "--json" && line.command == Command::tokenize) {
    line.json = true;
    return;
  }
  const auto next = [&]() -> std::optional<std::string> {
    if (value) return value;
    if (at + 1 >= arguments.size()) return std::nullopt;
    return arguments[++at];
  };
  const auto needs_value = [&] { line.problems.push_back(flag + " needs a value"); };
  if (flag == "--config") {
    line.config_file = next();
    if (!line.config_file) needs_value();
    return;
  }
  const Option* option = flag.rfind("--", 0) == 0 ? find_option(flag.substr(2)) : nullptr;
  if (option == nullptr) {
    line.problems.push_back("unknown flag " + flag + "; did you mean " + nearest(flag, known_flags()) + '?');
    return;
  }
  if (option->kind == Option::Kind::toggle && !value) {
    const bool follows = at + 1 < arguments.size() && is_toggle_word(arguments[at + 1]);
    value = follows ? arguments[++at] : "on";
  } else {
    value = next();
  }
  if (!value) return needs_value();
  auto& set = line.settings.by_option[option->name];
  if (option->kind != Option::Kind::list) set.clear();  // the last one counts
  set.push_back({*value, flag});
}

CommandLine read_arguments(const std::vector<std::string>& arguments) {
  CommandLine line;
  std::size_t at = 0;
  if (!arguments.empty() && arguments[0].rfind('-', 0) != 0) {
    const std::string& word = arguments[0];
    if (word == "plan") {
      line.command = Command::plan;
    } else if (word == "inspect") {
      line.command = Command::inspect;
    } else if (word == "tokenize") {
      line.command = Command::tokenize;
    } else if (word == "help") {
      line.command = Command::help;
    } else if (word != "serve") {
      line.problems.push_back("unknown command " + word + "; did you mean " +
                              nearest(word, {kCommands.begin(), kCommands.end()}) + '?');
    }
    at = 1;
  } else if (arguments.empty()) {
    line.command = Command::help;
  }
  bool only_words = false;
  for (; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    if (!only_words && word == "--") {
      only_words = true;
    } else if (!only_words && word.size() > 1 && word[0] == '-') {
      read_flag(arguments, at, line);
    } else if (line.model.empty()) {
      line.model = word;
    } else {
      line.problems.push_back("one MODEL is served, not " + line.model + " and " + word);
    }
  }
  if (line.command == Command::tokenize && !line.json)
    line.problems.push_back("atlas tokenize FOLDER needs --json");
  return line;
}

void read_environment(const std::map<std::string, std::string>& environment, Settings& settings,
                      std::vector<std::string>& warnings, std::vector<std::string>& problems) {
  std::map<std::string, const Option*> known;
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    for (const std::string& variable : option.variables()) {
      known.emplace(variable, &option);
      names.push_back(variable);
    }
  }
  Settings here;
  for (const auto& [name, value] : environment) {
    if (name.rfind("ATLAS_", 0) != 0) continue;
    if (const auto found = known.find(name); found != known.end()) {
      auto& set = here.by_option[found->second->name];
      if (!set.empty()) problems.push_back(name + ": " + set.front().source + " sets the same");
      set = {{value, name}};
    } else if (name == kConfigVariable || name == kFaultVariable) {
      continue;  // read elsewhere: what the first names is weaker than the variables
    } else if (name == kScriptVariable) {
      warnings.push_back("a script of what to say is set and this build does not read it");
    } else if (std::find(kForeignVariables.begin(), kForeignVariables.end(), name) ==
               kForeignVariables.end()) {
      warnings.push_back("unknown variable " + name + "; did you mean " + nearest(name, names) + '?');
    }
  }
  settings.by_option.merge(here.by_option);
}

void read_config(const std::string& path, const OptionSources& sources, Settings& settings,
                 std::vector<std::string>& problems) {
  const auto contents = sources.read_file ? sources.read_file(path) : std::nullopt;
  if (!contents) {
    problems.push_back("--config " + path + ": cannot be read");
    return;
  }
  auto entries = parse_config_file(*contents, path);
  if (!entries.ok()) {
    problems.insert(problems.end(), entries.error().problems.begin(), entries.error().problems.end());
    return;
  }
  std::vector<std::string> known;
  for (const Option& option : option_table()) known.push_back(option.name);
  Settings from_file;
  for (const ConfigEntry& entry : *entries) {
    const Option* option = find_option(entry.key);
    if (option == nullptr) {
      problems.push_back(path + ':' + std::to_string(entry.line) + ": unknown key " + entry.key +
                         "; did you mean " + nearest(entry.key, known) + '?');
    } else if (!settings.has(option->name)) {
      auto& set = from_file.by_option[option->name];
      const std::string origin = path + ':' + std::to_string(entry.line);
      if (option->kind != Option::Kind::list && !set.empty())
        problems.push_back(origin + ": " + entry.key + ": " + set.front().source + " sets the same");
      set.push_back({entry.value, origin});
    }
  }
  settings.by_option.merge(from_file.by_option);
}

/// The drill of ATLAS_TEST_FAULT: the test interface, hence no flag.
void read_faults(const std::map<std::string, std::string>& environment, ParsedOptions& parsed,
                 std::vector<std::string>& problems) {
  const auto found = environment.find(kFaultVariable);
  if (found == environment.end()) return;
  auto orders = parse_fault_orders(found->second);
  if (!orders.ok()) {
    problems.insert(problems.end(), orders.error().problems.begin(), orders.error().problems.end());
    return;
  }
  parsed.options.faults = *std::move(orders);
  if (!parsed.options.faults.empty())
    parsed.warnings.push_back("fault injection is on: " + found->first + '=' + found->second);
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::vector<std::string> topics() {
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    if (names.empty() || names.back() != option.topic) names.push_back(option.topic);
  }
  names.emplace_back("Drills");
  return names;
}

/// The options of one topic, or of all.
std::string option_help(std::string_view wanted) {
  std::string out;
  std::string topic;
  for (const Option& option : option_table()) {
    if (!wanted.empty() && !same_word(option.topic, wanted)) continue;
    if (option.topic != topic) out += (out.empty() ? "" : "\n") + (topic = option.topic) + '\n';
    std::string flag = "  --" + option.name + ' ' + option.shape;
    if (flag.size() < 44) flag.resize(44, ' ');
    out += flag + ' ' + option.help + " [" + option.standard + "]\n";
    if (!option.alias.empty()) out += "      also --" + option.alias + '\n';
  }
  return out;
}

std::string help_text() {
  const std::string intro =
      "atlas serve [MODEL] [flags]     serve a model over HTTP\n"
      "atlas plan [MODEL] [flags]      print the derived capacities, load nothing\n"
      "atlas inspect [MODEL]           tensors, types, tokenizer and template\n"
      "atlas tokenize FOLDER --json    one JSON request a line in, one answer a line out\n"
      "atlas --version | --help\n\n"
      "MODEL is a folder with config.json, a .gguf file, or a hub id found in the local hub cache; without "
      "it "
      "the embedded model.\n"
      "Each flag may also be a variable (ATLAS_MAX_SEQ_LEN) or a key of --config FILE.toml (max-seq-len); "
      "flags win, then variables.\n"
      "--print-config shows every value and where it came from; atlas help TOPIC shows one group of "
      "flags.\n\n";
  return intro + option_help("") + "\nDrills\n" + fault_help();
}

std::string config_text(const Settings& settings) {
  std::string out;
  for (const Option& option : option_table()) {
    const auto found = settings.by_option.find(option.name);
    if (found == settings.by_option.end()) {
      out += option.name + " = " + option.standard + "  (default)\n";
      continue;
    }
    for (const auto& set : found->second)
      out += option.name + " = " + (option.secret ? "***" : set.value) + "  (" + set.source + ")\n";
  }
  return out;
}

std::string hub_cache(const std::map<std::string, std::string>& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  if (const auto cache = value("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const auto home = value("HF_HOME"); !home.empty()) return home + "/hub";
  if (const auto home = value("HOME"); !home.empty()) return home + "/.cache/huggingface/hub";
  return "";
}

/// Options that are taken and change nothing, because of another option or because what they shape is not
/// there yet: told, so that nobody counts on them.
std::vector<std::string> idle_options(const ServeOptions& options) {
  std::vector<std::string> idle;
  const auto add = [&idle](const std::string& option, const char* why) {
    idle.push_back(option + ": " + why);
  };
  const auto add_number = [&](const char* flag, std::int64_t value, const char* why) {
    add(std::string(flag) + ' ' + std::to_string(value), why);
  };
  if (options.enable_prefix_caching.value_or(false))
    add("--enable-prefix-caching", "no prefix cache is kept yet");
  if (options.prefix_cache_mb.value_or(0) > 0)
    add_number("--prefix-cache-mb", *options.prefix_cache_mb,
               "no prefix cache is kept yet, nothing is reserved");
  if (!options.content_loop_watchdog) {
    constexpr const char* kWhy = "nothing rolls back while --content-loop-watchdog is off";
    if (options.max_rollbacks.value_or(0) > 0) add_number("--max-rollbacks", *options.max_rollbacks, kWhy);
    if (options.snapshot_slots.value_or(0) > 0) add_number("--snapshot-slots", *options.snapshot_slots, kWhy);
  }
  if (!options.speculative && options.num_drafts.value_or(0) > 0)
    add_number("--num-drafts", *options.num_drafts, "nothing is drafted while --speculative is off");
  return idle;
}

/// What several options say together of the plan.
void join_plan_options(ServeOptions& options) {
  options.plan.rolls_back = options.content_loop_watchdog;
  options.plan.snapshot_slots = options.snapshot_slots.value_or(options.plan.snapshot_slots);
  options.plan.num_drafts = options.speculative ? options.num_drafts.value_or(1) : 0;
}

bool is_json_object(const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  return parser.parse(text).get(object) == simdjson::SUCCESS;
}

}  // namespace

Result<ParsedOptions, OptionsError> parse_options(const OptionSources& sources) {
  CommandLine line = read_arguments(sources.arguments);
  ParsedOptions parsed;
  parsed.command = line.command;
  if (!line.problems.empty()) return OptionsError{kExitUsage, std::move(line.problems)};
  if (line.command == Command::version) return parsed;
  if (line.command == Command::help) {
    // Behind another command the word is a MODEL.
    const bool has_topic = !line.model.empty() && sources.arguments[0].find("help") != std::string::npos;
    parsed.text = !has_topic                        ? help_text()
                  : same_word(line.model, "drills") ? fault_help()
                                                    : option_help(line.model);
    if (!parsed.text.empty()) return parsed;
    return OptionsError{
        2, {"no topic " + line.model + " in the help; did you mean " + nearest(line.model, topics()) + '?'}};
  }
  Settings settings = std::move(line.settings);
  std::vector<std::string> problems;
  const bool wrong_flags_only = settings.by_option.size() > 0;
  read_environment(sources.environment, settings, parsed.warnings, problems);
  if (const auto named = sources.environment.find(kConfigVariable);
      named != sources.environment.end() && !line.config_file)
    line.config_file = named->second;
  if (line.config_file) read_config(*line.config_file, sources, settings, problems);
  read_faults(sources.environment, parsed, problems);

  int exit_code = problems.empty() && wrong_flags_only ? kExitUsage : kExitStart;
  ServeOptions& options = parsed.options;
  options.model = line.model;
  options.hub_cache = hub_cache(sources.environment);
  for (const Option& option : option_table()) {
    const auto found = settings.by_option.find(option.name);
    if (found == settings.by_option.end()) continue;
    for (const auto& set : found->second) {
      const auto problem = option.set(options, set.value);
      if (!problem) continue;
      problems.push_back(set.source + (option.secret ? "" : ' ' + set.value) + ": " + *problem);
      if (set.source.rfind("--", 0) != 0) exit_code = 1;
    }
  }
  if (!options.default_chat_template_kwargs.empty() &&
      !is_json_object(options.default_chat_template_kwargs)) {
    problems.push_back("default-chat-template-kwargs: has to be a JSON object");
  }
  if (std::any_of(options.cors_origin.begin(), options.cors_origin.end(),
                  [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; })) {
    problems.push_back("cors-origin: an origin holds no blank and no control character");
  }
  if (!options.api_key_file.empty()) {
    const auto keys = sources.read_file ? sources.read_file(options.api_key_file) : std::nullopt;
    if (!keys) {
      exit_code = 1;
      problems.push_back("api-key-file " + options.api_key_file + ": cannot be read");
    }
    for (std::size_t at = 0; keys && at < keys->size();) {
      const auto end = std::min(keys->find_first_of("\r\n", at), keys->size());
      if (end > at) options.api_keys.push_back(keys->substr(at, end - at));
      at = end + 1;
    }
    if (keys && options.api_keys.empty())
      problems.push_back("api-key-file " + options.api_key_file + ": holds no key");
  }
  if (!problems.empty()) return OptionsError{exit_code, std::move(problems)};
  join_plan_options(options);
  for (std::string& idle : idle_options(options)) parsed.warnings.push_back(std::move(idle));
  if (line.print_config) {
    parsed.command = Command::print_config;
    parsed.text = config_text(settings);
  }
  return parsed;
}

std::vector<std::string> not_in_this_build(const ServeOptions& options) {
  std::vector<std::string> missing;
  const auto refuse = [&missing](const std::string& flag) {
    missing.push_back(flag + " on: not in this build; off is needed");
  };
  if (options.content_loop_watchdog) refuse("--content-loop-watchdog");
  if (options.speculative) refuse("--speculative");
  return missing;
}

}  // namespace model
