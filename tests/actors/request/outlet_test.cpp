#include "actors/request/outlet.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/actors/fakes.h"

namespace actors {
namespace {

using testing::Heard;
using testing::RecordingSink;
using Calls = std::vector<std::string>;

struct Told {
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>("m");
  Outlet outlet{std::make_shared<RecordingSink>(heard), metrics, Outlet::Clock::now()};

  Calls calls() const { return heard->copy().calls; }
  std::string text(std::int32_t index) const { return heard->copy().choices.at(index).text; }
  bool metric(const std::string& line) const {
    return metrics->text().find(line + "\n") != std::string::npos;
  }
};

ChoiceDelta words(std::int32_t index, std::string text, std::size_t tokens = 1) {
  ChoiceDelta delta;
  delta.index = index;
  delta.text = std::move(text);
  delta.tokens.resize(tokens);
  return delta;
}
ChoiceEnd end_of(std::int32_t index) {
  ChoiceEnd end;
  end.index = index;
  return end;
}

TEST(Outlet, HoldsTextsUntilTheStart) {
  Told told;
  told.outlet.delta(words(1, "early"));
  told.outlet.delta(words(0, "too"));
  EXPECT_TRUE(told.calls().empty());
  told.outlet.start({});
  told.outlet.delta(words(1, " late"));
  EXPECT_EQ(told.calls(), (Calls{"start", "delta 1", "delta 0", "delta 1"}));
  EXPECT_EQ(told.text(1), "early late");
}

TEST(Outlet, SaysNothingOfAChoiceAfterItsEnd) {
  Told told;
  told.outlet.start({});
  told.outlet.end_choice(end_of(0));
  told.outlet.delta(words(0, "late"));
  told.outlet.delta(words(1, "other"));
  EXPECT_EQ(told.calls(), (Calls{"start", "end 0", "delta 1"}));
  EXPECT_TRUE(told.metric(R"(vllm:generation_tokens_total{model_name="m"} 1)"));
}

TEST(Outlet, SaysNothingOnceItIsClosed) {
  Told told;
  told.outlet.delta(words(0, "held"));
  told.outlet.close();
  told.outlet.close();
  told.outlet.start({});
  told.outlet.delta(words(0, "late"));
  told.outlet.end_choice(end_of(0));
  told.outlet.engine_error(model::StepError{});
  told.outlet.finish({});
  told.outlet.fail({});
  EXPECT_TRUE(told.calls().empty());
}

TEST(Outlet, GivesUpItsSinkWhenItIsClosed) {
  auto sink = std::make_shared<RecordingSink>(std::make_shared<Heard>());
  const std::weak_ptr<ResponseSink> weak = sink;
  Outlet outlet(std::move(sink), std::make_shared<Metrics>("m"), Outlet::Clock::now());
  outlet.close();
  EXPECT_TRUE(weak.expired());
}

TEST(Outlet, KeepsTheOrderOfEachOfManyChoicesThatSpeakAtOnce) {
  Told told;
  told.outlet.start({});
  std::vector<std::thread> choices;
  for (std::int32_t index = 0; index < 4; ++index) {
    choices.emplace_back([&told, index] {
      for (int i = 0; i < 200; ++i) told.outlet.delta(words(index, std::to_string(i) + ' '));
    });
  }
  for (auto& choice : choices) choice.join();
  std::string all;
  for (int i = 0; i < 200; ++i) all += std::to_string(i) + ' ';
  for (std::int32_t index = 0; index < 4; ++index) EXPECT_EQ(told.text(index), all);
}

TEST(Outlet, MeasuresWhatTheClientSees) {
  Told told;
  told.outlet.delta(words(0, "", 0));
  told.outlet.delta(words(0, "a", 2));
  told.outlet.start({});
  told.outlet.delta(words(0, "b", 3));
  told.outlet.delta(words(1, "c"));
  EXPECT_TRUE(told.metric(R"(vllm:generation_tokens_total{model_name="m"} 6)"));
  EXPECT_TRUE(told.metric(R"(vllm:time_to_first_token_seconds_count{model_name="m"} 1)"));
  EXPECT_TRUE(told.metric(R"(vllm:inter_token_latency_seconds_count{model_name="m"} 3)"));
}

}  // namespace
}  // namespace actors
