#include "http/io_loop_worker.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace http {
namespace {

using Job = Worker::Job;

TEST(Worker, RunsJobsInTheOrderInWhichTheyCame) {
  Worker worker;
  std::string ran;
  std::promise<void> done;
  const auto first = std::make_shared<Job>([&] { ran += "a"; });
  const auto second = std::make_shared<Job>([&] { ran += "b"; });
  const auto last = std::make_shared<Job>([&] { done.set_value(); });
  for (const auto& job : {first, second, last}) worker.post(job);
  worker.start();
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(ran, "ab");
}

TEST(Worker, FreesWhatAJobHeldAndSkipsOneThatWasDropped) {
  Worker worker;
  auto held = std::make_shared<int>(1);
  std::promise<void> done;
  const auto first = std::make_shared<Job>([held] { EXPECT_EQ(*held, 1); });
  auto dropped = std::make_shared<Job>([held] { *held = 2; });
  const auto last = std::make_shared<Job>([&] { done.set_value(); });
  for (const auto& job : {first, dropped, last}) worker.post(job);
  dropped.reset();
  worker.start();
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(*held, 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Worker, EndsTheRunningJobBeforeItStopsAndBeginsNoneAfter) {
  std::promise<void> begun;
  std::promise<void> may_end;
  bool ended = false;
  bool began_another = false;
  const auto running = std::make_shared<Job>([&] {
    begun.set_value();
    may_end.get_future().wait();
    ended = true;
  });
  const auto late = std::make_shared<Job>([&] { began_another = true; });
  Worker worker;
  worker.start();
  worker.post(running);
  begun.get_future().wait();
  may_end.set_value();
  worker.stop();
  EXPECT_TRUE(ended);
  worker.post(late);
  worker.stop();
  EXPECT_FALSE(began_another);
}

}  // namespace
}  // namespace http
