#pragma once

#include "kernels/cuda/cuda_ops.h"

/// The three launches of `sample`. Which of them a row needs is known on the device alone.
namespace kernels::cuda {

/// Checks the parameters, looks at every logit once and leaves what it found in `out` (sampling_row.cuh);
/// rows whose logits will change are copied to `scratch`.
gpu::Status scan_rows(Context& context, const SampleArgs& args);
/// Biases, bans and penalties, in `scratch`. The last to read `ids`.
gpu::Status adjust_rows(Context& context, const SampleArgs& args);
/// The token and its logprobs, to `out` and `ids`.
gpu::Status choose_rows(Context& context, const SampleArgs& args);

}  // namespace kernels::cuda
