#include "gpu/host/memory_facts.h"

#include <gtest/gtest.h>

namespace gpu {
namespace {

constexpr std::int64_t kKi = 1024;

TEST(MemoryFacts, ReadsTotalAndAvailable) {
  const MemoryFacts facts = parse_meminfo(
      "MemTotal:       24683120 kB\nMemFree:         1 kB\nMemAvailable:   20000000 kB\nBuffers: 3 kB\n");
  EXPECT_EQ(facts.total.n, 24683120 * kKi);
  EXPECT_EQ(facts.available.n, 20000000 * kKi);
}

TEST(MemoryFacts, AMissingOrBrokenLineCountsAsZero) {
  for (const char* text : {"", "\n\n", "MemTotal:", "MemTotal: x kB", "SwapTotal: 5 kB\n"}) {
    EXPECT_EQ(parse_meminfo(text).total.n, 0) << text;
    EXPECT_EQ(parse_meminfo(text).available.n, 0) << text;
  }
}

TEST(MemoryFacts, AControlGroupsLimitIsTheTotalAndItsUseIsSubtracted) {
  const MemoryFacts machine{{1000}, {800}};
  EXPECT_EQ(within_cgroup(machine, "600\n", "100\n").total.n, 600);
  EXPECT_EQ(within_cgroup(machine, "600\n", "100\n").available.n, 500);
  EXPECT_EQ(within_cgroup({{1000}, {200}}, "600\n", "100\n").available.n, 200)
      << "never more than the machine has";
  EXPECT_EQ(within_cgroup(machine, "600\n", "700\n").available.n, 0);
}

TEST(MemoryFacts, NoLimitLeavesTheMachine) {
  for (const char* limit : {"max\n", "", "1000\n", "99999\n"}) {
    EXPECT_EQ(within_cgroup({{1000}, {800}}, limit, "5\n").total.n, 1000) << limit;
    EXPECT_EQ(within_cgroup({{1000}, {800}}, limit, "5\n").available.n, 800) << limit;
  }
}

}  // namespace
}  // namespace gpu
