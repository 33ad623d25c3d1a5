#pragma once

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/pieces.cuh"

/// What both forms of the gated delta net read: operands of a (row, value head), decay and beta.
namespace kernels::cuda {

inline constexpr int kGdnMaxDim = 256;  ///< of keys and of values

template <class T>
struct Gdn {
  MatrixView<T> o;
  MatrixView<const T> qkv, a, b;
  const float* a_log;
  const float* dt_bias;
  MatrixView<float> state;
  int num_k_heads, num_v_heads, k_dim, v_dim;
  int heads_tiled;    ///< ValueHeads::tiled; an int, so that no byte of a kernel argument is left unset
  int rate_negative;  ///< GdnDecay::negative_rate
  const std::int32_t* row_position;
  const std::int32_t* segment_slot;
  const std::int32_t* segment_first_row;
  const std::int32_t* segment_num_rows;
  gpu::FaultRecord* faults;

  Gdn(const RowBatch& batch, const GdnArgs& args, gpu::FaultRecord* record)
      : o(gpu::typed<T>(args.o)),
        qkv(gpu::typed<T>(args.qkv)),
        a(gpu::typed<T>(args.a)),
        b(gpu::typed<T>(args.b)),
        a_log(gpu::typed<float>(args.a_log).base),
        dt_bias(gpu::typed<float>(args.dt_bias).base),
        state(gpu::typed<float>(args.state)),
        num_k_heads(args.num_k_heads),
        num_v_heads(args.num_v_heads),
        k_dim(args.k_dim),
        v_dim(args.v_dim),
        heads_tiled(args.value_heads == ValueHeads::tiled),
        rate_negative(args.decay == GdnDecay::negative_rate),
        row_position(batch.row_position.base),
        segment_slot(batch.segment_slot.base),
        segment_first_row(batch.segment_first_row.base),
        segment_num_rows(batch.segment_num_rows.base),
        faults(record) {}

  __device__ int key_head(int head) const {
    return heads_tiled != 0 ? head % num_k_heads : head / (num_v_heads / num_k_heads);
  }
  __device__ const T* q(std::int64_t r, int head) const { return qkv.row(Rows{r}) + key_head(head) * k_dim; }
  __device__ const T* k(std::int64_t r, int head) const { return q(r, head) + num_k_heads * k_dim; }
  __device__ const T* v(std::int64_t r, int head) const {
    return qkv.row(Rows{r}) + 2 * num_k_heads * k_dim + head * v_dim;
  }
  __device__ float* state_of(int segment, int head) const {
    return state.row(Rows{std::int64_t{segment_slot[segment]} * num_v_heads + head});
  }
  __device__ float beta(std::int64_t r, int head) const { return sigmoid(to_float(b.row(Rows{r})[head])); }
  /// How fast a head forgets: never negative.
  __device__ float rate(int head) const { return rate_negative != 0 ? -a_log[head] : expf(a_log[head]); }
  /// Logarithm of a row's decay; never positive.
  __device__ float log_decay(std::int64_t r, int head, float rate_of_head) const {
    const float x = to_float(a.row(Rows{r})[head]) + dt_bias[head];
    return -rate_of_head * (x > 20.0F ? x : log1pf(expf(x)));
  }
};

/// What a vector with this sum of squares is multiplied with.
__device__ inline float to_unit(float sum_of_squares) { return 1.0F / sqrtf(sum_of_squares + 1e-6F); }

gpu::Status gdn_steps(Context& context, const RowBatch& batch, const GdnArgs& args);   ///< form decode
gpu::Status gdn_chunks(Context& context, const RowBatch& batch, const GdnArgs& args);  ///< form prefill

/// Rows of q, k, v and o lie on 16-byte boundaries, and so do all heads in them.
inline bool gdn_in_pieces(const GdnArgs& args) { return in_16_bytes(args.qkv) && in_16_bytes(args.o); }

}  // namespace kernels::cuda
