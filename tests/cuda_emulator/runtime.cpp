#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "cuda_emulator/runtime_api.h"
#include "tests/cuda_emulator/grid.h"
#include "tests/cuda_emulator/memory.h"

struct CUstream_st {
  std::deque<std::function<cudaError_t()>> work;
  std::uint64_t num_queued = 0, num_done = 0;
};
struct CUevent_st {
  CUstream_st* stream = nullptr;
  std::uint64_t after = 0;  // complete when the stream has done so many
};

namespace cuda_emulator {
namespace {

constexpr std::size_t kMaxShared = 227 * 1024;
constexpr std::size_t kMaxSharedUnasked = 48 * 1024;
constexpr unsigned kMaxThreads = 1024;

/// The context. `sticky` is what a kernel did to it: every call answers it from then on.
struct Context {
  std::recursive_mutex mutex;
  cudaError_t sticky = cudaSuccess;
  cudaError_t last = cudaSuccess;
  CUstream_st default_stream;
  std::set<CUstream_st*> streams{&default_stream};
  std::map<const void*, std::size_t> shared_asked;
};
Context& context() {
  static Context* const made = new Context;
  return *made;
}

/// One API call: alone in the context, its answer remembered for cudaGetLastError.
template <class F>
cudaError_t call(const F& f) {
  Context& c = context();
  const std::lock_guard lock(c.mutex);
  const cudaError_t error = c.sticky != cudaSuccess ? c.sticky : f(c);
  if (error != cudaSuccess && error != cudaErrorNotReady) c.last = error;
  return error;
}

CUstream_st* stream_of(Context& c, cudaStream_t stream) {
  if (stream == nullptr) return &c.default_stream;
  return c.streams.count(stream) != 0 ? stream : nullptr;
}

cudaError_t run_until(Context& c, CUstream_st& stream, std::uint64_t num_done) {
  while (stream.num_done < num_done) {
    const auto work = std::move(stream.work.front());
    stream.work.pop_front();
    ++stream.num_done;
    if (const cudaError_t error = work(); error != cudaSuccess) {
      c.sticky = error;
      for (CUstream_st* other : c.streams) {  // nothing runs in a dead context
        other->work.clear();
        other->num_done = other->num_queued;
      }
      return error;
    }
  }
  return cudaSuccess;
}
cudaError_t run_all(Context& c) {
  for (CUstream_st* stream : c.streams) {
    if (const auto error = run_until(c, *stream, stream->num_queued); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t queue(Context& c, cudaStream_t on, std::function<cudaError_t()> work) {
  CUstream_st* const stream = stream_of(c, on);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->work.push_back(std::move(work));
  ++stream->num_queued;
  return cudaSuccess;
}

bool on_device(cudaMemcpyKind kind, bool source) {
  return kind == cudaMemcpyDeviceToDevice ||
         kind == (source ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);
}
cudaError_t check_end(cudaMemcpyKind kind, bool source, const void* base, std::size_t size) {
  if (kind == cudaMemcpyDefault) return base == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  if (on_device(kind, source) != in_device_memory(base, size)) return cudaErrorInvalidValue;
  return base == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t copy(Context& c, void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  if (size == 0) return cudaSuccess;
  if (check_end(kind, false, to, size) != cudaSuccess || check_end(kind, true, from, size) != cudaSuccess) {
    return cudaErrorInvalidValue;
  }
  // From pageable memory the runtime stages: the source may change as soon as the call is back.
  if (kind == cudaMemcpyHostToDevice && !in_pinned_memory(from, size)) {
    const auto* const bytes = static_cast<const std::byte*>(from);
    return queue(c, stream, [to, staged = std::vector<std::byte>(bytes, bytes + size)] {
      std::memcpy(to, staged.data(), staged.size());
      return cudaSuccess;
    });
  }
  return queue(c, stream, [=] {
    std::memmove(to, from, size);
    return cudaSuccess;
  });
}
cudaError_t set(Context& c, void* base, int value, std::size_t size, cudaStream_t stream) {
  if (size == 0) return cudaSuccess;
  if (!in_device_memory(base, size) && !in_pinned_memory(base, size)) return cudaErrorInvalidValue;
  return queue(c, stream, [=] {
    std::memset(base, value, size);
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([&](Context& c) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<std::size_t>(value) > kMaxShared) return cudaErrorInvalidValue;
    c.shared_asked[kernel] = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> run) {
  return call([&](Context& c) {
    const dim3 grid = config.gridDim, block = config.blockDim;
    const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > kMaxThreads || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
        grid.x > 0x7FFFFFFFU || grid.y > 65535 || grid.z > 65535) {
      return cudaErrorInvalidConfiguration;
    }
    const auto asked = c.shared_asked.find(kernel);
    const std::size_t allowed = asked == c.shared_asked.end() ? kMaxSharedUnasked : asked->second;
    if (config.dynamicSmemBytes > std::max(allowed, kMaxSharedUnasked)) return cudaErrorInvalidValue;
    return queue(c, config.stream,
                 [run = KernelRun{grid, block, config.dynamicSmemBytes, kernel, std::move(run)}] {
                   return run_grid(run);
                 });
  });
}

void check_argument(const void* kernel, const void* argument, std::size_t size) {
  const std::lock_guard lock(context().mutex);
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= size; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(argument) + at, sizeof(word));
    if (!is_host_address(word)) continue;
    std::fprintf(stderr, "cuda emulator: %s: byte %zu of an argument of %zu holds the host's address %p\n",
                 kernel_name(kernel).c_str(), at, size, reinterpret_cast<void*>(word));
    std::abort();
  }
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return call([&](Context& c) {
    return queue(c, stream, [work = std::move(work)] {
      work();
      return cudaSuccess;
    });
  });
}

}  // namespace cuda_emulator

using cuda_emulator::call;
using cuda_emulator::Context;

cudaError_t cudaGetLastError() {
  Context& c = cuda_emulator::context();
  const std::lock_guard lock(c.mutex);
  const cudaError_t error = c.sticky != cudaSuccess ? c.sticky : c.last;
  c.last = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  Context& c = cuda_emulator::context();
  const std::lock_guard lock(c.mutex);
  return c.sticky != cudaSuccess ? c.sticky : c.last;
}
cudaError_t cudaDeviceSynchronize() {
  return call([](Context& c) { return run_all(c); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&](Context&) {
    *free = cuda_emulator::device_memory_free();
    *total = cuda_emulator::kDeviceMemory;
    return cudaSuccess;
  });
}
cudaError_t cudaMalloc(void** base, std::size_t size) {
  return call([&](Context&) {
    *base = nullptr;
    if (size == 0) return cudaSuccess;
    *base = cuda_emulator::allocate_device(size);
    return *base != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFree(void* base) {
  return call([&](Context& c) {
    if (base == nullptr) return cudaSuccess;
    if (const auto error = run_all(c); error != cudaSuccess) return error;
    return cuda_emulator::free_device(base) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaHostAlloc(void** base, std::size_t size, unsigned) {
  return call([&](Context&) {
    *base = cuda_emulator::allocate_pinned(size);
    return *base != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFreeHost(void* base) {
  return call([&](Context& c) {
    if (base == nullptr) return cudaSuccess;
    if (const auto error = run_all(c); error != cudaSuccess) return error;
    return cuda_emulator::free_pinned(base) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
  return call([&](Context& c) {
    const auto error = cuda_emulator::copy(c, to, from, size, kind, nullptr);
    return error != cudaSuccess ? error : run_all(c);
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&](Context& c) { return cuda_emulator::copy(c, to, from, size, kind, stream); });
}
cudaError_t cudaMemset(void* base, int value, std::size_t size) {
  return call([&](Context& c) {
    const auto error = cuda_emulator::set(c, base, value, size, nullptr);
    return error != cudaSuccess ? error : run_all(c);
  });
}
cudaError_t cudaMemsetAsync(void* base, int value, std::size_t size, cudaStream_t stream) {
  return call([&](Context& c) { return cuda_emulator::set(c, base, value, size, stream); });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return call([&](Context& c) {
    *stream = new CUstream_st;
    c.streams.insert(*stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&](Context& c) {
    if (stream == nullptr || stream_of(c, stream) == nullptr) return cudaErrorInvalidResourceHandle;
    const auto error = run_until(c, *stream, stream->num_queued);
    c.streams.erase(stream);
    delete stream;
    return error;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&](Context& c) {
    CUstream_st* const known = stream_of(c, stream);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    return run_until(c, *known, known->num_queued);
  });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&](Context& c) {
    CUstream_st* const known = stream_of(c, stream);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    return known->work.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call([&](Context&) {
    *event = new CUevent_st;
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](Context&) {
    delete event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](Context& c) {
    CUstream_st* const known = stream_of(c, stream);
    if (known == nullptr) return cudaErrorInvalidResourceHandle;
    *event = {known, known->num_queued};
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](Context& c) {
    if (event->stream == nullptr || c.streams.count(event->stream) == 0) return cudaSuccess;
    return run_until(c, *event->stream, event->after);
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Context& c) {
    if (event->stream == nullptr || c.streams.count(event->stream) == 0) return cudaSuccess;
    return event->stream->num_done >= event->after ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call([&](Context& c) {
    const CUevent_st awaited = *event;
    return queue(c, stream, [&c, awaited] {
      if (awaited.stream == nullptr || c.streams.count(awaited.stream) == 0) return cudaSuccess;
      return run_until(c, *awaited.stream, awaited.after);
    });
  });
}
