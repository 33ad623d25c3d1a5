#include "kernels/cuda/device/gdn.cuh"
#include "kernels/cuda/device/gdn_chunk.cuh"

namespace kernels::cuda {
namespace {

/// A block for each (32 value columns, value head, segment), chunk after chunk; columns never meet, so every
/// column block makes the products of keys and queries for itself.
template <class T, bool kWide>
__global__ void __launch_bounds__(kChunkThreads, 2) gdn_chunks_kernel(Gdn<T> g) {
  const int head = static_cast<int>(blockIdx.y), segment = static_cast<int>(blockIdx.z);
  const std::int64_t first_row = g.segment_first_row[segment];
  const std::int64_t num_rows = g.segment_num_rows[segment];
  if (g.row_position[first_row] % kGdnChunk != 0) {
    if (blockIdx.x == 0 && head == 0 && threadIdx.x == 0) {
      report(g.faults, gpu::ValueFault::gdn_first_position, first_row, g.row_position[first_row]);
    }
    return;
  }
  const GdnChunk<T, kWide> chunk(g, head, static_cast<int>(blockIdx.x) * kChunkColumns);
  float* const state = g.state_of(segment, head);
  chunk.load_state(state);
  for (std::int64_t t = 0; t < num_rows; t += kGdnChunk) {
    const std::int64_t left = num_rows - t;
    chunk.run(first_row + t, left < kGdnChunk ? static_cast<int>(left) : kGdnChunk);
  }
  chunk.store_state(state);
}

}  // namespace

gpu::Status gdn_chunks(Context& context, const RowBatch& batch, const GdnArgs& args) {
  const Grid grid{{to_grid(gpu::ceil_div(args.v_dim, kChunkColumns)), static_cast<unsigned>(args.num_v_heads),
                   static_cast<unsigned>(batch.num_segments)},
                  {kChunkThreads},
                  ChunkMemory::bytes(args.k_dim)};
  return with_activation(args.qkv.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Gdn<T> gdn(batch, args, context.stream.faults());
    return with_width(gdn_in_pieces(args), [&](auto width) {
      return launch(context.stream, "gdn", grid, gdn_chunks_kernel<T, decltype(width)::value>, gdn);
    });
  });
}

}  // namespace kernels::cuda
