#include "cuda_emulator/block.h"

#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda_emulator/faults.h"
#include "tests/cuda_emulator/fiber.h"
#include "tests/cuda_emulator/grid.h"
#include "tests/cuda_emulator/random.h"
#include "tests/cuda_emulator/static_shared.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_emulator {
namespace {

constexpr int kMaxThreads = 1024;
constexpr std::size_t kMaxDynamicShared = 227 * 1024;
constexpr int kPoison = 0xFF;  // NaN in every float type, -1 in every integer

struct Warp {
  int num_lanes = 0;
  int num_waiting = 0;
  const char* what = nullptr;  // of the collective that some lanes have come to
  // Two sets by turns: see come_to_warp.
  std::array<std::array<Slot, kWarp>, 2> slots;
};

struct PendingCopy {
  void* to;
  const void* from;  // null: zeros
};

struct Thread {
  enum class State { fresh, ready, waiting, done };
  State state = State::fresh;
  int number = 0;  // in its block
  uint3 index{};
  Warp* warp = nullptr;
  unsigned num_warp_meetings = 0;
  const char* waits_for = nullptr;
  Fiber fiber;
  FiberStack* stack = nullptr;
  std::vector<std::vector<PendingCopy>> copy_groups;  // the last one is open
};

/// The block that runs: its threads and who may go on. One for the process, as blocks run one after another.
struct Block {
  Random random{std::getenv("ATLAS_EMULATOR_SEED") != nullptr
                    ? std::strtoull(std::getenv("ATLAS_EMULATOR_SEED"), nullptr, 10)
                    : 1};
  std::vector<Thread> threads{kMaxThreads};
  std::vector<Warp> warps{kMaxThreads / kWarp};
  std::vector<FiberStack> stacks;
  std::vector<FiberStack*> free_stacks;
  std::vector<Thread*> runnable;
  Thread* current = nullptr;
  int num_threads = 0;
  int num_done = 0;
  Fiber launcher;
  const KernelRun* run = nullptr;

  int num_at_barrier = 0;
  const char* barrier = nullptr;
  int votes = 0;
  int votes_of_last_barrier = 0;

  unsigned char* shared_end = nullptr;  // a page without access begins here
  std::size_t shared_bytes = 0;

  Block() {
    stacks.reserve(kMaxThreads);  // free_stacks points into it
    const std::size_t pages = 57 * 4096;
    void* const mapping =
        mmap(nullptr, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) std::abort();
    shared_end = static_cast<unsigned char*>(mapping) + pages;
    mprotect(shared_end, 4096, PROT_NONE);
  }
};
static_assert(57 * 4096 >= kMaxDynamicShared);

Block* const the_block = new Block;  // never destroyed: launches may come while static objects go
Block& block() { return *the_block; }

bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

[[noreturn]] void give_up(const std::string& why) {
  const Block& b = block();
  std::fprintf(stderr, "cuda emulator: %s, block (%u, %u, %u) of (%u, %u, %u): %s\n",
               kernel_name(b.run->kernel).c_str(), blockIdx.x, blockIdx.y, blockIdx.z, gridDim.x, gridDim.y,
               gridDim.z, why.c_str());
  std::fflush(stderr);
  std::abort();
}

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size() && i < 12; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  return numbers.size() > 12 ? text + ", ... (" + std::to_string(numbers.size()) + " in all)" : text;
}

[[noreturn]] void report_stuck() {
  const Block& b = block();
  std::map<std::string, std::vector<int>> by_place;
  for (int i = 0; i < b.num_threads; ++i) {
    const Thread& thread = b.threads[static_cast<std::size_t>(i)];
    by_place[thread.state == Thread::State::done ? "have ended" : std::string("wait in ") + thread.waits_for]
        .push_back(i);
  }
  std::string text = "threads wait for others that do not come.";
  for (const auto& [place, numbers] : by_place) text += "\n  threads " + list_of(numbers) + " " + place;
  give_up(text);
}

void become(Thread* thread) {
  block().current = thread;
  threadIdx = thread->index;
}

Thread* draw() {
  Block& b = block();
  if (b.runnable.empty()) return nullptr;
  const auto i = b.random.below(static_cast<std::uint32_t>(b.runnable.size()));
  Thread* const thread = b.runnable[i];
  b.runnable[i] = b.runnable.back();
  b.runnable.pop_back();
  return thread;
}

FiberStack* take_stack() {
  Block& b = block();
  if (b.free_stacks.empty()) {
    b.stacks.emplace_back(b.stacks.size());
    return &b.stacks.back();
  }
  FiberStack* const stack = b.free_stacks.back();
  b.free_stacks.pop_back();
  return stack;
}

void release_barrier();

/// A stack's life: runs thread after thread, as long as there are fresh ones, then hands over to one that was
/// left on another stack. Kernels without meeting points thus need one stack and no switch.
void run_threads() {
  Block& b = block();
  while (true) {
    b.current->state = Thread::State::ready;
    b.run->call();
    Thread* const ended = b.current;
    ended->state = Thread::State::done;
    ++b.num_done;
    if (b.num_at_barrier > 0 && b.num_at_barrier == b.num_threads - b.num_done) release_barrier();
    Thread* const next = draw();
    if (next == nullptr) {
      if (b.num_done != b.num_threads) report_stuck();
      switch_fiber(ended->fiber, b.launcher);
    }
    if (next->state == Thread::State::fresh) {
      next->stack = ended->stack;
      become(next);
      continue;
    }
    b.free_stacks.push_back(ended->stack);  // nobody takes it before this flow has left it
    become(next);
    switch_fiber(ended->fiber, next->fiber);
  }
}

/// Leaves the current thread to others until somebody makes it runnable and it is drawn.
void wait(const char* what) {
  Block& b = block();
  Thread* const self = b.current;
  self->waits_for = what;
  Thread* const next = draw();
  if (next == nullptr) report_stuck();
  if (next == self) return;
  if (next->state == Thread::State::fresh) {
    next->stack = take_stack();
    prepare(next->fiber, *next->stack, run_threads);
  }
  become(next);
  switch_fiber(self->fiber, next->fiber);
}

void make_runnable(Thread* thread) {
  thread->state = Thread::State::ready;
  block().runnable.push_back(thread);
}

void release_barrier() {
  Block& b = block();
  b.votes_of_last_barrier = b.votes;
  b.votes = 0;
  b.num_at_barrier = 0;
  for (int i = 0; i < b.num_threads; ++i) {
    Thread& thread = b.threads[static_cast<std::size_t>(i)];
    if (thread.state == Thread::State::waiting) make_runnable(&thread);
  }
}

void run_block() {
  Block& b = block();
  std::memset(b.shared_end - b.shared_bytes, kPoison, b.shared_bytes);
  b.num_done = b.num_at_barrier = b.votes = 0;
  b.runnable.clear();
  for (int i = 0; i < b.num_threads; ++i) {
    Thread& thread = b.threads[static_cast<std::size_t>(i)];
    const auto n = static_cast<unsigned>(i);
    thread.state = Thread::State::fresh;
    thread.number = i;
    thread.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
    thread.warp = &b.warps[static_cast<std::size_t>(i / kWarp)];
    thread.warp->num_lanes = i % kWarp + 1;
    thread.warp->num_waiting = 0;
    thread.num_warp_meetings = 0;
    thread.copy_groups.clear();
    b.runnable.push_back(&thread);
  }
  Thread* const first = draw();
  first->stack = take_stack();
  prepare(first->fiber, *first->stack, run_threads);
  become(first);
  switch_fiber(b.launcher, first->fiber);
}

bool stack_overflowed(const void* address) {
  for (const FiberStack& stack : block().stacks) {
    if (stack.guards(address)) return true;
  }
  return false;
}

void say_fault(const FaultCaught& fault) {
  const Block& b = block();
  std::fprintf(stderr, "cuda emulator: %s, block (%u, %u, %u), thread (%u, %u, %u): %s at %p%s\n",
               kernel_name(b.run->kernel).c_str(), blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
               threadIdx.y, threadIdx.z, cudaGetErrorString(fault.error), fault.address,
               stack_overflowed(fault.address) ? " (its stack is full)" : "");
}

}  // namespace

Slot* come_to_warp(const char* what, unsigned mask, int* lane) {
  Thread* const self = block().current;
  Warp& warp = *self->warp;
  if (mask != 0xFFFFFFFFU) give_up(std::string(what) + " with a mask of part of the warp is not emulated");
  if (warp.num_waiting > 0 && !same(warp.what, what)) {
    give_up("lanes of one warp have come to different collectives: thread " + std::to_string(self->number) +
            " to " + what + ", others to " + warp.what);
  }
  *lane = self->number % kWarp;
  // A lane can be one meeting ahead of another that has still to read its slots, never two.
  return warp.slots[self->num_warp_meetings++ % 2].data();
}

bool last_of_warp(const char* what) {
  Thread* const self = block().current;
  Warp& warp = *self->warp;
  warp.what = what;
  if (++warp.num_waiting == warp.num_lanes) return true;
  self->state = Thread::State::ready;
  wait(what);
  return false;
}

void release_warp() {
  Block& b = block();
  Warp& warp = *b.current->warp;
  const auto first = static_cast<std::size_t>(b.current->number / kWarp * kWarp);
  warp.num_waiting = 0;
  for (std::size_t l = 0; l < static_cast<std::size_t>(warp.num_lanes); ++l) {
    if (&b.threads[first + l] != b.current) make_runnable(&b.threads[first + l]);
  }
  // The last to come gets no head start on the others.
  make_runnable(b.current);
  wait("a collective that is complete");
}

int num_lanes_of_warp() { return block().current->warp->num_lanes; }

int meet_block(const char* what, bool brought) {
  Block& b = block();
  if (b.num_at_barrier > 0 && !same(b.barrier, what)) {
    give_up("threads of one block have come to different barriers: thread " +
            std::to_string(b.current->number) + " to " + what + ", others to " + b.barrier);
  }
  b.barrier = what;
  b.votes += brought ? 1 : 0;
  b.current->state = Thread::State::waiting;
  if (++b.num_at_barrier == b.num_threads - b.num_done) release_barrier();
  wait(what);
  // Nobody completes the next barrier before everybody has read this one's votes.
  return b.votes_of_last_barrier;
}

unsigned char* dynamic_shared_memory() { return block().shared_end - block().shared_bytes; }

void start_copy(void* to, const void* from, bool valid) {
  Thread& self = *block().current;
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
    raise_fault({cudaErrorMisalignedAddress, from});
  }
  if (self.copy_groups.empty()) self.copy_groups.emplace_back();
  std::memset(to, kPoison, 16);
  self.copy_groups.back().push_back({to, valid ? from : nullptr});
}

void close_copy_group() {
  Thread& self = *block().current;
  if (self.copy_groups.empty()) self.copy_groups.emplace_back();
  self.copy_groups.emplace_back();
}

void finish_copies(int num_groups_left) {
  auto& groups = block().current->copy_groups;
  while (static_cast<int>(groups.size()) > num_groups_left + 1) {  // the open one is not waited for
    for (const PendingCopy& copy : groups.front()) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, 16);
      } else {
        std::memcpy(copy.to, copy.from, 16);
      }
    }
    groups.erase(groups.begin());
  }
}

void trap() { raise_fault({cudaErrorLaunchFailure, nullptr}); }

cudaError_t run_grid(const KernelRun& run) {
  Block& b = block();
  b.run = &run;
  gridDim = run.grid;
  blockDim = run.block;
  b.num_threads = static_cast<int>(run.block.x * run.block.y * run.block.z);
  b.shared_bytes = (run.shared_bytes + 15) / 16 * 16;
  const std::uint64_t num_blocks = std::uint64_t{run.grid.x} * run.grid.y * run.grid.z;
  // Blocks in an order of their own: from a drawn start in drawn steps that share no factor with their
  // number.
  std::uint64_t at = b.random.below(static_cast<std::uint32_t>(num_blocks));
  std::uint64_t step = 1 + b.random.below(static_cast<std::uint32_t>(num_blocks));
  while (std::gcd(step, num_blocks) != 1) ++step;
  // Once a launch: a block may see what the one before it left, which comes in a drawn order anyway.
  const StaticShared shared = static_shared();
  std::memset(shared.base, kPoison, shared.size);
  FaultCatcher catcher(b.launcher);
  for (std::uint64_t i = 0; i < num_blocks; ++i) {
    blockIdx = {static_cast<unsigned>(at % run.grid.x), static_cast<unsigned>(at / run.grid.x % run.grid.y),
                static_cast<unsigned>(at / run.grid.x / run.grid.y)};
    b.free_stacks.clear();
    for (FiberStack& stack : b.stacks) b.free_stacks.push_back(&stack);
    run_block();
    if (catcher.caught()) {
      say_fault(*catcher.caught());
      return catcher.caught()->error;
    }
    at = (at + step) % num_blocks;
  }
  return cudaSuccess;
}

}  // namespace cuda_emulator
