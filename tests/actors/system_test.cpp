#include "actors/system.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/actors/fake_device.h"
#include "tests/actors/fakes.h"

namespace actors {
namespace {

using namespace std::chrono_literals;
using testing::ExecutorControl;
using testing::FakeDevice;
using testing::Heard;
using testing::text_request;
using testing::token_request;

/// A whole actor tree on real threads with a fake device. Waits are bounded by futures.
class Server {
 public:
  struct Settings {
    SystemOptions options;
    std::shared_ptr<ServedModel> served = testing::small_model();
    FakeDevice::Sampler sampler = testing::next_letter;
    std::optional<model::LoadError> load_error;
    bool hold_load = false;
  };

  Server() : Server(Settings()) {}
  explicit Server(Settings settings) : control_(std::make_shared<ExecutorControl>()) {
    const auto block_size = settings.served->plan.block_size;
    if (!settings.hold_load) control_->load.open();
    system_ = System::start(
        settings.served, settings.options,
        [control = control_, block_size, settings](
            HealthWord& word) -> model::Result<std::unique_ptr<model::StepExecutor>, model::LoadError> {
          word.set_stage("loading weights");
          word.set_progress(0.5);
          if (settings.hold_load) control->load.pass();
          if (settings.load_error) return *settings.load_error;
          return std::unique_ptr<model::StepExecutor>(
              std::make_unique<testing::FakeExecutor>(control, block_size, settings.sampler));
        },
        [this](int code, std::string why) {
          exit_.set_value({code, std::move(why)});
        });
  }
  ~Server() {
    control_->load.open();
    control_->step.open();
    system_.reset();
    EXPECT_EQ(control_->breaches, std::vector<std::string>{});
  }

  std::shared_ptr<Heard> submit(GenerateRequest request) {
    auto heard = std::make_shared<Heard>();
    last_ticket = system_->engine().submit(std::make_shared<const GenerateRequest>(std::move(request)),
                                           std::make_unique<testing::RecordingSink>(heard));
    return heard;
  }
  Heard::Copy serve(GenerateRequest request) {
    auto heard = submit(std::move(request));
    EXPECT_TRUE(heard->await_end());
    return heard->copy();
  }
  /// Bounded: gives up after 20 s.
  template <class Condition>
  bool await(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool await_ready() { return await_state(ProcessState::ready); }
  bool await_state(ProcessState state) {
    return await([&] { return system_->health().state() == state; });
  }
  bool await_metric(const std::string& line) {
    return await([&] { return system_->metrics_text().find(line + "\n") != std::string::npos; });
  }
  std::pair<int, std::string> exit() {
    if (exited_.wait_for(20s) != std::future_status::ready) return {-1, "no exit"};
    return exited_.get();
  }

  System& system() { return *system_; }
  ExecutorControl& control() { return *control_; }
  Engine::Ticket last_ticket = 0;

 private:
  std::shared_ptr<ExecutorControl> control_;
  std::promise<std::pair<int, std::string>> exit_;
  std::shared_future<std::pair<int, std::string>> exited_{exit_.get_future()};
  std::unique_ptr<System> system_;
};

TEST(System, AStreamOfTokensReachesTheSinkAsText) {
  Server server;
  ASSERT_TRUE(server.await_ready());
  const auto heard = server.serve(text_request("a", 5));
  EXPECT_EQ(heard.choices.at(0).text, "bcdef");
  ASSERT_EQ(heard.choices.at(0).ends.size(), 1U);
  EXPECT_EQ(heard.choices.at(0).ends[0].reason, model::FinishReason::length);
  EXPECT_EQ(heard.calls.front(), "start");
  EXPECT_EQ(heard.calls.back(), "finish");
  EXPECT_EQ(heard.usage->prompt_tokens, 1);
  EXPECT_EQ(heard.usage->completion_tokens, 5);
}

}  // namespace
}  // namespace actors
