#include "model/checkpoint/weight_copy.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "model/checkpoint/weight_check.h"
#include "model/checkpoint/widen.h"

namespace model {
namespace {

constexpr std::int64_t kChunkBytes = 16 << 20;

struct Job {
  const WeightSpec* weight = nullptr;
  const TensorPart* part = nullptr;
  Checkpoint::Location from;
  std::byte* weight_address = nullptr;
  const WeightForm* form = nullptr;
};

/// In the order of the bytes on disk.
std::vector<Job> list_jobs(const WeightMap& map, const Checkpoint& checkpoint, const WeightStorage& storage) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    for (const TensorPart& part : map.weights[i].parts) {
      jobs.push_back({&map.weights[i], &part, checkpoint.tensors().find(part.name)->second,
                      storage.addresses[i], &storage.forms[i]});
    }
  }
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return std::tie(a.from.file->name(), a.from.entry->offset, a.part->first_file_row) <
           std::tie(b.from.file->name(), b.from.entry->offset, b.part->first_file_row);
  });
  return jobs;
}

/// The rows of a part as the file has them, some at a time. `use` gets the index of the first within the
/// part, their number, and their bytes, one row after another.
template <class Use>
gpu::Status for_rows(const Job& job, std::int64_t row_bytes,
                     const std::function<void(std::int64_t bytes)>& copied, const Use& use) {
  const TensorPart& part = *job.part;
  const TensorFile& file = *job.from.file;
  const std::byte* from = file.bytes(*job.from.entry) + part.first_file_row * row_bytes;
  const std::int64_t step = part.file_row_step;
  const std::int64_t chunk = std::max<std::int64_t>(1, kChunkBytes / row_bytes / step);
  std::vector<std::byte> gathered;
  for (std::int64_t first = 0; first < part.rows; first += chunk) {
    const std::int64_t rows = std::min(chunk, part.rows - first);
    const std::byte* begin = from + first * step * row_bytes;
    if (step > 1) {
      gathered.resize(static_cast<std::size_t>(rows * row_bytes));
      for (std::int64_t r = 0; r < rows; ++r)
        std::memcpy(gathered.data() + r * row_bytes, begin + r * step * row_bytes,
                    static_cast<std::size_t>(row_bytes));
      begin = gathered.data();
    }
    RETURN_IF_ERROR(use(first, rows, begin));
    // The rows between belong to another part, which reads them again where it comes later.
    file.release(*job.from.entry, (part.first_file_row + first * step) * row_bytes,
                 ((rows - 1) * step + 1) * row_bytes);
    copied(rows * row_bytes);
  }
  return gpu::Done{};
}

/// f8_e4m3 numbers times their scale, as bf16 or f32.
std::vector<std::byte> scaled(const std::byte* from, std::int64_t count, float scale, gpu::DType to) {
  const std::vector<gpu::bf16> of_byte = scaled_e4m3(scale);
  std::vector<gpu::bf16> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = of_byte[std::to_integer<std::size_t>(from[i])];
  return converted(reinterpret_cast<const std::byte*>(values.data()), gpu::DType::bf16, count, to);
}

}  // namespace

gpu::Status copy_weights(const WeightMap& map, const Checkpoint& checkpoint, const WeightStorage& storage,
                         gpu::Stream& stream, const std::function<void(std::int64_t bytes)>& copied) {
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    if (!storage.forms[i].device.quantized) continue;
    RETURN_IF_ERROR(stream.fill_zero(storage.addresses[i], device_bytes(map.weights[i], storage.forms[i]),
                                     "quantised weights"));
  }
  RETURN_IF_ERROR(stream.synchronize());
  for (const Job& job : list_jobs(map, checkpoint, storage)) {
    const char* name = job.from.entry->name.c_str();
    const gpu::Elements cols{job.weight->cols};
    const StoredType &stored = job.from.entry->type, &type = job.form->device;
    const std::int64_t row_bytes = stored.row_bytes(cols).n;
    const auto place = [&](std::int64_t first, std::int64_t rows, const std::byte* from) -> gpu::Status {
      const std::int64_t row = job.part->first_row + first;
      if (type.quantized) {  // only where the device's memory is this process's: see load_weights
        const kernels::QuantizedMatrix matrix{
            job.weight_address, *type.quantized, job.form->layout, {job.weight->rows}, cols};
        for (std::int64_t r = 0; r < rows; ++r)
          kernels::place_row(matrix, job.weight_address, {row + r}, from + r * row_bytes);
        return gpu::Done{};
      }
      std::byte* to = job.weight_address + row * type.row_bytes(cols).n;
      const gpu::Bytes bytes{rows * type.row_bytes(cols).n};
      if (type == stored) return stream.copy_to_device(to, from, bytes, name);
      const auto values = stored == StoredType(gpu::DType::f8_e4m3)
                              ? scaled(from, rows * cols.n, scale_of(*job.weight, checkpoint), type.dtype)
                              : converted(from, stored.dtype, rows * cols.n, type.dtype);
      return stream.copy_to_device(to, values.data(), bytes, name);
    };
    RETURN_IF_ERROR(for_rows(job, row_bytes, copied, place));
  }
  return stream.synchronize();
}

}  // namespace model
