#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/page_rows.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/qsa_append.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kernels::cpu {
namespace HWY_NAMESPACE {

/// out = rms1(out; k_norm).
void norm_key(const QsaIndexAppendArgs& args, float* out, std::int64_t dim) {
  const float* const w = gpu::typed<float>(args.k_norm).base;
  const float inverse = rsqrt1(dot(out, out, dim) / static_cast<float>(dim) + args.eps);
  const float added = args.norm_weight == NormWeight::one_plus ? 1.0F : 0.0F;
  for (std::int64_t i = 0; i < dim; ++i) out[i] = out[i] * inverse * (added + w[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kernels::cpu {
namespace {

HWY_EXPORT(norm_key);

/// One segment, and where its raw keys and those before it are.
struct RawKeys {
  MatrixView<const float> raw;
  MatrixView<const float> ring;
  std::int32_t ring_rows;
  std::int32_t slot;
  std::int32_t first_position, end_position;
  std::int64_t first_row;

  gpu::Rows ring_row(std::int32_t position) const {
    return {std::int64_t{slot} * ring_rows + position % ring_rows};
  }

  const float* at(std::int32_t position) const {
    if (position >= first_position) return raw.row({first_row + position - first_position});
    return ring.row(ring_row(position));
  }
};

void rope(const Rope& rope, std::int32_t position, float* x) {
  const std::int64_t half = rope.inv_freq.size.n;
  for (std::int64_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope.inv_freq.base[i];
    const float c = std::cos(angle) * rope.attention_factor, s = std::sin(angle) * rope.attention_factor;
    const float low = x[i], high = x[i + half];
    x[i] = low * c - high * s;
    x[i + half] = high * c + low * s;
  }
}

/// The key of the block that begins at `start`: mean in ascending order, norm, rope at the block's first
/// position.
void close_block(const QsaIndexAppendArgs& args, const RawKeys& keys, std::int32_t start, float* out) {
  const std::int64_t dim = args.raw.cols.n;
  std::copy_n(keys.at(start), dim, out);
  for (std::int32_t p = start + 1; p < start + args.ratio; ++p) {
    const float* const key = keys.at(p);
    for (std::int64_t i = 0; i < dim; ++i) out[i] += key[i];
  }
  for (std::int64_t i = 0; i < dim; ++i) out[i] /= static_cast<float>(args.ratio);
  HWY_DYNAMIC_DISPATCH(norm_key)(args, out, dim);
  rope(args.rope, start, out);
}

RawKeys keys_of_segment(const RowBatch& batch, const QsaIndexAppendArgs& args, std::int64_t segment) {
  const std::int64_t first_row = batch.segment_first_row.base[segment];
  return {gpu::typed<float>(args.raw),
          gpu::typed<float>(gpu::ConstMatrix(args.ring)),
          args.ring_rows,
          batch.segment_slot.base[segment],
          batch.row_position.base[first_row],
          batch.row_position.base[first_row] + batch.segment_num_rows.base[segment],
          first_row};
}

}  // namespace

gpu::Status qsa_index_append(gpu::HostStream& stream, const RowBatch& batch, const QsaIndexAppendArgs& args) {
  const MatrixView<float> closed = gpu::typed<float>(args.closed);
  const MatrixView<float> ring = gpu::typed<float>(args.ring);
  const std::int64_t dim = args.raw.cols.n;
  // Blocks first: they read the ring rows that the second pass replaces.
  const std::int32_t most_blocks = batch.max_segment_rows / args.ratio + 1;
  const double cost = 2.0 * static_cast<double>(dim * args.ratio + 20 * args.rope.inv_freq.size.n);
  RETURN_IF_ERROR(parallel_ranges(
      stream, "qsa_index_append blocks", std::int64_t{batch.num_segments} * most_blocks, cost,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t unit = first; unit < last; ++unit) {
          const RawKeys keys = keys_of_segment(batch, args, unit / most_blocks);
          const std::int32_t block =
              keys.first_position / args.ratio + static_cast<std::int32_t>(unit % most_blocks);
          if (block >= keys.end_position / args.ratio) continue;
          close_block(args, keys, block * args.ratio,
                      closed.row({closed_row(args.pages, keys.slot, args.ratio, block)}));
        }
      }));
  return parallel_ranges(
      stream, "qsa_index_append ring", batch.num_segments, 0.1 * static_cast<double>(dim * args.ring_rows),
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t segment = first; segment < last; ++segment) {
          const RawKeys keys = keys_of_segment(batch, args, segment);
          const std::int32_t oldest = std::max(keys.first_position, keys.end_position - args.ring_rows);
          for (std::int32_t p = oldest; p < keys.end_position; ++p)
            std::copy_n(keys.at(p), dim, ring.row(keys.ring_row(p)));
        }
      });
}

}  // namespace kernels::cpu
#endif
