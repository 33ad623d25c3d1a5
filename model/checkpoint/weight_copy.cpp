#include "model/checkpoint/weight_copy.h"

#include <algorithm>
#include <tuple>

#include "model/checkpoint/widen.h"

namespace model {
namespace {

constexpr std::int64_t kChunkBytes = 16 << 20;

struct Job {
  const WeightSpec* weight = nullptr;
  const TensorPart* part = nullptr;
  Checkpoint::Location from;
  std::byte* weight_address = nullptr;
};

/// In the order of the bytes on disk.
std::vector<Job> list_jobs(const WeightMap& map, const Checkpoint& checkpoint, const WeightStorage& storage) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    for (const TensorPart& part : map.weights[i].parts) {
      jobs.push_back(
          {&map.weights[i], &part, checkpoint.tensors().find(part.name)->second, storage.addresses[i]});
    }
  }
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return std::tie(a.from.file->name(), a.from.entry->offset) <
           std::tie(b.from.file->name(), b.from.entry->offset);
  });
  return jobs;
}

}  // namespace

gpu::Status copy_weights(const WeightMap& map, const Checkpoint& checkpoint, const WeightStorage& storage,
                         gpu::Stream& stream, const std::function<void(std::int64_t bytes)>& copied) {
  for (const Job& job : list_jobs(map, checkpoint, storage)) {
    const TensorEntry& entry = *job.from.entry;
    const std::int64_t row_bytes = gpu::bytes_of(entry.dtype, gpu::Elements{job.weight->cols}).n;
    const std::int64_t begin = job.part->first_file_row * row_bytes, bytes = job.part->rows * row_bytes;
    const std::byte* from = job.from.file->bytes(entry) + begin;
    const gpu::DType dtype = device_dtype(*job.weight, entry.dtype);
    const gpu::Elements before{job.part->first_row * job.weight->cols};
    std::byte* to = job.weight_address + gpu::bytes_of(dtype, before).n;
    if (dtype != entry.dtype) {
      const std::vector<float> values = widen(from, entry.dtype, bytes / gpu::size_of(entry.dtype));
      const gpu::Bytes wide = gpu::bytes_of<float>(gpu::Elements{static_cast<std::int64_t>(values.size())});
      RETURN_IF_ERROR(stream.copy_to_device(to, values.data(), wide, entry.name.c_str()));
      job.from.file->release(entry, begin, bytes);
      copied(bytes);
      continue;
    }
    for (std::int64_t first = 0; first < bytes; first += kChunkBytes) {
      const std::int64_t length = std::min(kChunkBytes, bytes - first);
      RETURN_IF_ERROR(
          stream.copy_to_device(to + first, from + first, gpu::Bytes{length}, entry.name.c_str()));
      job.from.file->release(entry, begin + first, length);
      copied(length);
    }
  }
  return stream.synchronize();
}

}  // namespace model
