#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/shared_rows.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/page_rows.h"

namespace kernels::cuda {
namespace {

constexpr int kThreads = 256;        // of the scores: a warp eight keys
constexpr int kKeys = 64;            // scored together
constexpr int kKeysPerBlock = 256;   // one thread block's
constexpr int kRowQueries = 64;      // (row, head) pairs of a prompt that share the keys they fetch
constexpr int kSelectThreads = 512;  // of one row's selection
constexpr int kScorePitch = kKeys + 8;

template <class T>
struct Scored {
  MatrixView<float> scores;
  MatrixView<const T> q, closed;
  const std::int32_t* slot;
  const std::int32_t* position;
  PageTables pages;
  std::int64_t num_rows;
  std::int32_t num_heads, dim, ratio, top_blocks, rows_per_block, max_queries;
  unsigned key_groups;  ///< of the longest row: kKeysPerBlock each
  bool wide;
};

template <class T>
std::int64_t shared_bytes(const Scored<T>& s) {
  const std::int64_t rows = s.max_queries + kKeys;
  return rows * shared_pitch<T>(s.dim) * static_cast<std::int64_t>(sizeof(T)) +
         std::int64_t{s.max_queries} * kScorePitch * 4;
}

/// Thread block x + key_groups * y: keys [x * kKeysPerBlock, …) for rows [y * rows_per_block, …). Rows of one slot that
/// select share the keys they fetch; a row keeps the scores of its own closed blocks. A NaN survives the
/// relu, so that it can be ranked last. Bytes: the closed keys once per rows_per_block rows, 2 dim a key:
/// what a decode row must read. Flops of a prompt: 2 heads dim a row and key, on the tensor cores; single
/// buffering leaves them idle while keys arrive.
template <class T>
__global__ void __launch_bounds__(kThreads) score_kernel(Scored<T> s) {
  const int pitch = shared_pitch<T>(s.dim);
  T* const q = reinterpret_cast<T*>(dynamic_shared());
  T* const keys = q + s.max_queries * pitch;
  auto* const products = reinterpret_cast<float*>(keys + kKeys * pitch);
  const int t = static_cast<int>(threadIdx.x);
  const std::int64_t row_group = blockIdx.x / s.key_groups;
  const std::int64_t group_end = min(s.num_rows, (row_group + 1) * s.rows_per_block);
  const auto num_closed = [&](std::int64_t row) { return (s.position[row] + 1) / s.ratio; };
  const auto selects = [&](std::int64_t row) { return num_closed(row) > s.top_blocks; };

  for (std::int64_t row = row_group * s.rows_per_block, next; row < group_end; row = next) {
    next = row + 1;
    if (!selects(row)) continue;
    const std::int32_t slot = s.slot[row];
    std::int32_t end = num_closed(row);
    for (; next < group_end && selects(next) && s.slot[next] == slot; ++next)
      end = max(end, num_closed(next));
    const auto first = static_cast<std::int32_t>(blockIdx.x % s.key_groups) * kKeysPerBlock;
    end = min(end, first + kKeysPerBlock);
    if (first >= end) continue;
    const int queries = static_cast<int>(next - row) * s.num_heads;
    const int tiles = (queries + 15) / 16;

    fetch_rows<kThreads>(q, tiles * 16, s.dim, s.wide, s.q.base, [&](int m) -> const T* {
      return m < queries ? s.q.row(Rows{row + m / s.num_heads}) + m % s.num_heads * s.dim : nullptr;
    });
    for (std::int32_t start = first; start < end; start += kKeys) {
      fetch_rows<kThreads>(keys, kKeys, s.dim, s.wide, s.closed.base, [&](int j) -> const T* {
        return start + j < end ? s.closed.row(Rows{closed_row(s.pages, slot, s.ratio, start + j)}) : nullptr;
      });
      commit_copies();
      wait_copies<0>();
      __syncthreads();
      const int key = t / 32 * 8;  // this warp's first
      for (int tile = 0; tile < tiles; ++tile) {
        float d[4] = {};
        multiply_rows(d, q + tile * 16 * pitch, pitch, keys + key * pitch, pitch, padded_columns(s.dim));
        store_product(products + tile * 16 * kScorePitch + key, kScorePitch, d);
      }
      __syncthreads();
      for (int i = t; i < static_cast<int>(next - row) * kKeys; i += kThreads) {
        const std::int64_t r = row + i / kKeys;
        const int j = i % kKeys;
        if (start + j >= min(end, num_closed(r))) continue;
        const float* const of_row = products + i / kKeys * s.num_heads * kScorePitch + j;
        float score = 0.0F;
        for (int head = 0; head < s.num_heads; ++head) {
          const float product = of_row[head * kScorePitch];
          score += product < 0.0F ? 0.0F : product;
        }
        s.scores.row(Rows{r})[start + j] = score;
      }
    }
    __syncthreads();  // the next run's queries replace these
  }
}

/// Ascends with the score; NaN counts as -inf.
__device__ inline std::uint32_t key_of(float score) {
  const std::uint32_t bits = (score != score) ? 0xFF800000U : __float_as_uint(score);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// Adds one to histogram[bin] for each lane that is `in`. Scores resemble each other: those that share the
/// first lane's bin are added at once.
__device__ inline void count_bin(unsigned* histogram, unsigned bin, bool in) {
  const unsigned all = __ballot_sync(kWholeWarp, in);
  if (all == 0) return;
  const int first = __ffs(static_cast<int>(all)) - 1;
  const unsigned shared_bin = __shfl_sync(kWholeWarp, bin, first);
  const unsigned same = __ballot_sync(kWholeWarp, in && bin == shared_bin);
  if (static_cast<int>(threadIdx.x) % 32 == first) {
    atomicAdd(&histogram[shared_bin], static_cast<unsigned>(__popc(same)));
  } else if (in && bin != shared_bin) {
    atomicAdd(&histogram[bin], 1U);
  }
}

struct Cut {
  std::uint32_t bits;  ///< of the key of the last one taken, from the top down as far as is known
  unsigned wanted;     ///< how many to take among those with these bits
};

/// By one whole warp: the bin that holds the wanted-th largest, and how many of that bin are wanted.
__device__ inline void find_bin(const unsigned* histogram, int shift, Cut* cut) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned own = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) own += histogram[255 - 8 * lane - i];
  unsigned before = own;
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const unsigned other = __shfl_up_sync(kWholeWarp, before, static_cast<unsigned>(apart));
    if (lane >= apart) before += other;
  }
  before -= own;
  const unsigned wanted = cut->wanted;
  __syncwarp();
  if (wanted <= before || wanted > before + own) return;  // one lane goes on
  for (int i = 0; i < 8; ++i) {
    const int bin = 255 - 8 * lane - i;
    if (wanted <= before + histogram[bin]) {
      *cut = {cut->bits | static_cast<std::uint32_t>(bin) << shift, wanted - before};
      return;
    }
    before += histogram[bin];
  }
}

struct Selected {
  MatrixView<std::int32_t> blocks;
  MatrixView<const float> scores;
  const std::int32_t* position;
  std::int32_t ratio, top_blocks;
};

/// One row a thread block: a radix select of the top_blocks-th largest key, eight bits a pass, then one pass
/// that writes the chosen indices in ascending order; of equal keys the lowest indices. Bytes: five passes
/// over the row's scores, 4 a closed block, from L2; a row of a million positions is 5 MB through one SM,
/// which several thread blocks a row would share.
__global__ void __launch_bounds__(kSelectThreads) select_kernel(Selected s) {
  constexpr int kWarps = kSelectThreads / 32;
  __shared__ unsigned histogram[256];
  __shared__ unsigned larger_of_warp[kWarps], equal_of_warp[kWarps];
  __shared__ Cut cut;
  const Rows row{blockIdx.x};
  const std::int32_t num_blocks = (s.position[row.n] + 1) / s.ratio;
  if (num_blocks <= s.top_blocks) return;
  const float* const scores = s.scores.row(row);
  std::int32_t* const out = s.blocks.row(row);
  const int t = static_cast<int>(threadIdx.x);
  const int warp = t / 32, lane = t % 32;

  if (t == 0) cut = {0, static_cast<unsigned>(s.top_blocks)};
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = t; i < 256; i += kSelectThreads) histogram[i] = 0;
    __syncthreads();
    const std::uint32_t known = cut.bits;
    const std::uint32_t mask = shift == 24 ? 0U : 0xFFFFFFFFU << (shift + 8);
    for (std::int32_t first = 0; first < num_blocks; first += kSelectThreads) {
      const std::int32_t j = first + t;
      const std::uint32_t key = j < num_blocks ? key_of(scores[j]) : 0U;
      count_bin(histogram, key >> shift & 255U, j < num_blocks && (key & mask) == known);
    }
    __syncthreads();
    if (warp == 0) find_bin(histogram, shift, &cut);
    __syncthreads();
  }

  const Cut last = cut;
  unsigned larger_before = 0, equal_before = 0;  // in the passes of the loop so far
  for (std::int32_t first = 0; first < num_blocks; first += kSelectThreads) {
    const std::int32_t j = first + t;
    const std::uint32_t key = j < num_blocks ? key_of(scores[j]) : 0U;
    const bool larger = j < num_blocks && key > last.bits, equal = j < num_blocks && key == last.bits;
    const unsigned all_larger = __ballot_sync(kWholeWarp, larger);
    const unsigned all_equal = __ballot_sync(kWholeWarp, equal);
    if (lane == 0) {
      larger_of_warp[warp] = static_cast<unsigned>(__popc(all_larger));
      equal_of_warp[warp] = static_cast<unsigned>(__popc(all_equal));
    }
    __syncthreads();
    const unsigned lower_lanes = (1U << lane) - 1U;
    unsigned larger_rank = larger_before + static_cast<unsigned>(__popc(all_larger & lower_lanes));
    unsigned equal_rank = equal_before + static_cast<unsigned>(__popc(all_equal & lower_lanes));
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) larger_rank += larger_of_warp[w];
      if (w < warp) equal_rank += equal_of_warp[w];
      larger_before += larger_of_warp[w];
      equal_before += equal_of_warp[w];
    }
    if (larger || (equal && equal_rank < last.wanted)) out[larger_rank + min(equal_rank, last.wanted)] = j;
    __syncthreads();
  }
}

}  // namespace

gpu::Status qsa_select(Context& context, const RowBatch& batch, const QsaSelectArgs& args) {
  const std::int64_t most_blocks = (std::int64_t{batch.max_position} + 1) / args.ratio;
  if (most_blocks <= args.top_blocks) return gpu::Done{};
  RETURN_IF_ERROR(with_activation(args.q.dtype, [&](auto zero) {
    using T = decltype(zero);
    Scored<T> s = {};
    s.scores = gpu::typed<float>(args.scores);
    s.q = gpu::typed<T>(args.q);
    s.closed = gpu::typed<T>(args.closed);
    s.slot = batch.row_slot.base;
    s.position = batch.row_position.base;
    s.pages = args.pages;
    s.num_rows = batch.num_rows.n;
    s.num_heads = args.num_heads;
    s.dim = args.dim;
    s.ratio = args.ratio;
    s.top_blocks = args.top_blocks;
    s.rows_per_block = batch.form == Form::prefill ? std::max(1, kRowQueries / args.num_heads) : 1;
    s.max_queries = static_cast<std::int32_t>(gpu::round_up(s.rows_per_block * args.num_heads, 16));
    s.wide = args.dim % kPer16<T> == 0 && in_16_bytes(args.q) && in_16_bytes(args.closed);
    s.key_groups = blocks_of(most_blocks, kKeysPerBlock);
    const Grid grid{{s.key_groups * blocks_of(batch.num_rows.n, s.rows_per_block)},
                    {kThreads},
                    shared_bytes(s)};
    return launch(context.stream, "qsa_select scores", grid, score_kernel<T>, s);
  }));
  const Selected s = {args.blocks, gpu::typed<float>(args.scores), batch.row_position.base, args.ratio,
                      args.top_blocks};
  return launch(context.stream, "qsa_select", {{to_grid(batch.num_rows.n)}, {kSelectThreads}}, select_kernel,
                s);
}

}  // namespace kernels::cuda
