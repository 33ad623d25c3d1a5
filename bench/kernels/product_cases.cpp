#include <algorithm>
#include <cstdio>

#include "bench/kernels/rig.h"

// Dense products. Weights rotate beyond the cache; activations are small beside them in decode, and in
// prefill the product is bound by the matmul rate.
namespace bench {
namespace {

using kernels::Form;

std::string shape_of(std::int64_t n, std::int64_t k) { return std::to_string(n) + "x" + std::to_string(k); }

Cost cost_of(const Rig& rig, std::int64_t rows, std::int64_t n, std::int64_t k, DType y) {
  return {2.0 * static_cast<double>(n * k) + activation_bytes(rig.shapes(), rows, k) +
              static_cast<double>(rows * n * size_of(y)),
          2.0 * static_cast<double>(rows * n * k)};
}

struct Product {
  std::string name;
  std::int64_t n, k;
  bool is_head = false;  ///< decode rows alone, to f32 logits
};

void bench_product(Rig& rig, const Product& product) {
  const Shapes& s = rig.shapes();
  Memory memory(rig);
  const auto weights = memory.rotating(2.0 * static_cast<double>(product.n * product.k),
                                       [&] { return memory.weight(product.n, product.k); });
  const auto rows_of = [&](const std::vector<std::int64_t>& all_rows, Form form) {
    for (const std::int64_t rows : all_rows) {
      Memory operands(rig);
      const DType y_type = product.is_head ? DType::f32 : s.activation;
      const Matrix x = operands.activation(rows, product.k), y = operands.zeros(y_type, rows, product.n);
      rig.row("gemm " + product.name, shape_of(product.n, product.k), rows,
              cost_of(rig, rows, product.n, product.k, y_type), [&](std::int64_t turn) {
                return rig.ops().gemm(rig.stream(), {y, x, nth(weights, turn), form, "bench"});
              });
    }
  };
  rows_of(s.decode_rows, Form::decode);
  if (!product.is_head) rows_of(s.prefill_rows, Form::prefill);
}

/// The four products of a GDN layer's input as one group.
void bench_group(Rig& rig) {
  const Shapes& s = rig.shapes();
  const std::int64_t widths[] = {s.conv_width(), s.value_width(), s.v_heads, s.v_heads};
  std::int64_t n = 0;
  for (const std::int64_t width : widths) n += width;
  Memory memory(rig);
  const auto weights = memory.rotating(2.0 * static_cast<double>(n * s.hidden), [&] {
    std::vector<Matrix> of_layer;
    for (const std::int64_t width : widths) of_layer.push_back(memory.weight(width, s.hidden));
    return of_layer;
  });
  const auto rows_of = [&](const std::vector<std::int64_t>& all_rows, Form form) {
    for (const std::int64_t rows : all_rows) {
      Memory operands(rig);
      const Matrix x = operands.activation(rows, s.hidden);
      std::vector<Matrix> ys;
      for (const std::int64_t width : widths) ys.push_back(operands.zeros(s.activation, rows, width));
      rig.row("gemm_group gdn in", shape_of(n, s.hidden), rows, cost_of(rig, rows, n, s.hidden, s.activation),
              [&](std::int64_t turn) {
                std::vector<kernels::GemmGroupArgs::Output> outputs;
                for (std::size_t i = 0; i < ys.size(); ++i)
                  outputs.push_back({ys[i], nth(weights, turn)[i], "bench"});
                return rig.ops().gemm_group(rig.stream(), {x, outputs, form});
              });
    }
  };
  rows_of(s.decode_rows, Form::decode);
  rows_of(s.prefill_rows, Form::prefill);
}

}  // namespace

void bench_products(Rig& rig) {
  const Shapes& s = rig.shapes();
  const Product products[] = {
      {"gdn qkv", s.conv_width(), s.hidden},
      {"gdn z", s.value_width(), s.hidden},
      {"gdn a, b", s.v_heads, s.hidden},
      {"gdn out, attn out", s.hidden, s.value_width()},
      {"attn q", 2 * s.query_width(), s.hidden},
      {"attn k, v", s.kv_width(), s.hidden},
      {"indexer", std::int64_t{s.index_heads + 1} * s.index_dim, s.hidden},
      {"hc down", s.hc_rank, s.wide()},
      {"hc up", s.wide(), s.hc_rank},
      {"hc inject", s.streams, s.wide()},
      {"ple key", s.wide(), s.ngram_width()},
      {"router", s.experts, s.hidden},
      {"shared gate, up", s.intermediate, s.hidden},
      {"shared down", s.hidden, s.intermediate},
      {"lm_head", s.vocab, s.hidden, true},
  };
  if (rig.wants("gemm_group")) bench_group(rig);
  for (const Product& product : products) {
    if (rig.wants("gemm " + product.name)) bench_product(rig, product);
  }
}

void measure_machine(Rig& rig) {
  const Shapes& s = rig.shapes();
  Memory memory(rig);
  const Matrix x = memory.activation(s.matmul, s.matmul), w = memory.weight(s.matmul, s.matmul),
               y = memory.zeros(s.activation, s.matmul, s.matmul);
  const auto product = rig.time([&](std::int64_t) {
    return rig.ops().gemm(rig.stream(), {y, x, w, Form::prefill, "matmul rate"});
  });
  if (!product.ok()) fail(product.error().what);
  const double n = static_cast<double>(s.matmul);
  rig.matmul_rate = 2.0 * n * n * n / product->seconds;

  // Read bandwidth: the scan of greedy sampling, which writes next to nothing, or a copy (half of it read),
  // whichever is faster.
  const std::int64_t bytes = s.stream_rows * s.vocab * 4;
  const Matrix logits = memory.random(DType::f32, s.stream_rows, s.vocab);
  const Matrix other = memory.zeros(DType::f32, s.stream_rows, s.vocab);
  const auto copied =
      rig.time([&](std::int64_t) { return rig.stream().copy(other.base, logits.base, {bytes}, "copy"); });
  if (!copied.ok()) fail(copied.error().what);
  kernels::SampleArgs args;
  args.out = memory.of(std::vector<kernels::SampledRow>(static_cast<std::size_t>(s.stream_rows)));
  args.ids = gpu::typed<std::int32_t>(memory.zeros(DType::i32, 1, 8));
  args.logits = gpu::typed<float>(logits);
  args.scratch = gpu::typed<float>(other);
  args.params = memory.of(std::vector<kernels::RowSampling>(static_cast<std::size_t>(s.stream_rows)));
  const auto scanned = rig.time([&](std::int64_t) { return rig.ops().sample(rig.stream(), args); });
  if (!scanned.ok()) fail(scanned.error().what);
  const double by_copy = 2.0 * static_cast<double>(bytes) / copied->seconds;
  const double by_scan = static_cast<double>(bytes) / scanned->seconds;
  rig.bandwidth = std::max(by_copy, by_scan);
  std::printf(
      "Measured first: %.2f TB/s (copy, read and written %.2f; scan of [%lld, %lld] f32 %.2f), %.0f TFLOP/s "
      "(product of %lld^3, %s).\n\n",
      1e-12 * rig.bandwidth, 1e-12 * by_copy, static_cast<long long>(s.stream_rows),
      static_cast<long long>(s.vocab), 1e-12 * by_scan, 1e-12 * rig.matmul_rate,
      static_cast<long long>(s.matmul), std::string(to_string(s.activation)).c_str());
}

}  // namespace bench
