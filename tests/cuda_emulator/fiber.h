#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cuda_emulator {

/// A flow of control that was left and can be taken up again. Plain switches within one thread: no scheduler,
/// no signal masks.
struct Fiber {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

/// A stack with a page without access below it.
class FiberStack {
 public:
  explicit FiberStack(std::size_t number);
  ~FiberStack();
  FiberStack(FiberStack&& other) noexcept : base_(other.base_), set_aside_(other.set_aside_) {
    other.base_ = nullptr;
  }
  FiberStack& operator=(FiberStack&&) = delete;

  static constexpr std::size_t kBytes = 256 * 1024;
  std::byte* base() const { return base_; }  // of what can be used
  std::byte* top() const { return base_ + kBytes - set_aside_; }
  bool guards(const void* address) const;

 private:
  std::byte* base_ = nullptr;
  std::size_t set_aside_ = 0;
};

/// Makes `fiber` run `entry`, which never returns, on `stack` when it is switched to.
void prepare(Fiber& fiber, const FiberStack& stack, void (*entry)());
/// Leaves the running flow in `from` and goes on with `to`.
void switch_fiber(Fiber& from, Fiber& to);
/// Goes on with `to` and never comes back: for a signal handler that gives a fiber up.
[[noreturn]] void abandon_for(Fiber& to);

}  // namespace cuda_emulator
