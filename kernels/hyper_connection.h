#pragma once

#include "kernels/batch.h"

namespace kernels {

/// Gated residual with C streams of H columns, stream-major (model-spec 2.2).

/// h[r, s*H + i] = x[r, i] for all streams s.
struct RepeatStreamsArgs {
  Matrix h;
  ConstMatrix x;
  std::int32_t num_streams = 0;
};

/// x[r, i] = mean_s( sigmoid(g[r, s*H+i]) * xn[r, s*H+i] ), streams added in ascending order.    g: the up
/// projection, before its sigmoid.
struct MixStreamsArgs {
  Matrix x;
  ConstMatrix g;
  ConstMatrix xn;
  std::int32_t num_streams = 0;
};

/// h[r, s*H + i] += 2*sigmoid(inject[r, s] / C) * y[r, i].      inject: [rows, >= C], the raw projection.
struct InjectStreamsArgs {
  Matrix h;
  ConstMatrix y;
  ConstMatrix inject;
  std::int32_t num_streams = 0;
};

}  // namespace kernels
