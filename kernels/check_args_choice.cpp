#include "kernels/arg_rules.h"
#include "kernels/check_args.h"

// Operations that pick rows, experts or tokens.
namespace kernels {

Refusal check_args(const GatherTableArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  return ArgRules("gather_table")
      .table("table", args.table)
      .matrix("rows", untyped(args.rows), kI64, args.y.rows, args.rows.cols)
      .matrix("y", args.y, activation_types(activations), args.y.rows, args.table.cols() * args.rows.cols.n)
      .refusal();
}

Refusal check_args(const PleGateArgs& args, Activations activations) {
  if (args.value.rows.n == 0) return {};
  const Elements wide = args.value.cols * args.num_streams;
  return ArgRules("ple_gate")
      .at_least("num_streams", args.num_streams, 1)
      .matrix("value", args.value, activation_types(activations), args.value.rows, args.value.cols)
      .matrix("gv", args.gv, {args.value.dtype}, args.value.rows, wide)
      .matrix("key", args.key, {args.value.dtype}, args.value.rows, wide)
      .matrix("query", args.query, {args.value.dtype}, args.value.rows, wide)
      .apart("gv", args.gv, "value", args.value)
      .refusal();
}

Refusal check_args(const MoeRouteArgs& args, Activations activations) {
  if (args.logits.rows.n == 0) return {};
  return ArgRules("moe_route")
      .at_least("top_k", args.ids.cols.n, 1)
      .at_least("experts", args.logits.cols.n, args.ids.cols.n)
      .matrix("logits", args.logits, activation_types(activations), args.logits.rows, args.logits.cols)
      .matrix("ids", untyped(args.ids), kI32, args.logits.rows, args.ids.cols)
      .matrix("weights", untyped(args.weights), kF32, args.logits.rows, args.ids.cols)
      .refusal();
}

Refusal check_args(const MoeExpertsArgs& args, Activations activations) {
  if (args.x.rows.n == 0) return {};
  const Rows rows = args.x.rows;
  const Elements hidden = args.x.cols;
  const std::int64_t top_k = args.ids.cols.n;
  const std::int64_t pairs = rows.n * top_k;
  return ArgRules("moe_experts")
      .at_least("num_experts", args.num_experts, 1)
      .at_least("intermediate", args.intermediate, 8)
      .multiple("intermediate", args.intermediate, 8)
      .multiple("hidden size", hidden.n, 8)
      .at_least("top_k", top_k, 1)
      .matrix("x", args.x, activation_types(activations), rows, hidden)
      .matrix("y", args.y, {args.x.dtype}, rows, hidden)
      .matrix("ids", untyped(args.ids), kI32, rows, args.ids.cols)
      .matrix("weights", untyped(args.weights), kF32, rows, args.ids.cols)
      .weight("gate_up", args.gate_up, Rows{2 * std::int64_t{args.num_experts} * args.intermediate}, hidden)
      .weight("down", args.down, Rows{args.num_experts * hidden.n}, Elements{args.intermediate})
      .matrix_of_at_least("hidden", args.hidden, {args.x.dtype}, Rows{pairs},
                          Elements{2 * std::int64_t{args.intermediate}})
      .matrix_of_at_least("out", args.out, {args.x.dtype}, Rows{pairs}, hidden)
      .at_least("order entries", args.order.size.n, pairs + args.num_experts + 1)
      .require(args.order.base != nullptr, "order has no memory")
      .aligned("x", args.x)
      .aligned("hidden", args.hidden)
      .aligned("out", args.out)
      .apart("hidden", args.hidden, "x", args.x)
      .apart("out", args.out, "hidden", args.hidden)
      .apart("y", args.y, "out", args.out)
      .refusal();
}

Refusal check_args(const SharedExpertAddArgs& args, Activations activations) {
  if (args.y.rows.n == 0) return {};
  return ArgRules("shared_expert_add")
      .matrix("y", args.y, activation_types(activations), args.y.rows, args.y.cols)
      .matrix("shared", args.shared, {args.y.dtype}, args.y.rows, args.y.cols)
      .equal("gate rows", args.gate.rows.n, args.y.rows.n)
      .matrix_of_at_least("gate", args.gate, {args.y.dtype}, args.y.rows, Elements{1})
      .refusal();
}

Refusal check_args(const SampleArgs& args, Activations) {
  const Rows rows = args.logits.rows;
  if (rows.n == 0) return {};
  return ArgRules("sample")
      .at_least("vocabulary", args.logits.cols.n, 1)
      .array("out", args.out, rows.n)
      .array("params", args.params, rows.n)
      .matrix("logits", untyped(args.logits), kF32, rows, args.logits.cols)
      .matrix("scratch", untyped(args.scratch), kF32, rows, args.logits.cols)
      .matrix_of_at_least("ids", untyped(args.ids), kI32, Rows{1}, Elements{1})
      .apart("scratch", untyped(args.scratch), "logits", untyped(args.logits))
      .refusal();
}

}  // namespace kernels
