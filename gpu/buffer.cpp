#include "gpu/buffer.h"

#include "gpu/device.h"

namespace gpu {

Buffer::~Buffer() {
  if (base_ != nullptr) owner_->free(base_, size_);
}

}  // namespace gpu
