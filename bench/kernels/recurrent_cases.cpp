#include "bench/kernels/batches.h"

// Causal convolutions and the gated delta net. Decode turns take other slots: a slot's state is larger than
// what a step reads besides.
namespace bench {
namespace {

void bench_conv(Rig& rig, const std::vector<kernels::RowBatch>& batches, const std::string& name,
                std::int64_t channels, std::int32_t dilation) {
  const Shapes& s = rig.shapes();
  if (!rig.wants(name)) return;
  const std::int64_t rows = batches.front().num_rows.n;
  Memory memory(rig);
  const std::int32_t ring_rows = (s.taps - 1) * dilation;
  kernels::CausalConvArgs args;
  args.x = memory.activation(rows, channels);
  args.y = memory.activation(rows, channels);
  args.w = memory.random(DType::f32, channels, s.taps);
  args.ring = memory.activation(std::int64_t{s.slots} * ring_rows, channels);
  args.ring_rows = ring_rows;
  args.taps = s.taps;
  args.dilation = dilation;
  // A sequence's history is read and its newest inputs enter the ring.
  const double history = static_cast<double>(batches.front().num_segments) * (s.taps - 1);
  const double newest = static_cast<double>(
      std::min<std::int64_t>(rows, batches.front().num_segments * std::int64_t{ring_rows}));
  rig.row(name, std::to_string(channels) + ", " + std::to_string(s.taps) + " taps", rows,
          {activation_bytes(s, rows, 2 * channels) + (history + newest) * activation_bytes(s, 1, channels) +
               4.0 * static_cast<double>(channels * s.taps),
           2.0 * static_cast<double>(rows * channels * s.taps)},
          [&](std::int64_t t) { return rig.ops().causal_conv(rig.stream(), nth(batches, t), args); });
}

void bench_gdn(Rig& rig, const std::vector<kernels::RowBatch>& batches) {
  const Shapes& s = rig.shapes();
  if (!rig.wants("gdn")) return;
  const std::int64_t rows = batches.front().num_rows.n;
  Memory memory(rig);
  kernels::GdnArgs args;
  args.qkv = memory.activation(rows, s.conv_width());
  args.o = memory.activation(rows, s.value_width());
  args.a = memory.activation(rows, s.v_heads);
  args.b = memory.activation(rows, s.v_heads);
  args.a_log = memory.vector(s.v_heads);
  args.dt_bias = memory.vector(s.v_heads);
  const std::int64_t state = std::int64_t{s.gdn_dim} * s.gdn_dim;
  args.state = memory.random(DType::f32, std::int64_t{s.slots} * s.v_heads, state);
  args.num_k_heads = s.k_heads;
  args.num_v_heads = s.v_heads;
  args.k_dim = args.v_dim = s.gdn_dim;
  const bool prefill = batches.front().form == kernels::Form::prefill;
  // The recurrent form's operations a row: decay, S^T k, the update, S^T q.
  const double a_state = static_cast<double>(s.v_heads * state);
  rig.row(prefill ? "gdn, chunks" : "gdn, recurrent",
          std::to_string(s.k_heads) + "/" + std::to_string(s.v_heads) + "x" + std::to_string(s.gdn_dim), rows,
          {activation_bytes(s, rows, s.conv_width() + s.value_width() + 2 * s.v_heads) +
               8.0 * a_state * static_cast<double>(batches.front().num_segments),
           7.0 * a_state * static_cast<double>(rows)},
          [&](std::int64_t t) { return rig.ops().gdn(rig.stream(), nth(batches, t), args); });
}

}  // namespace

void bench_recurrent(Rig& rig) {
  const Shapes& s = rig.shapes();
  const auto all = [&](const std::vector<kernels::RowBatch>& batches) {
    bench_conv(rig, batches, "causal_conv gdn", s.conv_width(), 1);
    bench_conv(rig, batches, "causal_conv ple", s.wide(), s.ngram_size);
    bench_gdn(rig, batches);
  };
  for (const std::int64_t rows : s.decode_rows) {
    Memory memory(rig);
    all(decode_batches(memory, s, rows, s.contexts.front()));
  }
  for (const std::int64_t rows : s.prefill_rows) {
    Memory memory(rig);
    all(prefill_batches(memory, s, rows));
  }
}

}  // namespace bench
