#pragma once

#include <memory>

#include "kernels/ops.h"

namespace model {

/// A backend that does nothing and agrees to everything: with it a forward pass only takes its scratch, which
/// measures it.
std::unique_ptr<kernels::Ops> make_null_ops();
std::unique_ptr<gpu::Stream> make_null_stream();

}  // namespace model
