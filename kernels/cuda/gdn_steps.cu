#include "kernels/cuda/device/gdn.cuh"
#include "kernels/cuda/device/reduce.cuh"

// The recurrent step. Bytes of a segment and value head: the state read and written once, 2 * 4 * dk * dv
// (128 KB at 128 x 128), whatever the number of rows: it stays in registers while they pass. 36 layers of 48
// heads move 216 MiB a sequence and step, 53 us at 4.3 TB/s. Flops: 7 dk dv a row and head.
namespace kernels::cuda {
namespace {

// A warp owns sixteen columns of the state: four lanes of four columns each side by side (a row's 64 bytes
// are two whole sectors), eight lanes along the keys. No warp waits for another.
constexpr int kWarps = 2;
constexpr int kLaneColumns = 4;
constexpr int kWarpColumns = 16;
constexpr int kKeyLanes = 8;

/// Of the eight lanes that share columns, keys 8 apart first: one fixed tree.
__device__ float sum_over_keys(float x) {
#pragma unroll
  for (int apart = 16; apart >= 32 / kKeyLanes; apart /= 2) x += __shfl_xor_sync(kWholeWarp, x, apart);
  return x;
}

/// kPieces pieces of eight keys a lane: key lane g holds pieces g, g + 8, …; those beyond k_dim are zeros.
template <class T, bool kWide, int kPieces>
__global__ void __launch_bounds__(32 * kWarps) gdn_steps_kernel(Gdn<T> g) {
  constexpr int kKeys = kPieces * kPiece;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int head = static_cast<int>(blockIdx.y), segment = static_cast<int>(blockIdx.z);
  const int first_column = (static_cast<int>(blockIdx.x) * kWarps + warp) * kWarpColumns;
  if (first_column >= g.v_dim) return;
  const int column = first_column + lane % 4 * kLaneColumns;
  const bool has_columns = column < g.v_dim;
  const auto key_of = [&](int n) { return n % kPiece + kPiece * (lane / 4 + kKeyLanes * (n / kPiece)); };

  float* const state = g.state_of(segment, head);
  float s[kKeys][kLaneColumns];
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
    if (has_columns && key_of(n) < g.k_dim) {
      load_16(state + std::int64_t{key_of(n)} * g.v_dim + column, s[n]);
    } else {
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c) s[n][c] = 0.0F;
    }
  }

  const float rate = g.rate(head), q_scale = 1.0F / sqrtf(static_cast<float>(g.k_dim));
  const std::int64_t first_row = g.segment_first_row[segment];
  const std::int64_t end_row = first_row + g.segment_num_rows[segment];
  for (std::int64_t r = first_row; r < end_row; ++r) {
    float q[kPieces][kPiece], k[kPieces][kPiece], v[kLaneColumns] = {};
    float q_squares = 0.0F, k_squares = 0.0F;
    if (has_columns) load_four<kWide>(g.v(r, head) + column, v);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int key = key_of(p * kPiece);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) q[p][i] = k[p][i] = 0.0F;
      if (key < g.k_dim) {
        load_piece<kWide>(g.q(r, head) + key, kPiece, q[p]);
        load_piece<kWide>(g.k(r, head) + key, kPiece, k[p]);
      }
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        q_squares = fmaf(q[p][i], q[p][i], q_squares);
        k_squares = fmaf(k[p][i], k[p][i], k_squares);
      }
    }
    const float q_factor = to_unit(sum_over_keys(q_squares)) * q_scale;
    const float k_factor = to_unit(sum_over_keys(k_squares));
    const float decay = expf(g.log_decay(r, head, rate)), beta = g.beta(r, head);

    float sums[kLaneColumns] = {};
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
      float& key = k[n / kPiece][n % kPiece];
      key *= k_factor;
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c) {
        s[n][c] *= decay;
        sums[c] = fmaf(key, s[n][c], sums[c]);
      }
    }
    float delta[kLaneColumns];
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) {
      delta[c] = beta * (v[c] - sum_over_keys(sums[c]));
      sums[c] = 0.0F;
    }
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
      const float key = k[n / kPiece][n % kPiece], query = q[n / kPiece][n % kPiece] * q_factor;
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c) {
        s[n][c] = fmaf(key, delta[c], s[n][c]);
        sums[c] = fmaf(query, s[n][c], sums[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < kLaneColumns; ++c) sums[c] = sum_over_keys(sums[c]);
    if (has_columns && lane / 4 == 0) {
      store_four<kWide>(g.o.row(Rows{r}) + head * g.v_dim + column, sums);
    }
  }

  if (!has_columns) return;
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
    if (key_of(n) < g.k_dim) store_16(state + std::int64_t{key_of(n)} * g.v_dim + column, s[n]);
  }
}

}  // namespace

gpu::Status gdn_steps(Context& context, const RowBatch& batch, const GdnArgs& args) {
  const Grid grid{{to_grid(gpu::ceil_div(args.v_dim, kWarps * kWarpColumns)),
                   static_cast<unsigned>(args.num_v_heads), static_cast<unsigned>(batch.num_segments)},
                  {32 * kWarps}};
  return with_activation(args.qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Gdn<T> gdn(batch, args, context.stream.faults());
    return with_width(gdn_in_pieces(args), [&](auto width) {
      constexpr bool kWide = decltype(width)::value;
      return launch(context.stream, "gdn", grid,
                    args.k_dim <= 128 ? gdn_steps_kernel<T, kWide, 2> : gdn_steps_kernel<T, kWide, 4>, gdn);
    });
  });
}

}  // namespace kernels::cuda
