#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "gpu/error.h"
#include "kernels/batch.h"
#include "kernels/check_args.h"
#include "kernels/gemm.h"

namespace kernels {

/// The requirements of one call, stated one after another; the first that fails is kept and becomes the
/// refusal, naming op, operand and numbers. Costs comparisons alone while everything holds: text is made on
/// failure.
class ArgRules {
 public:
  explicit ArgRules(const char* op, const char* name = nullptr) : op_(op), name_(name) {}

  ArgRules& equal(const char* what, std::int64_t value, std::int64_t wanted);
  ArgRules& at_least(const char* what, std::int64_t value, std::int64_t least);
  ArgRules& multiple(const char* what, std::int64_t value, std::int64_t step);
  ArgRules& require(bool holds, const char* what_is_wrong);

  ArgRules& type(const char* operand, gpu::DType type, std::initializer_list<gpu::DType> allowed);
  /// [rows, cols] of one of these types, with memory behind it and a pitch that does not fold rows.
  ArgRules& matrix(const char* operand, const ConstMatrix& m, std::initializer_list<gpu::DType> types,
                   Rows rows, Elements cols);
  /// The same with at least as many rows and columns: scratch, tables, and views cut from a wider buffer.
  ArgRules& matrix_of_at_least(const char* operand, const ConstMatrix& m,
                               std::initializer_list<gpu::DType> types, Rows rows, Elements cols);
  /// [rows, cols] of a type that weights have, or packed blocks of a quantised one, on 16-byte boundaries.
  ArgRules& weight(const char* operand, const Weight& w, Rows rows, Elements cols);
  /// A table whose rows are looked up: the same in any layout, with at least one row.
  ArgRules& table(const char* operand, const Weight& w);
  /// f32 [size].
  ArgRules& vector(const char* operand, const ConstVector& v, Elements size);
  template <class T>
  ArgRules& array(const char* operand, const VectorView<T>& v, std::int64_t size) {
    return plain_array(operand, v.base, v.size.n, size);
  }

  /// Base and rows on 16-byte boundaries.
  ArgRules& aligned(const char* operand, const ConstMatrix& m);
  ArgRules& apart(const char* a_name, const ConstMatrix& a, const char* b_name, const ConstMatrix& b);
  /// In place, or no overlap.
  ArgRules& same_or_apart(const char* a_name, const ConstMatrix& a, const char* b_name, const ConstMatrix& b);

  /// The batch's arrays hold what its counts say.
  ArgRules& batch(const RowBatch& batch);
  /// Every position of the batch has an entry in the page table; `num_pages` is how many pages the caches
  /// hold.
  ArgRules& pages(const PageTables& pages, const RowBatch& batch);
  ArgRules& rope(const Rope& rope, std::int64_t head_dim);

  std::optional<gpu::DeviceError> refusal() { return std::move(refusal_); }

 private:
  ArgRules& fail(const std::string& what);
  ArgRules& plain_array(const char* operand, const void* base, std::int64_t have, std::int64_t wanted);
  ArgRules& layout(const char* operand, const ConstMatrix& m);
  ArgRules& blocks(const char* operand, const QuantizedMatrix& m);

  const char* op_;
  const char* name_;
  std::optional<gpu::DeviceError> refusal_;
};

/// Activations of an op, and the caches and states made of them.
std::initializer_list<gpu::DType> activation_types(Activations activations);
/// Weights as checkpoints hold them.
inline constexpr std::initializer_list<gpu::DType> kWeight = {gpu::DType::f32, gpu::DType::f16,
                                                              gpu::DType::bf16};
inline constexpr std::initializer_list<gpu::DType> kF32 = {gpu::DType::f32};
inline constexpr std::initializer_list<gpu::DType> kI32 = {gpu::DType::i32};
inline constexpr std::initializer_list<gpu::DType> kI64 = {gpu::DType::i64};

template <class T>
ConstMatrix untyped(const MatrixView<T>& m) {
  return {reinterpret_cast<const std::byte*>(m.base), gpu::DTypeOf<std::remove_const_t<T>>::value, m.rows,
          m.cols, m.pitch};
}

/// True when an element of `a` shares a byte with one of `b`. Two column ranges of one buffer do not.
bool overlap(const ConstMatrix& a, const ConstMatrix& b);

}  // namespace kernels
