#include <numeric>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/safetensors.h"
#include "tests/fuzz/target.h"

/// A header, and after a zero byte a shard index. What is accepted keeps its promises: tensors lie within the
/// data and cover it.
void fuzz(std::string_view input) {
  const std::string_view header = fuzzing::take_part(input);
  for (const std::int64_t data_bytes : {std::int64_t{0}, std::int64_t{8}, std::int64_t{1} << 40}) {
    const auto tensors = model::parse_safetensors_header(header, data_bytes, "file");
    if (!tensors.ok()) {
      fuzzing::require(!tensors.error().problems.empty());
      continue;
    }
    std::int64_t covered = 0;
    for (const model::TensorEntry& tensor : *tensors) {
      std::int64_t elements = 1;
      for (const std::int64_t size : tensor.shape) elements *= size;
      fuzzing::require(tensor.bytes == elements * gpu::size_of(tensor.type.dtype));
      fuzzing::require(tensor.offset >= 0 && tensor.offset <= data_bytes - tensor.bytes);
      covered += tensor.bytes;
    }
    fuzzing::require(covered == data_bytes);
  }
  const auto index = model::parse_shard_index(input, "index");
  if (!index.ok()) return;
  for (const auto& [tensor, file] : *index) {
    fuzzing::require(file.find('/') == std::string::npos && file != "." && file != ".." && !file.empty());
  }
}
