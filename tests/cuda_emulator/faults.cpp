#include "tests/cuda_emulator/faults.h"

#include <pthread.h>

#include <cstdlib>

namespace cuda_emulator {
namespace {

// SIGILL or SIGTRAP, as the processor has it: what -fsanitize-undefined-trap-on-error does when an address is
// not aligned for its type.
constexpr int kSignals[4] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};
FaultCatcher* catcher = nullptr;
pthread_t thread_of_catcher;
// Handlers run here: the stack of the kernel's thread may be what is exhausted.
alignas(16) unsigned char signal_stack[64 * 1024];

void on_signal(int signal, siginfo_t* info, void*) {
  if (catcher == nullptr ||
      pthread_equal(thread_of_catcher, pthread_self()) ==
          0) {  // another thread's: by default the process ends when the instruction is repeated
    std::signal(signal, SIG_DFL);
    return;
  }
  catcher->give_up_kernel(
      {signal == SIGSEGV ? cudaErrorIllegalAddress : cudaErrorMisalignedAddress, info->si_addr});
}

}  // namespace

FaultCatcher::FaultCatcher(Fiber& launcher) : launcher_(launcher) {
  catcher = this;
  thread_of_catcher = pthread_self();
  stack_t stack = {};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof(signal_stack);
  sigaltstack(&stack, &stack_before_);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags =
      SA_SIGINFO | SA_NODEFER | SA_ONSTACK;  // the handler is left by a switch: nothing would unblock it
  for (int i = 0; i < kNumSignals; ++i) sigaction(kSignals[i], &action, &before_[i]);
}
FaultCatcher::~FaultCatcher() {
  for (int i = 0; i < kNumSignals; ++i) sigaction(kSignals[i], &before_[i], nullptr);
  sigaltstack(&stack_before_, nullptr);
  catcher = nullptr;
}

void FaultCatcher::give_up_kernel(const FaultCaught& fault) {
  caught_ = fault;
  abandon_for(launcher_);
}

void raise_fault(const FaultCaught& fault) {
  if (catcher == nullptr) std::abort();
  catcher->give_up_kernel(fault);
}

}  // namespace cuda_emulator
