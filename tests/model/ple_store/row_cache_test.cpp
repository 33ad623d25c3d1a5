#include "model/ple_store/row_cache.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

namespace model {
namespace {

using ::testing::ElementsAre;

/// Rows of one plan, pinned and let go again: which of them were missing.
std::vector<std::int64_t> missing(RowCache& cache, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> missed;
  auto pins = cache.new_pins();
  for (const std::int64_t row : rows)
    if (cache.pin(pins, row)->missing) missed.push_back(row);
  cache.unpin(pins);
  return missed;
}

TEST(RowCache, ARowIsFetchedOnceAndFoundAfterwards) {
  RowCache cache(4);
  EXPECT_THAT(missing(cache, {7, 8, 7, 7}), ElementsAre(7, 8));
  EXPECT_THAT(missing(cache, {8, 9}), ElementsAre(9));
  EXPECT_EQ(cache.num_rows(), 3);
  EXPECT_EQ(cache.num_pinned(), 0);
}

TEST(RowCache, TheHandPassesOnceByARowThatWasAskedForAgain) {
  RowCache cache(3);
  missing(cache, {1, 2, 3});
  missing(cache, {1, 3});
  EXPECT_THAT(missing(cache, {4}), ElementsAre(4));  // takes 2, the only one that nobody asked for again
  EXPECT_THAT(missing(cache, {1, 3}), ElementsAre());
  EXPECT_THAT(missing(cache, {2, 5}), ElementsAre(2, 5));  // 3 or 1 go once their second chance is spent
  EXPECT_EQ(cache.num_rows(), 3);
}

TEST(RowCache, APinnedSlotIsNeverTaken) {
  RowCache cache(2);
  auto pins = cache.new_pins();
  const auto one = cache.pin(pins, 1);
  auto others = cache.new_pins();
  for (std::int64_t row = 2; row < 20; ++row) {
    const auto place = cache.pin(others, row);
    ASSERT_TRUE(place && place->slot != one->slot) << row;
    cache.unpin(others);
  }
  EXPECT_EQ(cache.row_of(one->slot), 1);
  cache.unpin(pins);
}

TEST(RowCache, AFullCacheOfPinsHasNoPlaceAndSaysSo) {
  RowCache cache(2);
  auto pins = cache.new_pins();
  EXPECT_TRUE(cache.pin(pins, 1) && cache.pin(pins, 2));
  EXPECT_FALSE(cache.pin(pins, 3));
  EXPECT_FALSE(cache.pin(pins, 1)->missing);  // what is there can still be pinned
  // A plan behind it takes what it can, and the rest when the first one has run.
  auto next = cache.new_pins();
  EXPECT_FALSE(cache.pin(next, 2)->missing);
  EXPECT_FALSE(cache.pin(next, 3));
  cache.unpin(pins);
  EXPECT_TRUE(cache.pin(next, 3)->missing);
  EXPECT_THAT(missing(cache, {2}), ElementsAre());
  cache.unpin(next);
  EXPECT_EQ(cache.num_pinned(), 0);
}

TEST(RowCache, ADroppedRowIsNoLongerThere) {
  RowCache cache(4);
  auto pins = cache.new_pins();
  const auto place = *cache.pin(pins, 5);
  cache.drop(place.slot);
  cache.drop(place.slot);  // a row that several reads wanted
  EXPECT_EQ(cache.row_of(place.slot), -1);
  EXPECT_EQ(cache.num_pinned(), 1);  // nobody else gets the slot while the plan runs
  cache.unpin(pins);
  EXPECT_EQ(cache.num_pinned(), 0);
  EXPECT_THAT(missing(cache, {5}), ElementsAre(5));
}

TEST(RowCache, ARowThatIsPinnedCannotBeForgotten) {
  RowCache cache(4);
  auto pins = cache.new_pins();
  ASSERT_TRUE(cache.pin(pins, 5));
  cache.forget(5);
  cache.forget(6);
  EXPECT_FALSE(cache.pin(pins, 5)->missing);
  cache.unpin(pins);
  cache.forget(5);
  EXPECT_THAT(missing(cache, {5}), ElementsAre(5));
}

/// 8192 prompt tokens and one sequence, 16 heads: 8193 tokens, 131,088 rows, 262,144 slots.
TEST(RowCache, TwoFullPlansOfDisjointRowsFollowEachOther) {
  constexpr std::int64_t kRows = 8193 * 16, kSlots = 262'144;
  EXPECT_EQ(kRows, 131'088);
  RowCache cache(kSlots);
  for (std::int64_t plan = 0; plan < 3; ++plan) {
    auto pins = cache.new_pins();
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto place = cache.pin(pins, plan * kRows + row);
      ASSERT_TRUE(place && place->missing) << plan << ' ' << row;
    }
    EXPECT_EQ(cache.num_pinned(), kRows);
    EXPECT_EQ(std::ssize(pins.slots), kRows);
    cache.unpin(pins);
    EXPECT_EQ(cache.num_pinned(), 0);
  }
  // A step that needs every slot fits as well.
  auto pins = cache.new_pins();
  for (std::int64_t row = 0; row < kSlots; ++row) ASSERT_TRUE(cache.pin(pins, 10 * kRows + row)) << row;
  EXPECT_EQ(cache.num_pinned(), kSlots);
  cache.unpin(pins);
}

TEST(RowCache, AgreesWithABookkeeperOverRandomPlans) {
  std::mt19937 random(3);
  for (const std::int64_t num_slots : {1, 2, 7, 64}) {
    RowCache cache(num_slots);
    std::map<std::int64_t, RowCache::Slot> held;  // what has to be where, as long as it is pinned
    for (int round = 0; round < 2'000; ++round) {
      auto pins = cache.new_pins();
      held.clear();
      std::set<RowCache::Slot> used;
      const auto wanted = static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(num_slots));
      for (std::int64_t i = 0; i < wanted; ++i) {
        const std::int64_t row =
            static_cast<std::int64_t>(random() % 200) * 4096;  // collide in a table of bits
        const auto place = cache.pin(pins, row);
        ASSERT_TRUE(place);
        const auto [at, fresh] = held.emplace(row, place->slot);
        ASSERT_EQ(at->second, place->slot);
        ASSERT_EQ(used.insert(place->slot).second, fresh);
        ASSERT_TRUE(fresh || !place->missing);
      }
      for (const auto& [row, slot] : held) ASSERT_EQ(cache.row_of(slot), row);
      ASSERT_EQ(cache.num_pinned(), std::ssize(used));
      if (round % 3 == 0) cache.drop(held.begin()->second);
      cache.unpin(pins);
      ASSERT_EQ(cache.num_pinned(), 0);
      std::int64_t rows = 0;
      for (RowCache::Slot slot = 0; slot < num_slots; ++slot) rows += cache.row_of(slot) >= 0 ? 1 : 0;
      ASSERT_EQ(cache.num_rows(), rows);
      ASSERT_LE(rows, num_slots);
    }
  }
}

}  // namespace
}  // namespace model
