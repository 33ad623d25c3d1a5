#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "kernels/hooked_ops.h"

namespace model::testing {

/// Numbers the operations, and gives an embedding's hook where the ids lie.
class HookedOps final : public kernels::HookedOps {
 public:
  /// What goes wrong before operation `index` (from 0) of the backend; an error takes the operation's place.
  using IndexHook = std::function<Status(Stream&, int index)>;
  using EmbeddingHook = std::function<Status(Stream&, const kernels::EmbeddingArgs&)>;

  explicit HookedOps(std::unique_ptr<kernels::Ops> inner)
      : kernels::HookedOps(std::move(inner), [this](Stream& stream, std::string_view) -> Status {
          const int index = num_operations_++;
          return before_index ? before_index(stream, index) : Status(gpu::Done{});
        }) {}
  IndexHook before_index;
  EmbeddingHook before_embedding;
  int num_operations() const { return num_operations_; }

  Status embedding(Stream& stream, const Batch& batch, const kernels::EmbeddingArgs& args) override {
    if (before_embedding) RETURN_IF_ERROR(before_embedding(stream, args));
    return kernels::HookedOps::embedding(stream, batch, args);
  }

 private:
  int num_operations_ = 0;
};

}  // namespace model::testing
