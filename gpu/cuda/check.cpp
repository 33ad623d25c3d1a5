#include "gpu/cuda/check.h"

#include <string>

namespace gpu {

Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Done{};
  const std::string text =
      std::string(what) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
  (void)cudaGetLastError();  // an error that is not sticky is taken back by being read
  const cudaError_t probe = cudaDeviceSynchronize();
  if (probe == cudaSuccess) return refused(text);
  return lost(probe == error ? text : text + ", then " + cudaGetErrorName(probe));
}

}  // namespace gpu
