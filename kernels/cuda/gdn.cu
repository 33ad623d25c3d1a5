#include "kernels/cuda/device/gdn.cuh"

namespace kernels::cuda {

gpu::Status gdn(Context& context, const RowBatch& batch, const GdnArgs& args) {
  if (batch.num_rows.n == 0) return gpu::Done{};
  for (const auto& [name, dim] : {std::pair{"k_dim", args.k_dim}, std::pair{"v_dim", args.v_dim}}) {
    if (dim % kPiece == 0 && dim <= kGdnMaxDim) continue;
    return gpu::refused(std::string("gdn: ") + name + " is " + std::to_string(dim) +
                        ", expected a multiple of 8, at most " + std::to_string(kGdnMaxDim));
  }
  if (!in_16_bytes(args.state)) {
    return gpu::refused("gdn: state row 1 or its base is not 16-byte aligned: pitch " +
                        std::to_string(args.state.pitch.n));
  }
  return batch.form == Form::decode ? gdn_steps(context, batch, args) : gdn_chunks(context, batch, args);
}

}  // namespace kernels::cuda
