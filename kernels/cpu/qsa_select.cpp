#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/page_rows.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/qsa_select.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/dots-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// Closed blocks scored at once: enough that their keys are fetched once for all index heads.
constexpr std::int32_t kScoredAtOnce = 64;

/// scores[first … end) of one row. A NaN survives the relu, so that it can be ranked last.
void score_blocks(const QsaSelectArgs& args, const float* q, std::int32_t slot, std::int32_t first,
                  std::int32_t end, float* scores) {
  const MatrixView<const float> closed = gpu::typed<float>(args.closed);
  for (std::int32_t start = first; start < end; start += kScoredAtOnce) {
    const std::int32_t n = std::min(kScoredAtOnce, end - start);
    const float* keys[kScoredAtOnce];
    for (std::int32_t j = 0; j < n; ++j) {
      keys[j] = closed.row({closed_row(args.pages, slot, args.ratio, start + j)});
    }
    std::fill_n(scores + start, n, 0.0F);
    for (std::int32_t head = 0; head < args.num_heads; ++head) {
      float products[kScoredAtOnce];
      dots(q + std::int64_t{head} * args.dim, keys, n, args.dim, products);
      for (std::int32_t j = 0; j < n; ++j) scores[start + j] += products[j] < 0.0F ? 0.0F : products[j];
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

/// Blocks of one row that one worker scores; independent of everything but the row.
constexpr std::int32_t kBlocksPerUnit = 1024;

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
  const MatrixView<const float> q = gpu::typed<float>(args.q);
  const MatrixView<float> scores = gpu::typed<float>(args.scores);
  const std::int32_t most_blocks = closed_blocks(args, batch.max_position);
  if (most_blocks <= args.top_blocks) return gpu::Done{};
  const std::int64_t units_per_row = gpu::ceil_div(most_blocks, kBlocksPerUnit);
  const double unit_cost = 0.1 * std::min(most_blocks, kBlocksPerUnit) * args.num_heads * args.dim;
  RETURN_IF_ERROR(parallel_ranges(stream, "qsa_select scores", batch.num_rows.n * units_per_row, unit_cost,
                                  [&](std::int64_t first, std::int64_t last) {
                                    for (std::int64_t unit = first; unit < last; ++unit) {
                                      const std::int64_t r = unit / units_per_row;
                                      const std::int32_t num_blocks =
                                          closed_blocks(args, batch.row_position.base[r]);
                                      const auto start =
                                          static_cast<std::int32_t>(unit % units_per_row) * kBlocksPerUnit;
                                      if (num_blocks <= args.top_blocks || start >= num_blocks) continue;
                                      HWY_DYNAMIC_DISPATCH(score_blocks)
                                      (args, q.row({r}), batch.row_slot.base[r], start,
                                       std::min(start + kBlocksPerUnit, num_blocks), scores.row({r}));
                                    }
                                  }));
  return parallel_ranges(
      stream, "qsa_select", batch.num_rows.n, 10.0 * most_blocks, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) {
          const std::int32_t num_blocks = closed_blocks(args, batch.row_position.base[r]);
          if (num_blocks <= args.top_blocks) continue;
          select_blocks(scores.row({r}), num_blocks, args.top_blocks, args.blocks.row({r}));
        }
      });
}

}  // namespace kernels::cpu
#endif
