#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_emulator/types.h"

/// What kernels need of the thread block that runs: meeting points. Every thread of a block is a fiber; which
/// one goes on at a meeting point is drawn from a seeded generator, so code that leans on an order that CUDA
/// does not promise gives different results under different seeds.
namespace cuda_emulator {

inline constexpr int kWarp = 32;

/// What a lane brings to a collective, and what it takes away.
struct alignas(16) Slot {
  unsigned char bytes[64];

  template <class T>
  T get() const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(bytes));
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  template <class T>
  void set(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(bytes));
    std::memcpy(bytes, &value, sizeof(T));
  }
};

/// The calling lane comes to collective `what` of its warp. The slots of this meeting; `*lane` is its own. A
/// lane that is one meeting ahead uses other slots, so nobody's are overwritten before they were read.
Slot* come_to_warp(const char* what, unsigned mask, int* lane);
/// True for the last lane to come: the others wait until it calls release_warp.
bool last_of_warp(const char* what);
void release_warp();
int num_lanes_of_warp();

/// One collective of the whole warp: all lanes bring a value, the last to come runs finish(slots), then all
/// go on in any order with the slots to read.
template <class T, class Finish>
const Slot* meet_warp(const char* what, unsigned mask, const T& brought, int* lane, const Finish& finish) {
  Slot* const slots = come_to_warp(what, mask, lane);
  slots[*lane].set(brought);
  if (last_of_warp(what)) {
    finish(slots);
    release_warp();
  }
  return slots;
}
template <class T>
const Slot* meet_warp(const char* what, unsigned mask, const T& brought, int* lane) {
  return meet_warp(what, mask, brought, lane, [](Slot*) {});
}

/// A barrier of all living threads of the block: how many brought `true`.
int meet_block(const char* what, bool brought);

/// The block's dynamic shared memory: poisoned before each block, a page without access behind it.
unsigned char* dynamic_shared_memory();

/// Background copies of the calling thread (cp.async). The target holds garbage until the copy was waited
/// for.
void start_copy(void* to, const void* from, bool valid);
void close_copy_group();
void finish_copies(int num_groups_left);

/// __trap(): the kernel ends, the context with it.
[[noreturn]] void trap();

}  // namespace cuda_emulator
