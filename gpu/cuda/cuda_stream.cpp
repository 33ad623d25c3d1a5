#include "gpu/cuda/cuda_stream.h"

#include <algorithm>
#include <cstring>

#include "gpu/cuda/check.h"
#include "gpu/cuda/fault_kernels.h"

namespace gpu {
namespace {

constexpr int kNumStaging = 4;
constexpr Bytes kStagingBytes{4 << 20};
constexpr Bytes kFirstDownloadBytes{1 << 20};
constexpr Bytes kKeptDownloadBytes{64 << 20};
constexpr std::int64_t kPlaceAlignment = 64;
constexpr Bytes kFaultBytes{64};  // the record, and what the injected faults aim at

std::size_t to_size(Bytes bytes) { return static_cast<std::size_t>(bytes.n); }

/// None: there is nothing to do but to do it.
std::optional<DeviceError> refusal_of(const char* operation, const char* what, const void* to,
                                      const void* from, Bytes size) {
  if (size.n >= 0 && to != nullptr && from != nullptr) return std::nullopt;
  return refused(std::string(operation) + " " + what + ": " + std::to_string(size.n) +
                 " bytes with a null end or a negative size");
}

std::string text_of(const FaultRecord& found) {
  const auto row = [&](const char* op) {
    return std::string(op) + ": row " + std::to_string(found.row) + ": ";
  };
  const std::string value = std::to_string(found.value);
  switch (static_cast<ValueFault>(found.fault)) {
    case ValueFault::none:
      break;
    case ValueFault::embedding_token:
      return row("embedding") + "token " + value + " is not in the table";
    case ValueFault::embedding_place:
      return row("embedding") + "slot or position " + value + " is not in ids";
    case ValueFault::gathered_row:
      return row("gather_rows") + "index " + value + " is not a row of x";
    case ValueFault::table_row:
      return row("gather_table") + "row id " + value + " is not in the table";
    case ValueFault::expert:
      return row("moe_experts") + "expert " + value + " is not in the weights";
    case ValueFault::sampling_slot:
      return row("sample") + "slot, position, token, bias or ban " + value + " is out of range";
    case ValueFault::sampling_token:
      return row("sample") + "token " + value + " is not in the vocabulary";
    case ValueFault::gdn_first_position:
      return row("gdn") + "a prefill segment begins at position " + value + ", which is not on the grid";
  }
  return "a kernel reported fault " + std::to_string(found.fault) + " at row " + std::to_string(found.row) +
         " with value " + value;
}

}  // namespace

Result<std::unique_ptr<Stream>, DeviceError> CudaStream::create() {
  std::unique_ptr<CudaStream> stream(new CudaStream);
  RETURN_IF_ERROR(stream->start());
  return std::unique_ptr<Stream>(std::move(stream));
}

Status CudaStream::start() {
  RETURN_IF_ERROR(check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create_stream"));
  RETURN_IF_ERROR(check(cudaMalloc(&faults_, to_size(kFaultBytes)), "create_stream: fault record"));
  RETURN_IF_ERROR(
      check(cudaMemsetAsync(faults_, 0, to_size(kFaultBytes), stream_), "create_stream: fault record"));
  RETURN_IF_ERROR(check(cudaHostAlloc(&faults_seen_, sizeof(FaultRecord), cudaHostAllocDefault),
                        "create_stream: fault record"));
  for (int i = 0; i < kNumStaging; ++i) {
    Staging& staging = staging_.emplace_back();
    RETURN_IF_ERROR(check(cudaHostAlloc(&staging.base, to_size(kStagingBytes), cudaHostAllocDefault),
                          "create_stream: staging memory"));
    RETURN_IF_ERROR(check(cudaEventCreateWithFlags(&staging.read, cudaEventDisableTiming), "create_stream"));
  }
  return Done{};
}

CudaStream::~CudaStream() {
  // Nobody is left to hear of an error.
  if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_);
  for (const Staging& staging : staging_) {
    if (staging.read != nullptr) (void)cudaEventDestroy(staging.read);
    (void)cudaFreeHost(staging.base);
  }
  for (const DownloadBlock& block : download_blocks_) (void)cudaFreeHost(block.base);
  (void)cudaFreeHost(faults_seen_);
  (void)cudaFree(faults_);
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Status CudaStream::check(cudaError_t error, const char* what) {
  if (lost_) return lost(*lost_);
  if (error == cudaSuccess) return Done{};
  Status status = gpu::check(error, what);
  if (!status.ok() && status.error().kind == DeviceError::Kind::lost) lost_ = status.error().what;
  return status;
}

Status CudaStream::synchronize() {
  if (lost_) return lost(*lost_);
  RETURN_IF_ERROR(
      check(cudaMemcpyAsync(faults_seen_, faults_, sizeof(FaultRecord), cudaMemcpyDeviceToHost, stream_),
            "synchronize"));
  const Status done = check(cudaStreamSynchronize(stream_), "synchronize");
  if (!done.ok()) {
    downloads_.clear();
    return done;
  }
  deliver_downloads();
  return read_faults();
}

Status CudaStream::read_faults() {
  if (faults_seen_->fault == 0) return Done{};
  RETURN_IF_ERROR(check(cudaMemsetAsync(faults_, 0, sizeof(FaultRecord), stream_), "synchronize"));
  return refused(text_of(*faults_seen_));
}

Status CudaStream::fill_zero(std::byte* base, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  if (size.n == 0) return Done{};
  if (auto refusal = refusal_of("fill_zero", what, base, base, size)) return *std::move(refusal);
  return check(cudaMemsetAsync(base, 0, to_size(size), stream_), what);
}

Status CudaStream::copy(std::byte* to, const std::byte* from, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  if (size.n == 0) return Done{};
  if (auto refusal = refusal_of("copy", what, to, from, size)) return *std::move(refusal);
  return check(cudaMemcpyAsync(to, from, to_size(size), cudaMemcpyDeviceToDevice, stream_), what);
}

Status CudaStream::copy_to_device(std::byte* to, const void* from, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  if (size.n == 0) return Done{};
  if (auto refusal = refusal_of("copy_to_device", what, to, from, size)) return *std::move(refusal);
  const auto* source = static_cast<const std::byte*>(from);
  while (size.n > 0) {
    const Bytes piece = std::min(size, kStagingBytes);
    std::byte* place = nullptr;
    RETURN_IF_ERROR(take_staging(piece, &place));
    std::memcpy(place, source, to_size(piece));
    RETURN_IF_ERROR(check(cudaMemcpyAsync(to, place, to_size(piece), cudaMemcpyHostToDevice, stream_), what));
    RETURN_IF_ERROR(note_staging_read(what));
    to += piece.n;
    source += piece.n;
    size -= piece;
  }
  return Done{};
}

/// Small uploads share a staging buffer; its event tells when the last of them has left it.
Status CudaStream::take_staging(Bytes size, std::byte** place) {
  if (staging_used_ + size > kStagingBytes) {
    staging_index_ = (staging_index_ + 1) % staging_.size();
    staging_used_ = {0};
    Staging& next = staging_[staging_index_];
    if (next.in_flight) RETURN_IF_ERROR(check(cudaEventSynchronize(next.read), "upload: staging memory"));
    next.in_flight = false;
  }
  *place = staging_[staging_index_].base + staging_used_.n;
  staging_used_ = {round_up((staging_used_ + size).n, kPlaceAlignment)};
  return Done{};
}
Status CudaStream::note_staging_read(const char* what) {
  Staging& staging = staging_[staging_index_];
  RETURN_IF_ERROR(check(cudaEventRecord(staging.read, stream_), what));
  staging.in_flight = true;
  return Done{};
}

Status CudaStream::copy_to_host(void* to, const std::byte* from, Bytes size, const char* what) {
  if (lost_) return lost(*lost_);
  if (size.n == 0) return Done{};
  if (auto refusal = refusal_of("copy_to_host", what, to, from, size)) return *std::move(refusal);
  std::byte* place = nullptr;
  RETURN_IF_ERROR(take_download(size, &place));
  RETURN_IF_ERROR(check(cudaMemcpyAsync(place, from, to_size(size), cudaMemcpyDeviceToHost, stream_), what));
  downloads_.push_back({to, place, to_size(size)});
  return Done{};
}

Status CudaStream::take_download(Bytes size, std::byte** place) {
  if (download_blocks_.empty() || downloads_used_ + size > download_blocks_.back().size) {
    const Bytes doubled = download_blocks_.empty() ? kFirstDownloadBytes : 2 * download_blocks_.back().size;
    const Bytes wanted = std::max(size, std::min(doubled, kKeptDownloadBytes));
    std::byte* base = nullptr;
    RETURN_IF_ERROR(
        check(cudaHostAlloc(&base, to_size(wanted), cudaHostAllocDefault), "download: pinned memory"));
    download_blocks_.push_back({base, wanted});
    downloads_used_ = {0};
  }
  *place = download_blocks_.back().base + downloads_used_.n;
  downloads_used_ = {round_up((downloads_used_ + size).n, kPlaceAlignment)};
  return Done{};
}

/// After the stream was waited for. Keeps the largest block for the next step, unless it was for one huge
/// copy.
void CudaStream::deliver_downloads() {
  for (const Download& download : downloads_) std::memcpy(download.to, download.from, download.size);
  downloads_.clear();
  downloads_used_ = {0};
  if (download_blocks_.empty()) return;
  std::sort(download_blocks_.begin(), download_blocks_.end(),
            [](const DownloadBlock& a, const DownloadBlock& b) { return a.size > b.size; });
  const std::size_t num_kept = download_blocks_.front().size > kKeptDownloadBytes ? 0 : 1;
  for (std::size_t i = num_kept; i < download_blocks_.size(); ++i)
    (void)cudaFreeHost(download_blocks_[i].base);
  download_blocks_.resize(num_kept);
}

Status CudaStream::inject(InjectedFault fault, const char* what) {
  if (lost_) return lost(*lost_);
  return check(launch_fault(stream_, fault, reinterpret_cast<std::byte*>(faults_) + 16), what);
}

}  // namespace gpu
