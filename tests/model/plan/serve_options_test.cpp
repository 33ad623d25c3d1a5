#include "model/plan/serve_options.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "model/plan/model_location.h"
#include "model/plan/option_table.h"

namespace model {
namespace {

namespace fs = std::filesystem;

Result<ParsedOptions, OptionsError> parse(std::vector<std::string> arguments,
                                          std::map<std::string, std::string> environment = {},
                                          std::map<std::string, std::string> files = {}) {
  OptionSources sources{std::move(arguments), std::move(environment), {}};
  sources.read_file = [files](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  return parse_options(sources);
}

TEST(ServeOptions, HaveDefaults) {
  const auto parsed = parse({"serve"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->command, Command::serve);
  EXPECT_EQ(parsed->options.model, "");
  EXPECT_EQ(parsed->options.host, "127.0.0.1");
  EXPECT_EQ(parsed->options.port, 8888);
  EXPECT_EQ(parsed->options.max_queue, 512);
  EXPECT_EQ(parsed->options.request_timeout, 300.0);
  EXPECT_FALSE(parsed->options.plan.max_seq_len);
}

TEST(ServeOptions, TakeBothSpellingsOfAValue) {
  const auto parsed = parse({"serve", "folder", "--port=0", "--host", "::1", "--max-num-seqs", "3",
                             "--max-seq-len=64", "--header-timeout=0.5"});
  ASSERT_TRUE(parsed.ok()) << parsed.error().problems.at(0);
  EXPECT_EQ(parsed->options.model, "folder");
  EXPECT_EQ(parsed->options.port, 0);
  EXPECT_EQ(parsed->options.host, "::1");
  EXPECT_EQ(parsed->options.plan.max_batch_size, 3);
  EXPECT_EQ(parsed->options.plan.max_seq_len, 64);
  EXPECT_EQ(parsed->options.header_timeout, 0.5);
}

TEST(ServeOptions, TakeSwitchesBareAndWithEachOfTheirValues) {
  for (const auto& [words, on] :
       std::vector<std::pair<std::vector<std::string>, bool>>{{{"--log-requests"}, true},
                                                              {{"--log-requests", "off"}, false},
                                                              {{"--log-requests=true"}, true},
                                                              {{"--log-requests=0"}, false},
                                                              {{"--log-requests", "1"}, true},
                                                              {{"--log-requests", "model"}, true}}) {
    std::vector<std::string> arguments = {"serve"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const auto parsed = parse(arguments);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->options.log_requests, on) << words.back();
  }
  EXPECT_FALSE(parse({"serve", "--log-requests=maybe"}).ok());
}

TEST(ServeOptions, PreferFlagThenVariableThenFile) {
  const std::map<std::string, std::string> file = {
      {"c.toml", "port = 1\nmax-queue = 1\nmax_seq_len = 1\nlog-requests = true\n"}};
  const auto parsed = parse({"serve", "--config", "c.toml", "--port=3"},
                            {{"ATLAS_PORT", "2"}, {"ATLAS_MAX_QUEUE", "2"}}, file);
  ASSERT_TRUE(parsed.ok()) << parsed.error().problems.at(0);
  EXPECT_EQ(parsed->options.port, 3);
  EXPECT_EQ(parsed->options.max_queue, 2);
  EXPECT_EQ(parsed->options.plan.max_seq_len, 1);
  EXPECT_TRUE(parsed->options.log_requests);
}

TEST(ServeOptions, CollectWhatMayBeRepeatedAndLetTheLastOfTheRestCount) {
  const auto parsed =
      parse({"serve", "--served-model-name=a", "--served-model-name", "b", "--port=1", "--port=2"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->options.served_model_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parsed->options.port, 2);
  const auto listed = parse({"serve", "--config=c"}, {}, {{"c", "served-model-name = [\"x\", \"y\"]\n"}});
  EXPECT_EQ(listed->options.served_model_names, (std::vector<std::string>{"x", "y"}));
}

TEST(ServeOptions, NameTheNearestOfAnUnknownFlag) {
  const auto parsed = parse({"serve", "--max-seqlen=5", "--prot", "1"});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().exit_code, 2);
  EXPECT_NE(parsed.error().problems.at(0).find("--max-seq-len"), std::string::npos);
  EXPECT_NE(parsed.error().problems.at(1).find("--port"), std::string::npos);
}

TEST(ServeOptions, RefuseEveryBadValueAtOnce) {
  const auto parsed = parse({"serve", "--port=65536", "--max-queue=x", "--backend=tpu", "--block-size=17",
                             "--gpu-memory-utilization=nan"});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().exit_code, 2);
  EXPECT_EQ(parsed.error().problems.size(), 5U);
}

TEST(ServeOptions, AreReadByTheLineOfTheirTable) {
  const std::pair<const char*, bool> cases[] = {
      {"--port=-1", false},
      {"--port=65535", true},
      {"--port=", false},
      {"--port=8888x", false},
      {"--max-body-bytes=0", false},
      {"--max-body-bytes=1", true},
      {"--header-timeout=0", false},
      {"--request-timeout=0", true},
      {"--request-timeout=-1", false},
      {"--max-connections=0", false},
      {"--max-queue=0", true},
      {"--block-size=64", true},
      {"--kv-cache-tokens=-1", false},
      {"--kv-cache-tokens=0", true},  // below the plan's floor, which the plan names
      {"--ple-max-tokens=0", true},
      {"--snapshot-slots=64", true},
      {"--snapshot-slots=65", false},
      {"--content-loop-watchdog=false", true},
      {"--max-rollbacks=0", true},
      {"--num-drafts=16", true},
      {"--num-drafts=17", false},
      {"--speculative=off", true},
      {"--max-batch-size=32768", true},
      {"--max-batch-size=32769", false},
      {"--max-prefill-tokens=524289", false},
      {"--threads=0", false},
      {"--dtype=float16", false},
      {"--sampling-defaults=none", true},
      {"--log-format=json", true},
      {"--log-level=loud", false},
      {"--host=", false},
      {"--default-chat-template-kwargs={\"a\":1}", true},
      {"--default-chat-template-kwargs=[]", false},
      {"--drain-timeout=1e9", false},
      {"--enable-prefix-caching=off", true},
      {"--ple-resident=never", true},
      {"--ple-resident=sometimes", false},
  };
  for (const auto& [flag, good] : cases) EXPECT_EQ(parse({"serve", flag}).ok(), good) << flag;
}

/// As operators publish it.
TEST(ServeOptions, ReadTheCommandLineOfTheField) {
  const auto parsed = parse({"serve", "model", "--max-prefill-tokens", "20480", "--content-loop-watchdog",
                             "false", "--request-timeout", "3600"},
                            {{"ATLAS_QSA_MAX_TOKENS", "262144"},
                             {"ATLAS_PLE_CACHE_SLOTS", "524288"},
                             {"ATLAS_PLE_MAX_TOKENS", "20544"}});
  ASSERT_TRUE(parsed.ok()) << parsed.error().problems.at(0);
  EXPECT_TRUE(parsed->warnings.empty());
  EXPECT_EQ(parsed->options.plan.qsa_max_tokens, 262144);
  EXPECT_EQ(parsed->options.plan.ple_cache_slots, 524288);
  EXPECT_EQ(parsed->options.plan.ple_max_tokens, 20544);
  EXPECT_EQ(parsed->options.plan.max_prefill_tokens, 20480);
  EXPECT_EQ(parsed->options.request_timeout, 3600.0);
  EXPECT_FALSE(parsed->options.content_loop_watchdog);
  EXPECT_TRUE(not_in_this_build(parsed->options).empty());
}

TEST(ServeOptions, RefuseWhatThisBuildHasNot) {
  const auto parsed = parse({"serve", "--content-loop-watchdog", "--speculative", "on", "--num-drafts=3"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(not_in_this_build(parsed->options),
            (std::vector<std::string>{"--content-loop-watchdog on: not in this build; off is needed",
                                      "--speculative on: not in this build; off is needed"}));
  EXPECT_TRUE(parsed->options.plan.rolls_back);
  EXPECT_EQ(parsed->options.plan.num_drafts, 3);
  EXPECT_EQ(parse({"serve", "--speculative"})->options.plan.num_drafts, 1);
}

TEST(ServeOptions, WarnOfOptionsThatChangeNothing) {
  const auto parsed = parse({"serve", "--enable-prefix-caching", "--prefix-cache-mb=64", "--max-rollbacks=2",
                             "--snapshot-slots=4", "--num-drafts=1"});
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->warnings.size(), 5U);
  for (const char* flag : {"--enable-prefix-caching", "--prefix-cache-mb 64", "--max-rollbacks 2",
                           "--snapshot-slots 4", "--num-drafts 1"}) {
    EXPECT_TRUE(std::any_of(parsed->warnings.begin(), parsed->warnings.end(), [&](const auto& warning) {
      return warning.find(flag) == 0;
    })) << flag;
  }
  EXPECT_EQ(parsed->options.plan.num_drafts, 0);
  EXPECT_TRUE(parse({"serve", "--enable-prefix-caching=off", "--prefix-cache-mb=0", "--max-rollbacks=0",
                     "--snapshot-slots=0", "--num-drafts=0"})
                  ->warnings.empty());
}

TEST(ServeOptions, WarnOfUnknownVariablesAndNameTheNearest) {
  const auto parsed = parse({"serve"}, {{"ATLAS_PROT", "1"}, {"PATH", "x"}, {"ATLAS_CACHE", "x"}});
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->warnings.size(), 1U);
  EXPECT_NE(parsed->warnings[0].find("ATLAS_PORT"), std::string::npos);
}

TEST(ServeOptions, ReadTheFaultDrillAndWarnThatItIsOn) {
  const auto parsed = parse({"serve"}, {{"ATLAS_TEST_FAULT", "step_error@step=2"}});
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->options.faults.size(), 1U);
  EXPECT_EQ(parsed->options.faults[0].kind, FaultKind::step_error);
  EXPECT_EQ(parsed->options.faults[0].step, 2U);
  EXPECT_EQ(parsed->warnings,
            std::vector<std::string>{"fault injection is on: ATLAS_TEST_FAULT=step_error@step=2"});
  EXPECT_TRUE(parse({"serve"}, {{"ATLAS_TEST_FAULT", ""}})->warnings.empty());
}

TEST(ServeOptions, RefuseADrillThatCannotBeDoneBesideEverythingElse) {
  const auto parsed = parse({"serve", "--port=x"}, {{"ATLAS_TEST_FAULT", "snapshot_fail,sticky@step=x"}});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().exit_code, 1);
  EXPECT_EQ(parsed.error().problems.size(), 3U);
}

TEST(ServeOptions, AnAliasIsAVariableAndAKeyTooAndSaysNothingTwice) {
  EXPECT_EQ(parse({"serve"}, {{"ATLAS_MAX_NUM_SEQS", "3"}})->options.plan.max_batch_size, 3);
  EXPECT_EQ(parse({"serve", "--max-num-seqs=4"}, {{"ATLAS_MAX_NUM_SEQS", "3"}})->options.plan.max_batch_size,
            4);
  const auto variables = parse({"serve"}, {{"ATLAS_MAX_NUM_SEQS", "3"}, {"ATLAS_MAX_BATCH_SIZE", "5"}});
  ASSERT_FALSE(variables.ok());
  EXPECT_EQ(variables.error().problems,
            std::vector<std::string>{"ATLAS_MAX_NUM_SEQS: ATLAS_MAX_BATCH_SIZE sets the same"});
  const auto keys =
      parse({"serve", "--config=c"}, {}, {{"c", "max-num-seqs = 3\nmax-batch-size = 5\nmax_seq_len = 64\n"}});
  ASSERT_FALSE(keys.ok());
  EXPECT_EQ(keys.error().problems, std::vector<std::string>{"c:1: max-num-seqs: c:2 sets the same"});
}

TEST(ServeOptions, SayWhereInAFileSomethingIsWrong) {
  const auto unknown = parse({"serve", "--config=c"}, {}, {{"c", "port = 1\nmax-seqlen = 5\n"}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().exit_code, 1);
  EXPECT_NE(unknown.error().problems.at(0).find("c:2: unknown key max-seqlen; did you mean max-seq-len"),
            std::string::npos);
  EXPECT_FALSE(parse({"serve", "--config=c"}, {}, {{"c", "port = \n"}}).ok());
  EXPECT_FALSE(parse({"serve", "--config=c"}, {}, {{"c", "[port]\nx = 1\n"}}).ok());
  EXPECT_EQ(parse({"serve", "--config=none"}).error().exit_code, 1);
  EXPECT_EQ(parse({"serve"}, {{"ATLAS_PORT", "x"}}).error().exit_code, 1);
}

TEST(ServeOptions, ReadKeysFromAFileAndNeverShowThem) {
  const auto parsed = parse({"serve", "--api-key-file=k", "--api-key=secret1", "--print-config"}, {},
                            {{"k", "one\r\n\ntwo\n"}});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->options.api_keys, (std::vector<std::string>{"secret1", "one", "two"}));
  EXPECT_EQ(parsed->command, Command::print_config);
  EXPECT_EQ(parsed->text.find("secret1"), std::string::npos);
  EXPECT_NE(parsed->text.find("api-key = ***  (--api-key)"), std::string::npos);
  EXPECT_NE(parsed->text.find("port = 8888  (default)"), std::string::npos);
  EXPECT_FALSE(parse({"serve", "--api-key-file=k"}, {}, {{"k", "\n"}}).ok());
  EXPECT_FALSE(parse({"serve", "--cors-origin=http://a\r\nX: y"}, {}, {}).ok());
}

TEST(ServeOptions, KnowTheirCommands) {
  EXPECT_EQ(parse({"plan", "m"})->command, Command::plan);
  EXPECT_EQ(parse({"--version"})->command, Command::version);
  EXPECT_EQ(parse({"--help"})->command, Command::help);
  EXPECT_EQ(parse({})->command, Command::help);
  EXPECT_EQ(parse({"tokenize", "m", "--json"})->command, Command::tokenize);
  EXPECT_EQ(parse({"tokenize", "m"}).error().exit_code, 2);
  EXPECT_NE(parse({"serv"}).error().problems.at(0).find("serve"), std::string::npos);
  EXPECT_FALSE(parse({"serve", "a", "b"}).ok());
  EXPECT_FALSE(parse({"serve", "--port"}).ok());
}

TEST(ServeOptions, ShowEveryFlagInTheHelpOnce) {
  const auto help = parse({"--help"});
  std::set<std::string> names;
  for (const Option& option : option_table()) {
    EXPECT_NE(help->text.find("--" + option.name + ' '), std::string::npos) << option.name;
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
  }
}

TEST(ServeOptions, FindTheHubCache) {
  EXPECT_EQ(parse({"serve"}, {{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/h"}})->options.hub_cache, "/c");
  EXPECT_EQ(parse({"serve"}, {{"HF_HOME", "/h"}})->options.hub_cache, "/h/hub");
  EXPECT_EQ(parse({"serve"}, {{"HOME", "/u"}})->options.hub_cache, "/u/.cache/huggingface/hub");
}

TEST(ServeOptions, OfEveryShippedFileAreKnown) {
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(ATLAS_MODELS).parent_path() / "serve")) {
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto parsed = parse({"serve", "--config=f"}, {}, {{"f", text}});
    EXPECT_TRUE(parsed.ok()) << entry.path() << parsed.error().problems.at(0);
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

TEST(ModelLocation, FindsFoldersIdsAndTheEmbeddedModel) {
  const fs::path root = fs::temp_directory_path() / ("atlas-location-" + std::to_string(::getpid()));
  const fs::path snapshot = root / "hub" / "models--org--name" / "snapshots" / "abc";
  fs::create_directories(snapshot);
  fs::create_directories(root / "hub" / "models--org--name" / "refs");
  std::ofstream(snapshot / "config.json") << "{}";
  std::ofstream(root / "hub" / "models--org--name" / "refs" / "main") << "abc";
  const std::string hub = (root / "hub").string();

  EXPECT_EQ(locate_model(snapshot.string() + "/", hub, {})->name, "abc");
  EXPECT_EQ(locate_model("org/name", hub, {})->folder, snapshot);
  EXPECT_EQ(locate_model("org/name", hub, {})->name, "org/name");
  EXPECT_EQ(locate_model("", hub, {root / "nothing", snapshot})->folder, snapshot);
  for (const char* wrong : {"org/other", "../name", "name", "org/../../x", "/nothing/at/all"})
    EXPECT_FALSE(locate_model(wrong, hub, {}).ok()) << wrong;
  EXPECT_FALSE(locate_model("", hub, {}).ok());
  EXPECT_FALSE(locate_model((snapshot / "config.json").string(), hub, {}).ok());
  fs::remove_all(root);
}

}  // namespace
}  // namespace model
