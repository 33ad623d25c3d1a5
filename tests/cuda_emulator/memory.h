#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulator {

/// The device's memory: each allocation a mapping of its own whose last byte (up to 255 bytes of rounding)
/// lies before a page without access, filled with 0xFF.
inline constexpr std::size_t kDeviceMemory = std::size_t{4} << 30;

std::size_t device_memory_free();
/// Null when there is not so much.
void* allocate_device(std::size_t size);
/// False: not an allocation's base.
bool free_device(void* base);
void* allocate_pinned(std::size_t size);
bool free_pinned(void* base);

/// True when all of [base, base + size) lies in one allocation on the device.
bool in_device_memory(const void* base, std::size_t size);
bool in_pinned_memory(const void* base, std::size_t size);
/// True for an address at which this process has memory that is neither the device's nor pinned.
bool is_host_address(std::uintptr_t address);

}  // namespace cuda_emulator
