#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "gpu/device.h"
#include "gpu/host/host_stream.h"
#include "gpu/host/memory_facts.h"

namespace gpu {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "cpu";
}

/// Memory comes as anonymous mappings: zero, page-aligned, and without a page behind it until the page is
/// touched.
class HostDevice final : public Device {
 public:
  explicit HostDevice(int num_workers) : num_workers_(std::max(1, num_workers)) {}

  DeviceFacts facts() const override {
    MemoryFacts memory = parse_meminfo(text_of("/proc/meminfo"));
    for (const CgroupFiles& group : memory_cgroups(text_of("/proc/self/cgroup")))
      memory = within_cgroup(memory, text_of(group.limit), text_of(group.current), text_of(group.stat));
    DeviceFacts facts;
    facts.name = processor_name();
    facts.memory_total = memory.total;
    facts.memory_free = memory.available;
    facts.num_workers = num_workers_;
    return facts;
  }

  Result<Buffer, DeviceError> allocate(Bytes size, const char* what) override {
    if (size.n < 0)
      return refused(std::string("allocate ") + what + ": " + std::to_string(size.n) + " bytes");
    if (size.n == 0) return Buffer{};
    void* base = mmap(nullptr, static_cast<std::size_t>(size.n), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      return refused(std::string("allocate ") + what + ": " + std::to_string(size.n) +
                     " bytes: " + std::strerror(errno));
    }
    return Buffer(this, static_cast<std::byte*>(base), size);
  }

  void expect_streaming(const Buffer& buffer) override {
    // Large pages: with pages of 4 KiB a core walks page tables as long as it reads. Memory that is touched
    // here and there (KV pages) must not ask for them: each touch would cost 2 MiB.
    (void)madvise(buffer.base(), static_cast<std::size_t>(buffer.size().n), MADV_HUGEPAGE);
  }

  Result<std::unique_ptr<Stream>, DeviceError> create_stream() override {
    try {
      return std::unique_ptr<Stream>(std::make_unique<PooledHostStream>(num_workers_));
    } catch (const std::exception& error) {  // no thread to be had
      return refused(std::string("create_stream: ") + error.what());
    }
  }

 private:
  void free(std::byte* base, Bytes size) noexcept override { munmap(base, static_cast<std::size_t>(size.n)); }

  int num_workers_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(int num_workers) {
  return std::make_unique<HostDevice>(num_workers);
}

}  // namespace gpu
