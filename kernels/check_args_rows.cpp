#include "kernels/arg_rules.h"
#include "kernels/check_args.h"

// Operations on rows alone: a row's value needs neither its sequence nor its position.
namespace kernels {

Refusal check_args(const GatherRowsArgs& args, Activations activations) {
  const Rows n{args.rows.size.n};
  if (n.n == 0) return {};
  return ArgRules("gather_rows")
      .array("rows", args.rows, n.n)
      .matrix("y", args.y, activation_types(activations), n, args.x.cols)
      .matrix_of_at_least("x", args.x, {args.y.dtype}, Rows{1}, args.x.cols)
      .apart("y", args.y, "x", args.x)
      .refusal();
}

Refusal check_args(const AddArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  return ArgRules("add")
      .matrix("y", args.y, activation_types(activations), args.y.rows, args.y.cols)
      .matrix("x", args.x, {args.y.dtype}, args.y.rows, args.y.cols)
      .same_or_apart("y", args.y, "x", args.x)
      .refusal();
}

Refusal check_args(const ScaledSiluArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  return ArgRules("scaled_silu")
      .matrix("y", args.y, activation_types(activations), args.y.rows, args.y.cols)
      .matrix("x", args.x, {args.y.dtype}, args.y.rows, args.y.cols)
      .same_or_apart("y", args.y, "x", args.x)
      .refusal();
}

Refusal check_args(const SwigluArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  return ArgRules("swiglu")
      .matrix("y", args.y, activation_types(activations), args.y.rows, args.y.cols)
      .matrix("gate", args.gate, {args.y.dtype}, args.y.rows, args.y.cols)
      .matrix("up", args.up, {args.y.dtype}, args.y.rows, args.y.cols)
      .same_or_apart("y", args.y, "gate", args.gate)
      .same_or_apart("y", args.y, "up", args.up)
      .refusal();
}

Refusal check_args(const GemmArgs& args, Activations activations) {
  const Rows rows = args.x.rows;
  const Elements k = args.x.cols;
  const Rows n = args.w.rows();
  if (rows.n == 0 && args.y.rows.n == 0) return {};
  return ArgRules("gemm", args.name)
      .matrix("x", args.x, activation_types(activations), rows, k)
      .weight("w", args.w, n, k)
      .matrix("y", args.y, activation_types(activations), rows, Elements{n.n})
      .at_least("K", k.n, 8)
      .multiple("K", k.n, 8)
      .aligned("x", args.x)
      .aligned("y", args.y)
      .apart("y", args.y, "x", args.x)
      .apart("y", args.y, "w", args.w.matrix)
      .refusal();
}

Refusal check_args(const GemmGroupArgs& args, Activations activations) {
  for (const GemmGroupArgs::Output& output : args.outputs) {
    if (auto refusal = check_args(GemmArgs{output.y, args.x, output.w, args.form, output.name}, activations))
      return refusal;
  }
  return {};
}

Refusal check_args(const RmsNormArgs& args, Activations activations) {
  const Elements cols = args.x.cols;
  if (args.y.rows.n == 0) return {};
  return ArgRules("rms_norm")
      .at_least("group", args.group.n, 1)
      .matrix("x", args.x, activation_types(activations), args.y.rows, cols)
      .matrix("y", args.y, {args.x.dtype}, args.x.rows, cols)
      .multiple("cols", cols.n, args.group.n)
      .vector("w", args.w, args.w.size == cols ? cols : args.group)
      .same_or_apart("y", args.y, "x", args.x)
      .refusal();
}

Refusal check_args(const GatedRmsNormArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  return ArgRules("gated_rms_norm")
      .at_least("group", args.group.n, 1)
      .matrix("x", args.x, activation_types(activations), args.y.rows, args.x.cols)
      .matrix("z", args.z, {args.x.dtype}, args.x.rows, args.x.cols)
      .matrix("y", args.y, {args.x.dtype}, args.x.rows, args.x.cols)
      .multiple("cols", args.x.cols.n, args.group.n)
      .vector("w", args.w, args.group)
      .same_or_apart("y", args.y, "x", args.x)
      .same_or_apart("y", args.y, "z", args.z)
      .refusal();
}

Refusal check_args(const HeadGateArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  const std::int64_t last_head = std::int64_t{args.num_heads - 1} * args.gate_stride + args.head_dim;
  return ArgRules("head_gate")
      .at_least("num_heads", args.num_heads, 1)
      .at_least("head_dim", args.head_dim, 1)
      .at_least("gate_stride", args.gate_stride, args.head_dim)
      .matrix("y", args.y, activation_types(activations), args.y.rows,
              Elements{std::int64_t{args.num_heads} * args.head_dim})
      .equal("gate rows", args.gate.rows.n, args.y.rows.n)
      .matrix_of_at_least("gate", args.gate, {args.y.dtype}, args.y.rows, Elements{last_head})
      .refusal();
}

Refusal check_args(const RepeatStreamsArgs& args, Activations activations) {
  if (args.x.rows.n == 0) return {};
  return ArgRules("repeat_streams")
      .at_least("num_streams", args.num_streams, 1)
      .matrix("x", args.x, activation_types(activations), args.x.rows, args.x.cols)
      .matrix("h", args.h, {args.x.dtype}, args.x.rows, args.x.cols * args.num_streams)
      .apart("h", args.h, "x", args.x)
      .refusal();
}

Refusal check_args(const MixStreamsArgs& args, Activations activations) {
  if (args.x.rows.n == 0) return {};
  const Elements wide = args.x.cols * args.num_streams;
  return ArgRules("mix_streams")
      .at_least("num_streams", args.num_streams, 1)
      .matrix("x", args.x, activation_types(activations), args.x.rows, args.x.cols)
      .matrix("g", args.g, {args.x.dtype}, args.x.rows, wide)
      .matrix("xn", args.xn, {args.x.dtype}, args.x.rows, wide)
      .apart("x", args.x, "g", args.g)
      .apart("x", args.x, "xn", args.xn)
      .refusal();
}

Refusal check_args(const InjectStreamsArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  return ArgRules("inject_streams")
      .at_least("num_streams", args.num_streams, 1)
      .matrix("y", args.y, activation_types(activations), args.y.rows, args.y.cols)
      .matrix("h", args.h, {args.y.dtype}, args.y.rows, args.y.cols * args.num_streams)
      .equal("inject rows", args.inject.rows.n, args.y.rows.n)
      .matrix_of_at_least("inject", args.inject, {args.y.dtype}, args.y.rows, Elements{args.num_streams})
      .apart("h", args.h, "y", args.y)
      .apart("h", args.h, "inject", args.inject)
      .refusal();
}

}  // namespace kernels
