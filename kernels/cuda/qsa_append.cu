#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/page_rows.h"

namespace kernels::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
struct Append {
  MatrixView<T> closed, ring;
  MatrixView<const T> raw;
  const float* k_norm;
  PageTables pages;
  Rope rope;
  const std::int32_t* segment_slot;
  const std::int32_t* segment_first_row;
  const std::int32_t* segment_num_rows;
  const std::int32_t* row_position;
  std::int32_t ring_rows, ratio;
  float eps, added;
};

/// One segment, and where its raw keys and those before it are.
template <class T>
struct RawKeys {
  MatrixView<const T> raw, ring;
  std::int32_t ring_rows, slot, first_position, end_position;
  std::int64_t first_row;

  __device__ RawKeys(const Append<T>& a, std::int64_t segment)
      : raw(a.raw),
        ring(a.ring),
        ring_rows(a.ring_rows),
        slot(a.segment_slot[segment]),
        first_position(a.row_position[a.segment_first_row[segment]]),
        end_position(first_position + a.segment_num_rows[segment]),
        first_row(a.segment_first_row[segment]) {}

  __device__ Rows ring_row(std::int32_t position) const {
    return {std::int64_t{slot} * ring_rows + position % ring_rows};
  }
  __device__ const T* at(std::int32_t position) const {
    if (position >= first_position) return raw.row(Rows{first_row + position - first_position});
    return ring.row(ring_row(position));
  }
};

/// A block a closed key (blockIdx.x) of a segment (blockIdx.y). The key is made in fp32 in shared memory,
/// `dim` values, and rounded once where it is stored.
template <class T>
__global__ void __launch_bounds__(kThreads) close_blocks_kernel(Append<T> a) {
  __shared__ float sums[kThreads / 32];
  auto* const key = reinterpret_cast<float*>(dynamic_shared());
  const RawKeys<T> keys(a, blockIdx.y);
  const std::int32_t block = keys.first_position / a.ratio + static_cast<std::int32_t>(blockIdx.x);
  if (block >= keys.end_position / a.ratio) return;
  const std::int32_t start = block * a.ratio;
  const int dim = static_cast<int>(a.raw.cols.n);
  const int t = static_cast<int>(threadIdx.x);

  float squares = 0.0F;
  for (int i = t; i < dim; i += kThreads) {
    float sum = to_float(keys.at(start)[i]);
    for (std::int32_t p = start + 1; p < start + a.ratio; ++p) sum += to_float(keys.at(p)[i]);
    const float mean = sum / static_cast<float>(a.ratio);
    key[i] = mean;
    squares = fmaf(mean, mean, squares);
  }
  const float total = block_sum<kThreads>(squares, sums);
  const float scale = 1.0F / sqrtf(total / static_cast<float>(dim) + a.eps);
  for (int i = t; i < dim; i += kThreads) key[i] = key[i] * scale * (a.added + a.k_norm[i]);
  __syncthreads();

  T* const out = a.closed.row(Rows{closed_row(a.pages, keys.slot, a.ratio, block)});
  const int half = static_cast<int>(a.rope.inv_freq.size.n);
  for (int i = t; i < half; i += kThreads) {
    float sine, cosine;
    sincosf(static_cast<float>(start) * a.rope.inv_freq.base[i], &sine, &cosine);
    sine *= a.rope.attention_factor;
    cosine *= a.rope.attention_factor;
    const float low = key[i], high = key[i + half];
    out[i] = from_float<T>(low * cosine - high * sine);
    out[i + half] = from_float<T>(high * cosine + low * sine);
  }
  for (int i = 2 * half + t; i < dim; i += kThreads) out[i] = from_float<T>(key[i]);
}

/// The last rows (blockIdx.x) of a segment (blockIdx.y) enter its slot's ring, behind the kernel that still
/// needed the old ones.
template <class T>
__global__ void __launch_bounds__(kThreads) fill_ring_kernel(Append<T> a) {
  const RawKeys<T> keys(a, blockIdx.y);
  const std::int32_t oldest = max(keys.first_position, keys.end_position - a.ring_rows);
  const std::int32_t position = oldest + static_cast<std::int32_t>(blockIdx.x);
  if (position >= keys.end_position) return;
  const T* const from = keys.at(position);
  T* const to = a.ring.row(keys.ring_row(position));
  for (std::int64_t i = threadIdx.x; i < a.raw.cols.n; i += kThreads) to[i] = from[i];
}

}  // namespace

gpu::Status qsa_index_append(Context& context, const RowBatch& batch, const QsaIndexAppendArgs& args) {
  return with_activation(args.raw.dtype, [&](auto zero) -> gpu::Status {
    using T = decltype(zero);
    const Append<T> a = {gpu::typed<T>(args.closed),
                         gpu::typed<T>(args.ring),
                         gpu::typed<T>(args.raw),
                         gpu::typed<float>(args.k_norm).base,
                         args.pages,
                         args.rope,
                         batch.segment_slot.base,
                         batch.segment_first_row.base,
                         batch.segment_num_rows.base,
                         batch.row_position.base,
                         args.ring_rows,
                         args.ratio,
                         args.eps,
                         args.norm_weight == NormWeight::one_plus ? 1.0F : 0.0F};
    const unsigned segments = to_grid(batch.num_segments);
    const std::int64_t most_blocks = batch.max_segment_rows / args.ratio + 1;
    RETURN_IF_ERROR(launch(context.stream, "qsa_index_append blocks",
                           {{to_grid(most_blocks), segments}, {kThreads}, args.raw.cols.n * 4},
                           close_blocks_kernel<T>, a));
    const std::int64_t kept = std::min(args.ring_rows, batch.max_segment_rows);
    return launch(context.stream, "qsa_index_append ring", {{to_grid(kept), segments}, {kThreads}},
                  fill_ring_kernel<T>, a);
  });
}

}  // namespace kernels::cuda
