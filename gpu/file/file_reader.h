#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/result.h"
#include "gpu/units.h"

namespace gpu {

/// "These bytes of that file to this place."
struct FileRead {
  std::int32_t file = 0;    ///< index of the reader's files
  std::int64_t offset = 0;  ///< aligned to nothing
  Bytes size;               ///< at most the reader's largest_read
  std::byte* to = nullptr;
  bool drill = false;  ///< answered with an error, and nothing is read: faults that are made on purpose
};
struct ReadFailure {
  std::size_t read = 0;  ///< index in the batch
  std::string what;      ///< file, bytes, and what the system says
};

/// Reads that are asked for together. Stays with its owner, untouched, from begin() to the end of wait().
struct ReadBatch {
  std::vector<FileRead> reads;
  std::vector<ReadFailure> failures;  ///< filled by wait()

 private:
  friend class ReadQueue;
  std::size_t taken_ = 0, done_ = 0;
};

/// How bytes come from the files: decided once, when they are opened.
struct FileReaderOptions {
  enum class Engine { automatic, threads } engine = Engine::automatic;  ///< automatic: io_uring, or threads
  enum class Cache { automatic, buffered } cache = Cache::automatic;    ///< automatic: O_DIRECT, or buffered
};

/// Small reads at random places of files that are larger than memory. Threads of its own do them: the caller
/// begins a batch, does something else, and waits for it. With O_DIRECT a read goes through a bounce buffer
/// of whole blocks, since neither offset nor size of what is wanted is aligned; nothing is left in the page
/// cache. One thread calls begin and wait; batches are done in the order of begin.
class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual void begin(ReadBatch& batch) = 0;
  /// `progressed` is called now and then while reads of the batch end: a slow disk is not a dead one.
  virtual void wait(ReadBatch& batch, const std::function<void()>& progressed) = 0;
  /// "io_uring, O_DIRECT", or with the reasons why not.
  virtual const std::string& description() const = 0;
};

/// The error names the file.
Result<std::unique_ptr<FileReader>, std::string> open_file_reader(
    std::span<const std::filesystem::path> files, Bytes largest_read, FileReaderOptions options = {});

}  // namespace gpu
