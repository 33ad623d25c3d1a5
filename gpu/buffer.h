#pragma once

#include <cstddef>
#include <utility>

#include "gpu/units.h"

namespace gpu {

class Device;

/// Owns device memory; 256-byte aligned. Freed by the device that gave it, so the device must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* owner, std::byte* base, Bytes size) : owner_(owner), base_(base), size_(size) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Buffer();

  std::byte* base() const { return base_; }
  Bytes size() const { return size_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
  }
  Device* owner_ = nullptr;
  std::byte* base_ = nullptr;
  Bytes size_;
};

}  // namespace gpu
