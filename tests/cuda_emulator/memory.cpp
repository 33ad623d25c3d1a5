#include "tests/cuda_emulator/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace cuda_emulator {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xFF;

struct Allocation {
  std::byte* mapping;
  std::size_t mapped;
  std::size_t size;
};
struct Memory {
  std::map<std::uintptr_t, Allocation> device, pinned;  // by base
  std::size_t used = 0;
};
Memory& memory() {
  static Memory* const made = new Memory;
  return *made;
}

std::size_t up_to(std::size_t size, std::size_t step) { return (size + step - 1) / step * step; }

std::byte* map_between_guards(std::map<std::uintptr_t, Allocation>& into, std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t pages = up_to(size, page), mapped = pages + 2 * page;
  void* const mapping = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(mapping) + page;
  if (mprotect(first, pages, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mapped);
    return nullptr;
  }
  std::memset(first, kPoison, pages);
  std::byte* const base = first + pages - up_to(size, kAlignment);
  into[reinterpret_cast<std::uintptr_t>(base)] = {static_cast<std::byte*>(mapping), mapped, size};
  return base;
}

/// What lies between the last byte and the guard, and before the first, was written by nobody.
void check_surroundings(const std::byte* base, const Allocation& allocation) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto intact = [](const std::byte* from, const std::byte* to) {
    for (; from < to; ++from) {
      if (*from != std::byte{kPoison}) return false;
    }
    return true;
  };
  if (intact(allocation.mapping + page, base) &&
      intact(base + allocation.size, allocation.mapping + allocation.mapped - page)) {
    return;
  }
  std::fprintf(stderr, "cuda emulator: something wrote beside the allocation of %zu bytes at %p\n",
               allocation.size, static_cast<const void*>(base));
  std::abort();
}

bool unmap(std::map<std::uintptr_t, Allocation>& from, void* base, std::size_t* size) {
  const auto found = from.find(reinterpret_cast<std::uintptr_t>(base));
  if (found == from.end()) return false;
  check_surroundings(static_cast<const std::byte*>(base), found->second);
  *size = found->second.size;
  munmap(found->second.mapping, found->second.mapped);
  from.erase(found);
  return true;
}

bool holds(const std::map<std::uintptr_t, Allocation>& all, const void* base, std::size_t size) {
  const auto at = reinterpret_cast<std::uintptr_t>(base);
  auto next = all.upper_bound(at);
  if (next == all.begin()) return false;
  --next;
  const std::size_t offset = at - next->first;
  return offset <= next->second.size && size <= next->second.size - offset;
}

}  // namespace

std::size_t device_memory_free() { return kDeviceMemory - memory().used; }

void* allocate_device(std::size_t size) {
  if (size > device_memory_free()) return nullptr;
  void* const base = map_between_guards(memory().device, size);
  if (base != nullptr) memory().used += size;
  return base;
}
bool free_device(void* base) {
  std::size_t size = 0;
  const bool known = unmap(memory().device, base, &size);
  memory().used -= size;
  return known;
}
void* allocate_pinned(std::size_t size) { return map_between_guards(memory().pinned, size); }
bool free_pinned(void* base) {
  std::size_t size = 0;
  return unmap(memory().pinned, base, &size);
}

bool in_device_memory(const void* base, std::size_t size) { return holds(memory().device, base, size); }
bool in_pinned_memory(const void* base, std::size_t size) { return holds(memory().pinned, base, size); }

bool is_host_address(std::uintptr_t address) {
  constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 32, kEnd = std::uintptr_t{1} << 47;
  if (address < kLowest || address >= kEnd) return false;
  // The guards of an allocation count as its own: one past the end is a fine pointer.
  for (const auto* all : {&memory().device, &memory().pinned}) {
    auto next = all->upper_bound(address);
    for (int step = 0; step < 2; ++step) {
      if (next != all->end()) {
        const auto mapping = reinterpret_cast<std::uintptr_t>(next->second.mapping);
        if (address - mapping < next->second.mapped) return false;
      }
      if (next == all->begin()) break;
      --next;
    }
  }
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

}  // namespace cuda_emulator
