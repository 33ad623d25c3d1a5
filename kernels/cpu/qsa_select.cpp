#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/page_rows.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/qsa_select.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/dots-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Closed blocks whose keys are found and multiplied together.
constexpr std::int32_t kScoredAtOnce = 64;

/// Scores of blocks [first, end) for consecutive rows of one slot, whose keys are then fetched once. A row
/// keeps those of its own closed blocks. A NaN survives the relu, so that it can be ranked last.
void score_blocks(const RowBatch& batch, const QsaSelectArgs& args, std::int64_t first_row,
                  std::int64_t end_row, std::int32_t first, std::int32_t end) {
  const MatrixView<const float> closed = gpu::typed<float>(args.closed), q = gpu::typed<float>(args.q);
  const MatrixView<float> scores = gpu::typed<float>(args.scores);
  const std::int64_t num_heads = args.num_heads, queries = (end_row - first_row) * num_heads;
  static thread_local std::vector<const float*> q_rows;
  static thread_local std::vector<float> products;
  q_rows.resize(static_cast<std::size_t>(queries));
  products.resize(static_cast<std::size_t>(queries * kScoredAtOnce));
  for (std::int64_t m = 0; m < queries; ++m) {
    q_rows[static_cast<std::size_t>(m)] = q.row({first_row + m / num_heads}) + m % num_heads * args.dim;
  }
  for (std::int32_t start = first; start < end; start += kScoredAtOnce) {
    const std::int32_t n = std::min(kScoredAtOnce, end - start);
    const float* keys[kScoredAtOnce];
    for (std::int32_t j = 0; j < n; ++j) {
      keys[j] = closed.row({closed_row(args.pages, batch.row_slot.base[first_row], args.ratio, start + j)});
    }
    dots(q_rows.data(), queries, keys, n, args.dim, products.data(), kScoredAtOnce);
    for (std::int64_t r = first_row; r < end_row; ++r) {
      const std::int32_t own = std::min(n, (batch.row_position.base[r] + 1) / args.ratio - start);
      const float* const of_row = products.data() + (r - first_row) * num_heads * kScoredAtOnce;
      for (std::int32_t j = 0; j < own; ++j) {
        float score = 0.0F;
        for (std::int64_t head = 0; head < num_heads; ++head) {
          const float product = of_row[head * kScoredAtOnce + j];
          score += product < 0.0F ? 0.0F : product;
        }
        scores.row({r})[start + j] = score;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
namespace {

HWY_EXPORT(score_blocks);

/// Closed blocks of one unit of scoring; small enough that one long sequence is spread over the workers.
constexpr std::int32_t kBlocksPerUnit = 1024;
/// Rows of a prompt in one unit of scoring.
constexpr std::int64_t kRowsPerUnit = 8;

std::int32_t closed_blocks(const QsaSelectArgs& args, std::int32_t position) {
  return (position + 1) / args.ratio;
}

/// Ascending rank of a block: the higher score first, then the lower index. Unique, so the best `n` are one
/// set.
std::uint64_t rank(float score, std::int32_t index) {
  const float ranked = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  const auto bits = std::bit_cast<std::uint32_t>(ranked);
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{~ascending} << 32 | static_cast<std::uint32_t>(index);
}

void select_blocks(const float* scores, std::int32_t num_blocks, std::int32_t top, std::int32_t* out) {
  static thread_local std::vector<std::uint64_t> ranks;
  ranks.resize(static_cast<std::size_t>(num_blocks));
  for (std::int32_t j = 0; j < num_blocks; ++j) ranks[static_cast<std::size_t>(j)] = rank(scores[j], j);
  std::nth_element(ranks.begin(), ranks.begin() + (top - 1), ranks.end());
  const std::uint64_t worst = ranks[static_cast<std::size_t>(top - 1)];
  for (std::int32_t j = 0; j < num_blocks; ++j) {
    if (rank(scores[j], j) <= worst) *out++ = j;
  }
}

}  // namespace

gpu::Status qsa_select(gpu::HostStream& stream, const RowBatch& batch, const QsaSelectArgs& args) {
  const MatrixView<float> scores = gpu::typed<float>(args.scores);
  const std::int32_t most_blocks = closed_blocks(args, batch.max_position);
  if (most_blocks <= args.top_blocks) return gpu::Done{};
  const auto selects = [&](std::int64_t row) {
    return closed_blocks(args, batch.row_position.base[row]) > args.top_blocks;
  };
  const std::int64_t parts = gpu::ceil_div(most_blocks, kBlocksPerUnit);
  const std::int64_t rows_per_unit = batch.form == Form::prefill ? kRowsPerUnit : 1;
  const double cost = 0.05 * std::min(most_blocks, kBlocksPerUnit) * static_cast<double>(rows_per_unit) *
                      args.num_heads * args.dim;
  RETURN_IF_ERROR(parallel_ranges(
      stream, "qsa_select scores", gpu::ceil_div(batch.num_rows.n, rows_per_unit) * parts, cost,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t unit = first; unit < last; ++unit) {
          const std::int64_t end_row = std::min(batch.num_rows.n, (unit / parts + 1) * rows_per_unit);
          const auto start = static_cast<std::int32_t>(unit % parts) * kBlocksPerUnit;
          for (std::int64_t row = unit / parts * rows_per_unit, next; row < end_row; row = next) {
            next = row + 1;
            if (!selects(row)) continue;
            while (next < end_row && selects(next) && batch.row_slot.base[next] == batch.row_slot.base[row])
              ++next;
            std::int32_t end = 0;
            for (std::int64_t r = row; r < next; ++r)
              end = std::max(end, closed_blocks(args, batch.row_position.base[r]));
            HWY_DYNAMIC_DISPATCH(score_blocks)
            (batch, args, row, next, start, std::min(start + kBlocksPerUnit, end));
          }
        }
      }));
  return parallel_ranges(
      stream, "qsa_select", batch.num_rows.n, 10.0 * most_blocks, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
          if (!selects(r)) continue;
          const std::int32_t num_blocks = closed_blocks(args, batch.row_position.base[r]);
          select_blocks(scores.row({r}), num_blocks, args.top_blocks, args.blocks.row({r}));
        }
      });
}

}  // namespace kernels::cpu
#endif
