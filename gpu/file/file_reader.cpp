#include "gpu/file/file_reader.h"

#include <pthread.h>

#include <cassert>
#include <cstring>
#include <system_error>
#include <thread>

#include "gpu/file/direct_file.h"
#include "gpu/file/read_queue.h"
#include "gpu/file/uring.h"

namespace gpu {
namespace {

constexpr std::uint32_t kDepth = 128;  // reads under way in a ring: what it takes to keep a fast disk busy
constexpr int kThreads = 16;           // each has one read under way

/// Where a read's bytes arrive, and what is left to do with them.
struct ReadPlace {
  ReadWindow window;
  std::byte* to = nullptr;
};
ReadPlace place_of(const DirectFile& file, const FileRead& read, std::byte* bounce) {
  return {file.window(read.offset, read.size), file.direct() ? bounce : read.to};
}
void deliver(const DirectFile& file, const FileRead& read, const ReadPlace& place) {
  if (file.direct())
    std::memcpy(read.to, place.to + place.window.skip, static_cast<std::size_t>(read.size.n));
}
std::string problem_of(const DirectFile& file, const FileRead& read, const std::string& what) {
  return file.name() + " bytes " + std::to_string(read.offset) + " to " +
         std::to_string(read.offset + read.size.n) + ": " + what;
}
std::string read_now(const DirectFile& file, const FileRead& read, std::byte* bounce) {
  const ReadPlace place = place_of(file, read, bounce);
  const std::string what = file.read(place.window, place.to);
  if (!what.empty()) return problem_of(file, read, what);
  deliver(file, read, place);
  return "";
}
constexpr const char* kDrill = "injected, a row that cannot be read";

/// A thread that waits for one read at a time.
void read_one_by_one(const std::vector<DirectFile>& files, ReadQueue& queue, std::int64_t window_bytes) {
  const AlignedBytes bounce(window_bytes);
  while (const auto share = queue.take(1, ReadQueue::Idle::wait)) {
    const FileRead& read = share->batch->reads[share->first];
    const DirectFile& file = files[static_cast<std::size_t>(read.file)];
    queue.done(*share->batch, share->first,
               read.drill ? problem_of(file, read, kDrill) : read_now(file, read, bounce.get()));
  }
}

/// The thread of a ring: many reads under way at once, each with a bounce buffer of its own.
class RingThread {
 public:
  RingThread(const std::vector<DirectFile>& files, ReadQueue& queue, Uring& ring, std::int64_t window_bytes)
      : files_(files),
        queue_(queue),
        ring_(ring),
        window_bytes_(window_bytes),
        bounces_(kDepth * window_bytes) {
    for (std::uint32_t i = 0; i < kDepth; ++i) free_.push_back(i);
  }

  void run() {
    while (fill()) {
      if (const std::string what = ring_.submit(); !what.empty()) return give_up("io_uring: " + what);
      while (const auto completion = ring_.next())
        end(static_cast<std::uint32_t>(completion->tag), completion->result);
    }
  }

 private:
  struct UnderWay {
    ReadBatch* batch = nullptr;
    std::size_t read = 0;
    ReadPlace place;
  };
  std::byte* bounce(std::uint32_t tag) const { return bounces_.get() + tag * window_bytes_; }
  const DirectFile& file_of(const FileRead& read) const {
    return files_[static_cast<std::size_t>(read.file)];
  }
  bool idle() const { return free_.size() == kDepth; }

  /// Takes what there is room for. False: nothing is under way and nothing will come.
  bool fill() {
    while (!free_.empty()) {
      const auto share = queue_.take(free_.size(), idle() ? ReadQueue::Idle::wait : ReadQueue::Idle::go_on);
      if (!share) break;
      for (std::size_t i = share->first; i < share->last; ++i) start(*share->batch, i);
    }
    return !idle();
  }

  void start(ReadBatch& batch, std::size_t index) {
    const FileRead& read = batch.reads[index];
    const DirectFile& file = file_of(read);
    if (read.drill) return queue_.done(batch, index, problem_of(file, read, kDrill));
    const std::uint32_t tag = free_.back();
    free_.pop_back();
    const ReadPlace place = place_of(file, read, bounce(tag));
    under_way_[tag] = {&batch, index, place};
    ring_.prepare(file.descriptor(), place.to, static_cast<std::uint32_t>(place.window.size),
                  place.window.offset, tag);
  }

  /// A read that ended short or with an error is tried once more, waiting for it: that says what is wrong.
  void end(std::uint32_t tag, std::int32_t result) {
    const UnderWay ended = under_way_[tag];
    const FileRead& read = ended.batch->reads[ended.read];
    const DirectFile& file = file_of(read);
    std::string what;
    if (result < ended.place.window.needed) {
      what = read_now(file, read, bounce(tag));
    } else {
      deliver(file, read, ended.place);
    }
    free_.push_back(tag);
    queue_.done(*ended.batch, ended.read, std::move(what));
  }

  /// The kernel takes no more from this ring, and may still write where reads are under way: every read, now
  /// and later, is answered with that.
  void give_up(const std::string& what) {
    std::vector<bool> is_free(kDepth, false);
    for (const std::uint32_t tag : free_) is_free[tag] = true;
    for (std::uint32_t tag = 0; tag < kDepth; ++tag)
      if (!is_free[tag]) queue_.done(*under_way_[tag].batch, under_way_[tag].read, what);
    while (const auto share = queue_.take(1, ReadQueue::Idle::wait))
      queue_.done(*share->batch, share->first, what);
  }

  const std::vector<DirectFile>& files_;
  ReadQueue& queue_;
  Uring& ring_;
  std::int64_t window_bytes_;
  AlignedBytes bounces_;
  std::vector<UnderWay> under_way_ = std::vector<UnderWay>(kDepth);
  std::vector<std::uint32_t> free_;  // tags
};

class ThreadedReader final : public FileReader {
 public:
  ThreadedReader(std::vector<DirectFile> files, std::int64_t window_bytes, std::unique_ptr<Uring> ring,
                 std::string description)
      : files_(std::move(files)),
        window_bytes_(window_bytes),
        ring_(std::move(ring)),
        description_(std::move(description)) {}
  ~ThreadedReader() override {
    queue_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Throws where there is no thread to be had.
  void start() {
    if (ring_ != nullptr) {
      start_thread([this] { RingThread(files_, queue_, *ring_, window_bytes_).run(); });
      return;
    }
    for (int i = 0; i < kThreads; ++i)
      start_thread([this] { read_one_by_one(files_, queue_, window_bytes_); });
  }

  void begin(ReadBatch& batch) override {
    for ([[maybe_unused]] const FileRead& read : batch.reads)
      assert(read.file >= 0 && read.file < std::ssize(files_) && read.size.n <= window_bytes_);
    queue_.begin(batch);
  }
  void wait(ReadBatch& batch, const std::function<void()>& progressed) override {
    queue_.wait(batch, progressed);
  }
  const std::string& description() const override { return description_; }

 private:
  template <class Body>
  void start_thread(Body body) {
    threads_.emplace_back(std::move(body));
    pthread_setname_np(threads_.back().native_handle(), "atlas-rows");
  }

  std::vector<DirectFile> files_;
  std::int64_t window_bytes_;
  ReadQueue queue_;
  std::unique_ptr<Uring> ring_;
  std::string description_;
  std::vector<std::thread> threads_;
};

/// Of the files: "O_DIRECT", or the first that is read otherwise, and why.
std::string describe(const std::vector<DirectFile>& files, FileReaderOptions::Cache cache) {
  if (cache == FileReaderOptions::Cache::buffered) return "buffered reads, as asked for";
  for (const DirectFile& file : files)
    if (!file.direct())
      return "buffered reads (O_DIRECT on " + file.name() + ": " + file.why_buffered() + ')';
  return "O_DIRECT";
}

}  // namespace

Result<std::unique_ptr<FileReader>, std::string> open_file_reader(
    std::span<const std::filesystem::path> paths, Bytes largest_read, FileReaderOptions options) {
  const auto cache = options.cache == FileReaderOptions::Cache::automatic ? DirectFile::Cache::automatic
                                                                          : DirectFile::Cache::buffered;
  std::vector<DirectFile> files;
  for (const std::filesystem::path& path : paths) {
    auto file = DirectFile::open(path, cache);
    if (!file.ok()) return std::move(file).error();
    files.push_back(*std::move(file));
  }
  std::unique_ptr<Uring> ring;
  std::string engine = std::to_string(kThreads) + " threads";
  if (options.engine == FileReaderOptions::Engine::automatic) {
    auto made = Uring::create(kDepth);
    if (made.ok()) {
      ring = *std::move(made);
      engine = "io_uring";
    } else {
      engine += " (io_uring: " + made.error() + ')';
    }
  }
  const std::string description = engine + ", " + describe(files, options.cache);
  auto reader = std::make_unique<ThreadedReader>(std::move(files), largest_window(largest_read.n),
                                                 std::move(ring), description);
  try {
    reader->start();
  } catch (const std::system_error& error) {  // no thread to be had
    return std::string("threads that read files: ") + error.what();
  }
  return std::unique_ptr<FileReader>(std::move(reader));
}

}  // namespace gpu
