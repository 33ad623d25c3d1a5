#include <algorithm>
#include <random>
#include <set>

#include "bench/kernels/rig.h"

// The router and the experts. Turns choose other experts, so that a turn's weights are not in the cache.
namespace bench {
namespace {

using kernels::Form;

/// Expert ids of `rows` rows: distinct within a row, uniform.
std::vector<std::int32_t> some_experts(const Shapes& s, std::int64_t rows, std::mt19937& random) {
  std::vector<std::int32_t> ids;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::set<std::int32_t> chosen;
    while (chosen.size() < static_cast<std::size_t>(s.top_k))
      chosen.insert(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(s.experts)));
    ids.insert(ids.end(), chosen.begin(), chosen.end());
  }
  return ids;
}

void bench_route(Rig& rig, std::int64_t rows) {
  const Shapes& s = rig.shapes();
  if (!rig.wants("moe_route")) return;
  Memory memory(rig);
  const Matrix logits = memory.activation(rows, s.experts);
  const auto ids = gpu::typed<std::int32_t>(memory.zeros(DType::i32, rows, s.top_k));
  const auto weights = gpu::typed<float>(memory.zeros(DType::f32, rows, s.top_k));
  rig.row("moe_route", std::to_string(s.top_k) + " of " + std::to_string(s.experts), rows,
          {activation_bytes(s, rows, s.experts) + 8.0 * static_cast<double>(rows * s.top_k), 0.0},
          [&](std::int64_t) {
            return rig.ops().moe_route(rig.stream(), {ids, weights, logits, true});
          });
}

void bench_experts_of(Rig& rig, const Matrix& gate_up, const Matrix& down, std::int64_t rows, Form form) {
  const Shapes& s = rig.shapes();
  Memory memory(rig);
  std::mt19937 random(7);
  std::vector<MatrixView<std::int32_t>> ids;
  double touched = 0.0;
  constexpr int kTurns = 16;
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto chosen = some_experts(s, rows, random);
    touched += static_cast<double>(std::set<std::int32_t>(chosen.begin(), chosen.end()).size()) / kTurns;
    ids.push_back(memory.of(chosen, s.top_k));
  }
  const std::int64_t pairs = rows * s.top_k;
  kernels::MoeExpertsArgs args;
  args.x = memory.activation(rows, s.hidden);
  args.y = memory.activation(rows, s.hidden);
  args.weights = memory.of(std::vector<float>(static_cast<std::size_t>(pairs), 0.1F), s.top_k);
  args.gate_up = gate_up;
  args.down = down;
  args.num_experts = s.experts;
  args.intermediate = s.intermediate;
  args.form = form;
  args.hidden = memory.activation(pairs, 2 * std::int64_t{s.intermediate});
  args.out = memory.activation(pairs, s.hidden);
  args.order = memory.of(std::vector<std::int32_t>(static_cast<std::size_t>(pairs + s.experts + 1), 0));
  const double expert = 3.0 * static_cast<double>(s.intermediate * s.hidden);
  rig.row(
      "moe_experts",
      std::to_string(s.top_k) + " of " + std::to_string(s.experts) + ", " + std::to_string(s.intermediate),
      rows,
      {2.0 * expert * touched + activation_bytes(s, rows, 2 * s.hidden),
       2.0 * expert * static_cast<double>(pairs)},
      [&](std::int64_t t) {
        args.ids = nth(ids, t);
        return rig.ops().moe_experts(rig.stream(), args);
      });
}

}  // namespace

void bench_experts(Rig& rig) {
  const Shapes& s = rig.shapes();
  for (const auto* all : {&s.decode_rows, &s.prefill_rows})
    for (const std::int64_t rows : *all) bench_route(rig, rows);
  if (!rig.wants("moe_experts")) return;
  Memory memory(rig);
  const Matrix gate_up = memory.weight(std::int64_t{s.experts} * 2 * s.intermediate, s.hidden);
  const Matrix down = memory.weight(s.experts * s.hidden, s.intermediate);
  for (const std::int64_t rows : s.decode_rows) bench_experts_of(rig, gate_up, down, rows, Form::decode);
  for (const std::int64_t rows : s.prefill_rows) bench_experts_of(rig, gate_up, down, rows, Form::prefill);
}

}  // namespace bench
