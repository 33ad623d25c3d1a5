#include <algorithm>
#include <limits>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/quantized_rows.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/typed_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/moe.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Keeps the top_k largest of the values offered in ascending id order, descending; an equal value goes
/// behind, so the lower id wins. NaN sorts last, so that every slot holds a real expert.
struct TopSlots {
  std::int32_t* ids;
  float* values;
  std::int64_t top_k;
  std::int64_t count = 0;

  void offer(std::int32_t id, float value) {
    if (count == top_k && !before(value, values[top_k - 1])) return;
    std::int64_t slot = count < top_k ? count++ : top_k - 1;
    for (; slot > 0 && before(value, values[slot - 1]); --slot) {
      ids[slot] = ids[slot - 1];
      values[slot] = values[slot - 1];
    }
    ids[slot] = id;
    values[slot] = value;
  }
  static bool before(float a, float b) { return a > b || (b != b && a == a); }
};

void route_row(const float* logits, std::int64_t num_experts, std::int64_t top_k, bool renormalize,
               std::int32_t* ids, float* weights) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t e = 0; e < num_experts; ++e) largest = std::max(largest, logits[e]);
  const Lanes16 shift = splat(largest);
  Lanes16 acc = zero();
  alignas(64) float exps[kLanes];
  // Absent lanes of the last sixteen must add zero, not e^-largest.
  const auto exps_of = [&](std::int64_t e, std::int64_t n) HWY_ATTR {
    store(exp(sub(n == kLanes ? load(logits + e) : load_first(logits + e, n), shift)), exps);
    for (std::int64_t i = n; i < kLanes; ++i) exps[i] = 0.0F;
  };
  for (std::int64_t e = 0; e < num_experts; e += kLanes) {
    exps_of(e, std::min(kLanes, num_experts - e));
    acc = add(acc, load(exps));
  }
  const float total = sum(acc);
  TopSlots slots{ids, weights, top_k};
  for (std::int64_t e = 0; e < num_experts; e += kLanes) {
    const std::int64_t n = std::min(kLanes, num_experts - e);
    exps_of(e, n);
    for (std::int64_t i = 0; i < n; ++i) slots.offer(static_cast<std::int32_t>(e + i), exps[i] / total);
  }
  if (!renormalize) return;
  float kept = 0.0F;
  for (std::int64_t s = 0; s < top_k; ++s) kept += weights[s];
  for (std::int64_t s = 0; s < top_k; ++s) weights[s] /= kept;
}

gpu::Status moe_route_impl(gpu::HostStream& stream, const MoeRouteArgs& args) {
  const auto logits = gpu::typed<float>(args.logits);
  const double cost = static_cast<double>(logits.cols.n) * 3.0;
  return parallel_ranges(stream, "moe_route", logits.rows.n, cost,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             route_row(logits.row(Rows{r}), logits.cols.n, args.ids.cols.n, args.renormalize,
                                       args.ids.row(Rows{r}), args.weights.row(Rows{r}));
                           }
                         });
}

/// The (row, slot) pairs of a step ordered by expert, ascending within one: expert e has pairs[start[e]] …
/// pairs[start[e + 1] - 1].
struct ExpertOrder {
  const std::int32_t* start;
  const std::int32_t* pairs;
};

ExpertOrder order_by_expert(const MoeExpertsArgs& args) {
  std::int32_t* start = args.order.base;
  std::int32_t* pairs = start + args.num_experts + 1;
  const std::int64_t top_k = args.ids.cols.n;
  std::fill(start, start + args.num_experts + 1, 0);
  for (std::int64_t r = 0; r < args.x.rows.n; ++r) {
    for (std::int64_t s = 0; s < top_k; ++s) ++start[args.ids.row(Rows{r})[s]];
  }
  std::int32_t end = 0;
  for (std::int64_t e = 0; e <= args.num_experts; ++e) start[e] = end += start[e];
  for (std::int64_t pair = args.x.rows.n * top_k;
       pair-- > 0;) {  // backwards: each start moves from its expert's end to its first pair
    pairs[--start[args.ids.row(Rows{pair / top_k})[pair % top_k]]] = static_cast<std::int32_t>(pair);
  }
  return {start, pairs};
}

/// compute(expert, x rows, y rows, number of rows, first column, last column) for every expert's pairs, up to
/// kBlock of them at a time, and cuts of [0, columns): an expert's weights are read once a block. `k` is the
/// length of its dot products.
template <class Source, class Compute>
gpu::Status for_experts(gpu::HostStream& stream, const char* what, const MoeExpertsArgs& args,
                        const ExpertOrder& order, std::int64_t columns, std::int64_t k,
                        const MatrixView<float>& y, Source source, Compute compute) {
  constexpr std::int64_t kBlock = 32;
  constexpr std::int64_t kMaxCuts = 8;
  const std::int64_t num_pairs = order.start[args.num_experts];
  const double pair_cost = static_cast<double>(columns * k) / 10.0;
  const std::int64_t cut = gpu::round_up(
      std::max(units_per_tile(columns, pair_cost / static_cast<double>(columns)), columns / kMaxCuts),
      kLanes);
  const std::int64_t num_cuts = gpu::ceil_div(columns, cut);
  const std::int64_t num_units = args.num_experts * num_cuts;
  const double unit_cost = pair_cost * static_cast<double>(num_pairs) / static_cast<double>(num_units);
  const auto unit = [&](std::int64_t index) {
    const std::int64_t e = index / num_cuts;
    const std::int64_t first = index % num_cuts * cut;
    const std::int64_t last = std::min(first + cut, columns);
    for (std::int64_t p = order.start[e]; p < order.start[e + 1]; p += kBlock) {
      decltype(source(std::int32_t{0})) x_rows[kBlock];
      float* y_rows[kBlock];
      const std::int64_t n = std::min(kBlock, order.start[e + 1] - p);
      for (std::int64_t i = 0; i < n; ++i) {
        x_rows[i] = source(order.pairs[p + i]);
        y_rows[i] = y.row(Rows{order.pairs[p + i]});
      }
      compute(e, x_rows, y_rows, n, first, last);
    }
  };
  return parallel_ranges(stream, what, num_units, unit_cost, [&unit](std::int64_t first, std::int64_t last) {
    for (std::int64_t index = first; index < last; ++index) unit(index);
  });
}

/// Rows of x times rows [first, last) of all experts' weights, into y[row][n - shift].
template <class T>
struct FloatProduct {
  MatrixView<const T> w;
  MatrixView<const float> x;

  const float* row(std::int64_t r) const { return x.row(Rows{r}); }
  void operator()(const float* const* rows, float* const* y, std::int64_t n, std::int64_t first,
                  std::int64_t last, std::int64_t shift) const {
    dot_rows(rows, y, n, w.row(Rows{shift}), w.pitch.n, w.cols.n, first - shift, last - shift);
  }
};
struct QuantizedProduct {
  const QuantizedMatrix& w;
  const QuantizedRow* x;

  QuantizedRow row(std::int64_t r) const { return x[r]; }
  void operator()(const QuantizedRow* rows, float* const* y, std::int64_t n, std::int64_t first,
                  std::int64_t last, std::int64_t shift) const {
    product_rows(rows, y, n, w, first, last, shift);
  }
};

/// Calls body with the product of x and a weight of any type. `rows` is room for x as int8.
template <class Body>
gpu::Status with_product(gpu::HostStream& stream, QuantizedRows& rows, const MatrixView<const float>& x,
                         const Weight& weight, const Body& body) {
  if (weight.is_quantized()) {
    RETURN_IF_ERROR(rows.quantize(stream, x));
    return body(QuantizedProduct{weight.quantized, rows.rows()});
  }
  return with_weight_type(weight.matrix, [&]<class T>(const MatrixView<const T>& w) {
    return body(FloatProduct<T>{w, x});
  });
}

/// hidden[pair, 0 … I-1] = silu(gate_e x) * (up_e x).
template <class Product>
gpu::Status expert_hidden(gpu::HostStream& stream, const MoeExpertsArgs& args, const ExpertOrder& order,
                          const Product& product) {
  const std::int64_t inner = args.intermediate;
  const std::int64_t top_k = args.ids.cols.n;
  const auto source = [&](std::int32_t pair) { return product.row(pair / top_k); };
  const auto compute = [&](std::int64_t e, const auto* x_rows, float* const* y_rows, std::int64_t n,
                           std::int64_t first, std::int64_t last) HWY_ATTR {
    const std::int64_t gate_row = 2 * e * inner, up_row = gate_row + inner;
    product(x_rows, y_rows, n, gate_row + first, gate_row + last, gate_row);
    product(x_rows, y_rows, n, up_row + first, up_row + last, gate_row);
    for (std::int64_t i = 0; i < n; ++i) {
      float* gate = y_rows[i] + first;
      const float* up = gate + inner;
      for_lanes(last - first, [&](auto at, std::int64_t c) HWY_ATTR {
        at.store(mul(silu(at.load(gate + c)), at.load(up + c)), gate + c);
      });
    }
  };
  return for_experts(stream, "moe_experts gate_up", args, order, inner, 2 * args.x.cols.n,
                     gpu::typed<float>(args.hidden), source, compute);
}

/// out[pair] = down_e hidden[pair].
template <class Product>
gpu::Status expert_out(gpu::HostStream& stream, const MoeExpertsArgs& args, const ExpertOrder& order,
                       const Product& product) {
  const std::int64_t columns = args.x.cols.n;
  const auto source = [&](std::int32_t pair) { return product.row(pair); };
  const auto compute = [&](std::int64_t e, const auto* x_rows, float* const* y_rows, std::int64_t n,
                           std::int64_t first, std::int64_t last) HWY_ATTR {
    product(x_rows, y_rows, n, e * columns + first, e * columns + last, e * columns);
  };
  return for_experts(stream, "moe_experts down", args, order, columns, args.intermediate,
                     gpu::typed<float>(args.out), source, compute);
}

gpu::Status moe_experts_impl(gpu::HostStream& stream, const MoeExpertsArgs& args) {
  const auto x = gpu::typed<float>(args.x);
  const auto y = gpu::typed<float>(args.y);
  const auto out = gpu::typed<float>(args.out);
  const std::int64_t top_k = args.ids.cols.n;
  const ExpertOrder order = order_by_expert(args);
  thread_local QuantizedRows rows;
  RETURN_IF_ERROR(with_product(stream, rows, x, args.gate_up, [&](const auto& product) {
    return expert_hidden(stream, args, order, product);
  }));
  const auto pairs = gpu::typed<float>(
      ConstMatrix(args.hidden).first_rows(Rows{x.rows.n * top_k}).columns(Elements{0}, args.down.cols()));
  RETURN_IF_ERROR(with_product(stream, rows, pairs, args.down, [&](const auto& product) {
    return expert_out(stream, args, order, product);
  }));
  const double cost = static_cast<double>(x.cols.n * top_k) * 0.2;
  return parallel_ranges(stream, "moe_experts sum", x.rows.n, cost,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             const float* weights = args.weights.row(Rows{r});
                             for_lanes(x.cols.n, [&](auto at, std::int64_t i) HWY_ATTR {
                               Lanes16 acc = zero();
                               for (std::int64_t s = 0; s < top_k; ++s)
                                 acc = fma(splat(weights[s]), at.load(out.row(Rows{r * top_k + s}) + i), acc);
                               at.store(acc, y.row(Rows{r}) + i);
                             });
                           }
                         });
}

gpu::Status shared_expert_add_impl(gpu::HostStream& stream, const SharedExpertAddArgs& args) {
  const auto y = gpu::typed<float>(args.y);
  const auto shared = gpu::typed<float>(args.shared);
  const auto gate = gpu::typed<float>(args.gate);
  return parallel_ranges(stream, "shared_expert_add", y.rows.n, static_cast<double>(y.cols.n) * 0.2,
                         [&](std::int64_t first, std::int64_t last) {
                           for (std::int64_t r = first; r < last; ++r) {
                             add_scaled(sigmoid1(gate.row(Rows{r})[0]), shared.row(Rows{r}), y.row(Rows{r}),
                                        y.cols.n);
                           }
                         });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
HWY_EXPORT(moe_route_impl);
HWY_EXPORT(moe_experts_impl);
HWY_EXPORT(shared_expert_add_impl);

gpu::Status moe_route(gpu::HostStream& stream, const MoeRouteArgs& args) {
  return HWY_DYNAMIC_DISPATCH(moe_route_impl)(stream, args);
}

gpu::Status moe_experts(gpu::HostStream& stream, const MoeExpertsArgs& args) {
  for (std::int64_t r = 0; r < args.x.rows.n; ++r) {
    for (std::int64_t s = 0; s < args.ids.cols.n; ++s) {
      const std::int32_t id = args.ids.row(Rows{r})[s];
      if (id < 0 || id >= args.num_experts) {
        return gpu::refused("moe_experts: ids[" + std::to_string(r) + "][" + std::to_string(s) + "] is " +
                            std::to_string(id) + " of " + std::to_string(args.num_experts) + " experts");
      }
    }
  }
  return HWY_DYNAMIC_DISPATCH(moe_experts_impl)(stream, args);
}

gpu::Status shared_expert_add(gpu::HostStream& stream, const SharedExpertAddArgs& args) {
  return HWY_DYNAMIC_DISPATCH(shared_expert_add_impl)(stream, args);
}

}  // namespace kernels::cpu
#endif
