#include "gpu/file/uring.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

namespace gpu {
namespace {

std::string last_error() { return std::generic_category().message(errno); }

std::uint32_t* word_at(void* rings, std::uint32_t offset) {
  return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(rings) + offset);
}
std::uint32_t acquire(std::uint32_t* word) {
  return std::atomic_ref<std::uint32_t>(*word).load(std::memory_order_acquire);
}
void release(std::uint32_t* word, std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(*word).store(value, std::memory_order_release);
}

}  // namespace

/// Where the kernel has put the two rings, and where it reads and writes them.
struct Uring::Layout {
  io_uring_params params{};
  std::uint32_t *submit_tail = nullptr, *submit_index = nullptr, submit_mask = 0;
  std::uint32_t *done_head = nullptr, *done_tail = nullptr, done_mask = 0;
  io_uring_cqe* done = nullptr;
};

Result<std::unique_ptr<Uring>, std::string> Uring::create(std::uint32_t depth) {
  std::unique_ptr<Uring> ring(new Uring);
  ring->layout_ = std::make_unique<Layout>();
  ring->descriptor_ = static_cast<int>(::syscall(SYS_io_uring_setup, depth, &ring->layout_->params));
  if (ring->descriptor_ < 0) return last_error();
  if (std::string problem = ring->map(); !problem.empty()) return problem;
  return ring;
}

std::string Uring::map() {
  Layout& layout = *layout_;
  const io_uring_params& params = layout.params;
  // Linux 5.4: one mapping for both rings.
  if ((params.features & IORING_FEAT_SINGLE_MMAP) == 0) return "the kernel is too old";
  rings_bytes_ = std::max<std::size_t>(params.sq_off.array + params.sq_entries * sizeof(std::uint32_t),
                                       params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe));
  entries_bytes_ = params.sq_entries * sizeof(io_uring_sqe);
  const auto shared = [&](std::size_t size, off_t what) {
    return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, what);
  };
  void* const rings = shared(rings_bytes_, IORING_OFF_SQ_RING);
  if (rings == MAP_FAILED) return last_error();
  rings_ = rings;
  void* const entries = shared(entries_bytes_, IORING_OFF_SQES);
  if (entries == MAP_FAILED) return last_error();
  entries_ = entries;
  layout.submit_tail = word_at(rings_, params.sq_off.tail);
  layout.submit_mask = *word_at(rings_, params.sq_off.ring_mask);
  layout.submit_index = word_at(rings_, params.sq_off.array);
  layout.done_head = word_at(rings_, params.cq_off.head);
  layout.done_tail = word_at(rings_, params.cq_off.tail);
  layout.done_mask = *word_at(rings_, params.cq_off.ring_mask);
  layout.done = reinterpret_cast<io_uring_cqe*>(static_cast<std::byte*>(rings_) + params.cq_off.cqes);
  return "";
}

Uring::~Uring() {
  if (entries_ != nullptr) ::munmap(entries_, entries_bytes_);
  if (rings_ != nullptr) ::munmap(rings_, rings_bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Uring::prepare(int descriptor, std::byte* to, std::uint32_t size, std::int64_t offset,
                    std::uint64_t tag) {
  Layout& layout = *layout_;
  const std::uint32_t tail = *layout.submit_tail;  // only this side writes it
  const std::uint32_t index = tail & layout.submit_mask;
  io_uring_sqe& entry = static_cast<io_uring_sqe*>(entries_)[index];
  entry = {};
  entry.opcode = IORING_OP_READ;
  entry.fd = descriptor;
  entry.addr = reinterpret_cast<std::uint64_t>(to);
  entry.len = size;
  entry.off = static_cast<std::uint64_t>(offset);
  entry.user_data = tag;
  layout.submit_index[index] = index;
  release(layout.submit_tail, tail + 1);
  ++to_submit_;
}

/// Offers entries and waits for one completion. What the kernel did not take stays prepared.
bool Uring::enter(std::uint32_t entries) {
  while (true) {
    const auto taken = ::syscall(SYS_io_uring_enter, descriptor_, entries, 1U, IORING_ENTER_GETEVENTS,
                                 nullptr, std::size_t{0});
    if (taken >= 0) {
      to_submit_ -= static_cast<std::uint32_t>(taken);
      under_way_ += static_cast<std::uint32_t>(taken);
      return true;
    }
    if (errno != EINTR) return false;
  }
}

std::string Uring::submit() {
  if (enter(to_submit_)) return "";
  // Out of memory for more at once: those under way end first.
  const bool later = errno == EAGAIN || errno == EBUSY;
  if (later && under_way_ > 0 && enter(0)) return "";
  return last_error();
}

std::optional<Uring::Completion> Uring::next() {
  Layout& layout = *layout_;
  const std::uint32_t head = *layout.done_head;  // only this side writes it
  if (head == acquire(layout.done_tail)) return std::nullopt;
  const io_uring_cqe& entry = layout.done[head & layout.done_mask];
  const Completion completion{entry.user_data, entry.res};
  release(layout.done_head, head + 1);
  --under_way_;
  return completion;
}

}  // namespace gpu
