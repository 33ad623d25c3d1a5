#include "bench/kernels/batches.h"

// Operations that go row by row: norms, rotary embedding, element-wise ones, streams. Their operands are what
// the operation before has just written, so in decode they come from the cache, here as in a step; in prefill
// they are larger than it.
namespace bench {
namespace {

/// What one op is timed with, for one number of rows.
struct RowCase {
  std::string op, shape;
  std::int64_t columns_moved;  ///< elements of activations a row reads and writes
  Call call;
};

/// Matrices of one row count, a set a turn.
class Operands {
 public:
  Operands(Rig& rig, std::int64_t rows) : rig_(rig), memory_(rig), rows_(rows) {}
  std::vector<Matrix> of(std::int64_t cols) {
    return memory_.rotating(4.0 * activation_bytes(rig_.shapes(), rows_, cols),
                            [&] { return memory_.activation(rows_, cols); });
  }
  Memory& memory() { return memory_; }

 private:
  Rig& rig_;
  Memory memory_;
  std::int64_t rows_;
};

void bench_norms(Rig& rig, std::int64_t rows, const kernels::RowBatch& batch) {
  const Shapes& s = rig.shapes();
  if (!rig.wants("norm")) return;
  Operands operands(rig, rows);
  Memory& memory = operands.memory();
  const auto wide_x = operands.of(s.wide()), wide_y = operands.of(s.wide());
  const auto value = operands.of(s.value_width()), gate = operands.of(s.value_width());
  const auto raw = operands.of(2 * s.query_width()), heads = operands.of(s.query_width());
  const ConstVector wide_w = memory.vector(s.wide()), head_w = memory.vector(s.head_dim),
                    value_w = memory.vector(s.gdn_dim);
  const kernels::Rope rope{memory.of(std::vector<float>(static_cast<std::size_t>(s.rotary_dim / 2), 0.01F)),
                           1.0F};
  const RowCase cases[] = {
      {"rms_norm", std::to_string(s.streams) + " groups of " + std::to_string(s.hidden), 2 * s.wide(),
       [&](std::int64_t t) {
         return rig.ops().rms_norm(rig.stream(), {nth(wide_y, t), nth(wide_x, t), wide_w, {s.hidden}});
       }},
      {"gated_rms_norm", std::to_string(s.v_heads) + "x" + std::to_string(s.gdn_dim), 3 * s.value_width(),
       [&](std::int64_t t) {
         return rig.ops().gated_rms_norm(rig.stream(),
                                         {nth(value, t), nth(value, t), nth(gate, t), value_w, {s.gdn_dim}});
       }},
      {"head_norm_rope q", std::to_string(s.heads) + "x" + std::to_string(s.head_dim), 2 * s.query_width(),
       [&](std::int64_t t) {
         kernels::HeadNormRopeArgs args;
         args.y = nth(heads, t), args.x = nth(raw, t), args.w = head_w, args.rope = rope;
         args.num_heads = s.heads, args.head_dim = s.head_dim, args.head_stride = 2 * s.head_dim;
         return rig.ops().head_norm_rope(rig.stream(), batch, args);
       }},
  };
  for (const RowCase& c : cases) {
    if (rig.wants(c.op))
      rig.row(c.op, c.shape, rows, {activation_bytes(s, rows, c.columns_moved), 0.0}, c.call);
  }
}

void bench_elements(Rig& rig, std::int64_t rows) {
  const Shapes& s = rig.shapes();
  Operands operands(rig, rows);
  Memory& memory = operands.memory();
  const auto wide = operands.of(s.wide()), wide_other = operands.of(s.wide());
  const auto narrow = operands.of(s.hidden), narrow_other = operands.of(s.hidden);
  const auto rank = operands.of(s.hc_rank);
  const auto up = operands.of(s.intermediate), gate = operands.of(s.intermediate);
  const auto heads = operands.of(s.query_width()), head_gates = operands.of(2 * s.query_width());
  const Matrix inject = memory.activation(rows, 8);
  const auto num_streams = static_cast<std::int32_t>(s.streams);
  std::vector<std::int32_t> reversed;
  for (std::int64_t r = rows; r-- > 0;) reversed.push_back(static_cast<std::int32_t>(r));
  const VectorView<std::int32_t> order = memory.of(reversed);
  const std::string of_hidden = std::to_string(s.hidden),
                    of_wide = std::to_string(s.streams) + "x" + of_hidden;
  const RowCase cases[] = {
      {"gather_rows", of_hidden, 2 * s.hidden,
       [&](std::int64_t t) {
         return rig.ops().gather_rows(rig.stream(), {nth(narrow, t), nth(narrow_other, t), order});
       }},
      {"add", of_wide, 3 * s.wide(),
       [&](std::int64_t t) {
         return rig.ops().add(rig.stream(), {nth(wide, t), nth(wide_other, t)});
       }},
      {"scaled_silu", std::to_string(s.hc_rank), 2 * s.hc_rank,
       [&](std::int64_t t) {
         return rig.ops().scaled_silu(rig.stream(), {nth(rank, t), nth(rank, t), 0.25F});
       }},
      {"swiglu", std::to_string(s.intermediate), 3 * s.intermediate,
       [&](std::int64_t t) {
         return rig.ops().swiglu(rig.stream(), {nth(up, t), nth(gate, t), nth(up, t)});
       }},
      {"head_gate", std::to_string(s.heads) + "x" + std::to_string(s.head_dim), 3 * s.query_width(),
       [&](std::int64_t t) {
         const Matrix gates = nth(head_gates, t).columns({s.head_dim}, {2 * s.query_width() - s.head_dim});
         return rig.ops().head_gate(rig.stream(),
                                    {nth(heads, t), gates, s.heads, s.head_dim, 2 * s.head_dim});
       }},
      {"shared_expert_add", of_hidden, 3 * s.hidden,
       [&](std::int64_t t) {
         return rig.ops().shared_expert_add(rig.stream(), {nth(narrow, t), nth(narrow_other, t), inject});
       }},
      {"repeat_streams", of_wide, s.hidden + s.wide(),
       [&](std::int64_t t) {
         return rig.ops().repeat_streams(rig.stream(), {nth(wide, t), nth(narrow, t), num_streams});
       }},
      {"mix_streams", of_wide, 2 * s.wide() + s.hidden,
       [&](std::int64_t t) {
         return rig.ops().mix_streams(rig.stream(),
                                      {nth(narrow, t), nth(wide, t), nth(wide_other, t), num_streams});
       }},
      {"inject_streams", of_wide, 2 * s.wide() + s.hidden,
       [&](std::int64_t t) {
         return rig.ops().inject_streams(rig.stream(), {nth(wide, t), nth(narrow, t), inject, num_streams});
       }},
      {"ple_gate", of_wide, 3 * s.wide() + s.hidden,
       [&](std::int64_t t) {
         return rig.ops().ple_gate(rig.stream(), {nth(wide, t), nth(wide_other, t), nth(wide_other, t + 1),
                                                  nth(narrow, t), num_streams});
       }},
  };
  for (const RowCase& c : cases) {
    if (rig.wants(c.op))
      rig.row(c.op, c.shape, rows, {activation_bytes(s, rows, c.columns_moved), 0.0}, c.call);
  }
}

}  // namespace

void bench_rows(Rig& rig) {
  const Shapes& s = rig.shapes();
  const auto rows_of = [&](std::int64_t rows, const auto& batches_of) {
    Memory memory(rig);
    bench_norms(rig, rows, batches_of(memory).front());
    bench_elements(rig, rows);
  };
  for (const std::int64_t rows : s.decode_rows)
    rows_of(rows, [&](Memory& memory) { return decode_batches(memory, s, rows, s.contexts.front()); });
  for (const std::int64_t rows : s.prefill_rows)
    rows_of(rows, [&](Memory& memory) { return prefill_batches(memory, s, rows); });
}

}  // namespace bench
