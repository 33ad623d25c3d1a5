#include "gpu/host/memory_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  EXPECT_EQ(within_cgroup(machine, "600\n", "100\n", "").total.n, 600);
  EXPECT_EQ(within_cgroup(machine, "600\n", "100\n", "").available.n, 500);
  EXPECT_EQ(within_cgroup({{1000}, {200}}, "600\n", "100\n", "").available.n, 200)
      << "never more than the machine has";
  EXPECT_EQ(within_cgroup(machine, "600\n", "700\n", "").available.n, 0);
}

TEST(MemoryFacts, FilePagesThatNobodyUsedLatelyAreNoUse) {
  const MemoryFacts machine{{1000}, {800}};
  EXPECT_EQ(
      within_cgroup(machine, "600\n", "500\n", "anon 1\ninactive_file 300\nactive_file 7\n").available.n,
      400);
  EXPECT_EQ(
      within_cgroup(machine, "600\n", "500\n", "inactive_file 3\ntotal_inactive_file 200\n").available.n,
      300);
  EXPECT_EQ(within_cgroup(machine, "600\n", "100\n", "inactive_file 300\n").available.n, 600);
}

std::vector<std::string> limits_of(std::string_view groups) {
  std::vector<std::string> limits;
  for (const CgroupFiles& group : memory_cgroups(groups)) limits.push_back(group.limit);
  return limits;
}

TEST(MemoryFacts, AGroupAndAllAboveItLimitMemory) {
  EXPECT_EQ(
      limits_of("0::/system.slice/atlas.service\n"),
      (std::vector<std::string>{"/sys/fs/cgroup/system.slice/atlas.service/memory.max",
                                "/sys/fs/cgroup/system.slice/memory.max", "/sys/fs/cgroup/memory.max"}));
  EXPECT_EQ(limits_of("0::/\n"), std::vector<std::string>{"/sys/fs/cgroup/memory.max"});
  EXPECT_EQ(limits_of("9:name=systemd:/x\n4:cpu,memory:/jobs/7\n3:cpuset,memory_pressure:/x\n"),
            (std::vector<std::string>{"/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes",
                                      "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
                                      "/sys/fs/cgroup/memory/memory.limit_in_bytes"}));
  for (const char* broken : {"", "\n", "0", "0:", ":memory"})
    EXPECT_TRUE(limits_of(broken).empty()) << broken;
}

TEST(MemoryFacts, AParentsLimitIsSharedWithOthers) {
  const MemoryFacts own = within_cgroup({{1000}, {900}}, "600\n", "100\n", "");
  const MemoryFacts both = within_cgroup(own, "800\n", "700\n", "");
  EXPECT_EQ(both.total.n, 600);
  EXPECT_EQ(both.available.n, 100);
}

TEST(MemoryFacts, NoLimitLeavesTheMachine) {
  for (const char* limit : {"max\n", "", "1000\n", "99999\n"}) {
    EXPECT_EQ(within_cgroup({{1000}, {800}}, limit, "5\n", "").total.n, 1000) << limit;
    EXPECT_EQ(within_cgroup({{1000}, {800}}, limit, "5\n", "").available.n, 800) << limit;
  }
}

}  // namespace
}  // namespace gpu
