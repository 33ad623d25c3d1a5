#include "model/cache/page_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace model {
namespace {

void expect_balanced(const IdPool& pool) {
  EXPECT_EQ(pool.free() + pool.used() + pool.quarantined(), pool.total());
}

TEST(PagePool, TakesAllOrNothing) {
  for (const int asked : {2, 3, 4}) {
    PagePool pool(3);
    const auto taken = pool.take(asked);
    EXPECT_EQ(taken.has_value(), asked <= 3);
    EXPECT_EQ(pool.used(), asked <= 3 ? asked : 0);
    expect_balanced(pool);
  }
}

TEST(PagePool, AReleaseThatNoPlanNamesIsFreeAtOnce) {
  PagePool pool(4);
  pool.release(*pool.take(2), 0);
  EXPECT_EQ(pool.free(), 4);
}

TEST(PagePool, APageStaysInQuarantineUntilTheLastPlanThatNamesItCompleted) {
  PagePool pool(4);
  pool.release(*pool.take(3), 7);
  EXPECT_EQ(pool.quarantined(), 3);
  pool.complete(6);
  EXPECT_EQ(pool.quarantined(), 3);
  EXPECT_EQ(pool.free(), 1);
  pool.complete(7);
  EXPECT_EQ(pool.quarantined(), 0);
  EXPECT_EQ(pool.free(), 4);
}

TEST(PagePool, ALaterCompletionFreesWhatWaitedForAnEarlierPlan) {
  PagePool pool(2);
  pool.release(*pool.take(1), 3);
  pool.release(*pool.take(1), 5);
  pool.complete(4);
  EXPECT_EQ(pool.free(), 1);
  pool.complete(9);
  EXPECT_EQ(pool.free(), 2);
}

TEST(PagePool, NoIdIsInTwoHandsWhateverTheOrder) {
  std::mt19937 random(7);
  PagePool pool(32);
  std::vector<std::vector<PageId>> held;
  std::set<PageId> in_use;
  StepNumber plan = 0;
  for (int round = 0; round < 2000; ++round) {
    if (random() % 2 == 0) {
      if (auto ids = pool.take(static_cast<std::int32_t>(random() % 6))) {
        for (const auto id : *ids) EXPECT_TRUE(in_use.insert(id).second);
        held.push_back(*std::move(ids));
      }
    } else if (!held.empty()) {
      const auto place = held.begin() + static_cast<std::ptrdiff_t>(random() % held.size());
      for (const auto id : *place) in_use.erase(id);
      pool.release(*place, plan + random() % 3);
      held.erase(place);
    }
    if (random() % 3 == 0) pool.complete(++plan);
    expect_balanced(pool);
  }
}

}  // namespace
}  // namespace model
