#include "http/wake_list.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "http/connection.h"

namespace http {
namespace {

TEST(WakeList, PostsOnceForAllWordsThatWait) {
  boost::asio::io_context context;
  WakeList wakes(context);
  for (int i = 0; i < 64; ++i) wakes.add({}, 1);
  EXPECT_EQ(context.poll(), 2U);  // the words, and a look whether more came
}

TEST(WakeList, GivesWayToOthersBetweenTurnsOf64) {
  boost::asio::io_context context;
  WakeList wakes(context);
  for (int i = 0; i < 65; ++i) wakes.add({}, 1);
  EXPECT_EQ(context.poll(), 3U);
}

TEST(WakeList, PostsAgainForWhatComesAfterwards) {
  boost::asio::io_context context;
  WakeList wakes(context);
  for (int round = 0; round < 3; ++round) {
    wakes.add({}, 1);
    EXPECT_EQ(context.poll(), 2U);
    context.restart();
  }
}

TEST(WakeList, LosesNoWordOfManyThreads) {
  boost::asio::io_context context;
  WakeList wakes(context);
  Worker worker;
  auto shared = std::make_shared<ConnectionContext>(worker, wakes, Service(), ConnectionLimits());
  auto connection = std::make_shared<Connection>(Connection::Socket(context), shared);
  const std::weak_ptr<Connection> weak = connection;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) wakes.add(weak, 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(context.poll(), 2000U / 64 + 2);
  connection.reset();
  EXPECT_TRUE(weak.expired());  // it keeps nobody
}

}  // namespace
}  // namespace http
