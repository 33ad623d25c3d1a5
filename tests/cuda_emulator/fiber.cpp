#include "tests/cuda_emulator/fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace cuda_emulator {
namespace {

constexpr std::size_t kGuard = 64 * 1024;  // a frame larger than a page must not jump over it
// Tops at the same place in their pages would share a few sets of the caches, of a thousand stacks.
constexpr std::size_t kColour = 65 * 64, kColours = 64 * 1024;

}  // namespace

FiberStack::FiberStack(std::size_t number) : set_aside_(number * kColour % kColours) {
  void* const mapping = mmap(nullptr, kGuard + kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, kGuard, PROT_NONE) != 0) {
    std::perror("cuda emulator: a stack for a thread");
    std::abort();
  }
  base_ = static_cast<std::byte*>(mapping) + kGuard;
}
FiberStack::~FiberStack() {
  if (base_ != nullptr) munmap(base_ - kGuard, kGuard + kBytes);
}
bool FiberStack::guards(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  return at >= base_ - kGuard && at < base_;
}

#if defined(__x86_64__)

// The callee-saved registers of the System V ABI; everything else is the caller's to save. The floating-point
// control words are never changed here, so they are not switched. A jump ends it: a return would be predicted
// to go back to its caller, which is what it never does.
extern "C" void atlas_emulator_switch(void** save, void* load);
asm(R"(
.text
.local atlas_emulator_switch
.type atlas_emulator_switch, @function
atlas_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size atlas_emulator_switch, .-atlas_emulator_switch
)");

void prepare(Fiber& fiber, const FiberStack& stack, void (*entry)()) {
  // As if `entry` had just been called from nowhere: a null return address, then the address that the switch
  // returns to, then six registers.
  auto** const top = reinterpret_cast<void**>(stack.top());
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(entry);
  for (int i = 3; i <= 8; ++i) top[-i] = nullptr;
  fiber.stack_pointer = top - 8;
}
void switch_fiber(Fiber& from, Fiber& to) { atlas_emulator_switch(&from.stack_pointer, to.stack_pointer); }
void abandon_for(Fiber& to) {
  Fiber given_up;
  switch_fiber(given_up, to);
  std::abort();
}

#else

void prepare(Fiber& fiber, const FiberStack& stack, void (*entry)()) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack.base();
  fiber.context.uc_stack.ss_size = static_cast<std::size_t>(stack.top() - stack.base());
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}
void switch_fiber(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }
void abandon_for(Fiber& to) {
  setcontext(&to.context);
  std::abort();
}

#endif

}  // namespace cuda_emulator
