#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/arena.h"
#include "gpu/stream.h"
#include "kernels/ops.h"
#include "model/ids.h"

namespace model {

using gpu::ConstMatrix;
using gpu::DType;
using gpu::Elements;
using gpu::Matrix;
using gpu::Rows;

class ForwardProbe;

/// What a layer computes with: the rows of one form of the running step, and where scratch comes from. Layers
/// run once per form, so an operand begins at its buffer's first row or at the form's, and nowhere else.
struct StepContext {
  gpu::Stream& stream;
  kernels::Ops& ops;
  gpu::Arena& arena;
  DType activation = DType::f32;
  Rows capacity;  ///< rows that scratch is taken for: the plan's, so that every step uses the same bytes and
                  ///< addresses
  kernels::RowBatch batch;                  ///< the form's rows
  gpu::MatrixView<const std::int32_t> ids;  ///< [num_slots, max_seq_len]
  kernels::PageTables pages;
  std::int32_t max_seq_len = 0;
  ForwardProbe* probe = nullptr;

  /// Shows an intermediate value to the probe, when there is one. `layer` < 0: the name stands alone.
  void show(LayerIndex layer, const char* name, ConstMatrix value) const;
};

/// Step scratch of one block of code: given back when it ends, so that layers share the bytes. An overflow
/// sticks: the views of a Scratch may be used only after `status()` was seen to be ok.
class Scratch {
 public:
  explicit Scratch(StepContext& context) : context_(context), mark_(context.arena.mark()) {}
  ~Scratch() { context_.arena.rewind(mark_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// [rows of the batch, cols] in the activation dtype.
  Matrix matrix(std::int32_t cols, const char* what) { return matrix(context_.activation, cols, what); }
  Matrix matrix(DType dtype, std::int32_t cols, const char* what) { return matrix(dtype, 1, cols, what); }
  /// `per_row` rows for each row of the batch.
  Matrix matrix(DType dtype, std::int32_t per_row, std::int32_t cols, const char* what);
  /// `per_row` elements for each row of the batch, and `more`.
  gpu::VectorView<std::int32_t> indices(std::int32_t per_row, std::int32_t more, const char* what);

  const gpu::Status& status() const { return status_; }

 private:
  StepContext& context_;
  gpu::Bytes mark_;
  gpu::Status status_ = gpu::Done{};
};

/// y = x w^T in the form of the context's rows.
gpu::Status project(StepContext& context, Matrix y, ConstMatrix x, const kernels::Weight& w,
                    const char* name);
/// Several of them at once, of one x.
gpu::Status project(StepContext& context, ConstMatrix x,
                    std::span<const kernels::GemmGroupArgs::Output> outputs);

/// A block of a decoder layer, x [rows, hidden] → y [rows, hidden]: written once against Ops; if it has to
/// ask which backend runs it, an op is missing. Immutable after construction; called by the Runner's thread.
class Layer {
 public:
  virtual ~Layer() = default;
  /// y does not overlap x. Enqueued; a refusal leaves this step's rows undefined.
  virtual gpu::Status forward(StepContext& context, ConstMatrix x, Matrix y) const = 0;
};

/// Device bytes of one slot.
struct StateSpan {
  std::byte* base = nullptr;
  gpu::Bytes size;
};
/// The rows [first, first + count) of a matrix, pitch included.
StateSpan rows_span(Matrix matrix, Rows first, Rows count);

/// A block that remembers tokens beyond KV pages. The spans are the one place that says what a slot's state
/// is: reset zeroes them, save and restore copy them in this order.
class StatefulLayer : public Layer {
 public:
  virtual void append_state(StateSlot slot, std::vector<StateSpan>& spans) const = 0;
};

}  // namespace model
