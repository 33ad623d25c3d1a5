#include "gpu/file/file_reader.h"

#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "gpu/file/direct_file.h"
#include "gpu/file/read_queue.h"

namespace gpu {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Engine = FileReaderOptions::Engine;
using Cache = FileReaderOptions::Cache;

/// Files of random bytes, gone with the test.
class Files {
 public:
  explicit Files(std::vector<std::size_t> sizes) {
    std::string name = (fs::temp_directory_path() / "atlas-rows-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    std::mt19937 random(17);
    for (const std::size_t size : sizes) {
      auto& content = contents.emplace_back(size);
      for (std::byte& byte : content) byte = static_cast<std::byte>(random());
      paths.push_back(folder_ / ("part-" + std::to_string(paths.size())));
      std::ofstream(paths.back(), std::ios::binary)
          .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(size));
    }
  }
  Files(const Files&) = delete;
  ~Files() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::vector<fs::path> paths;
  std::vector<std::vector<std::byte>> contents;

 private:
  fs::path folder_;
};

std::unique_ptr<FileReader> open(const std::vector<fs::path>& paths, Bytes largest,
                                 FileReaderOptions options = {}) {
  auto reader = open_file_reader(paths, largest, options);
  EXPECT_TRUE(reader.ok()) << (reader.ok() ? "" : reader.error());
  return reader.ok() ? *std::move(reader) : nullptr;
}

/// Reads of a batch with the places that they go to.
struct Wanted {
  ReadBatch batch;
  std::vector<std::vector<std::byte>> places;
  void add(std::int32_t file, std::int64_t offset, std::size_t size) {
    places.emplace_back(size, std::byte{0xEE});
    batch.reads.push_back(
        {file, offset, Bytes{static_cast<std::int64_t>(size)}, places.back().data(), false});
  }
  std::vector<std::byte> expected(const Files& files, std::size_t i) const {
    const FileRead& read = batch.reads[i];
    const auto from = files.contents[static_cast<std::size_t>(read.file)].begin() + read.offset;
    return {from, from + read.size.n};
  }
};

constexpr FileReaderOptions kEveryWay[] = {{Engine::automatic, Cache::automatic},
                                           {Engine::automatic, Cache::buffered},
                                           {Engine::threads, Cache::automatic},
                                           {Engine::threads, Cache::buffered}};

void expect_bytes_of_the_files(FileReader& reader, const Files& files, std::int64_t largest, int rounds) {
  std::mt19937 random(5);
  for (int round = 0; round < rounds; ++round) {
    Wanted wanted;
    const int reads =
        round == 0 ? 0 : 1 + static_cast<int>(random() % 700);  // more than are under way at once
    for (int i = 0; i < reads; ++i) {
      const auto file = static_cast<std::int32_t>(random() % files.contents.size());
      const auto size = std::ssize(files.contents[static_cast<std::size_t>(file)]);
      const std::int64_t bytes = 1 + static_cast<std::int64_t>(random()) % largest;
      std::int64_t offset = static_cast<std::int64_t>(random()) % (size - bytes + 1);
      if (i % 5 == 0) offset = std::min(4096 - bytes / 2, size - bytes);  // lies in two blocks
      if (i % 7 == 0) offset = size - bytes;                              // ends where the file does
      wanted.add(file, std::max<std::int64_t>(0, offset), static_cast<std::size_t>(bytes));
    }
    reader.begin(wanted.batch);
    reader.wait(wanted.batch, [] {});
    EXPECT_THAT(wanted.batch.failures, IsEmpty());
    for (std::size_t i = 0; i < wanted.places.size(); ++i)
      ASSERT_EQ(wanted.places[i], wanted.expected(files, i)) << "read " << i << " of round " << round;
  }
}

TEST(ReadWindow, HoldsWholeBlocksRoundWhatIsWanted) {
  struct Case {
    std::int64_t offset, size, first, bytes, skip;
  };
  for (const Case& c : {Case{0, 1, 0, 4096, 0},
                        {0, 4096, 0, 4096, 0},
                        {4095, 1, 0, 4096, 4095},
                        {4095, 2, 0, 8192, 4095},
                        {4096, 320, 4096, 4096, 0},
                        {8000, 320, 4096, 8192, 3904}}) {
    const ReadWindow window = blocks_around(c.offset, c.size);
    EXPECT_EQ(window.offset, c.first) << c.offset;
    EXPECT_EQ(window.size, c.bytes) << c.offset;
    EXPECT_EQ(window.skip, c.skip) << c.offset;
    EXPECT_EQ(window.needed, c.skip + c.size) << c.offset;
    EXPECT_LE(window.size, largest_window(c.size)) << c.offset;
  }
  EXPECT_EQ(largest_window(1), 4096);
  EXPECT_EQ(largest_window(2), 8192);
}

TEST(FileReader, GivesTheBytesOfTheFilesInEveryWay) {
  const Files files({40'000, 8'192, 4'097, 700});
  for (const FileReaderOptions& options : kEveryWay) {
    const auto reader = open(files.paths, Bytes{600}, options);
    SCOPED_TRACE(reader->description());
    expect_bytes_of_the_files(*reader, files, 600, 8);
  }
}

TEST(FileReader, TakesRowsLongerThanABlock) {
  const Files files({100'000});
  for (const FileReaderOptions& options : kEveryWay) {
    const auto reader = open(files.paths, Bytes{9'000}, options);
    SCOPED_TRACE(reader->description());
    expect_bytes_of_the_files(*reader, files, 9'000, 3);
  }
}

TEST(FileReader, SaysHowItReads) {
  const Files files({5'000});
  EXPECT_THAT(open(files.paths, Bytes{320}, {Engine::threads, Cache::buffered})->description(),
              HasSubstr("16 threads, buffered reads"));
  EXPECT_THAT(open(files.paths, Bytes{320})->description(),
              AnyOf(HasSubstr("io_uring"), HasSubstr("threads (io_uring: ")));
}

/// A file system that takes no direct reads: procfs is one on every machine.
TEST(FileReader, ReadsBufferedWhereTheFileSystemTakesNoDirectReads) {
  const auto reader = open({"/proc/self/limits"}, Bytes{320});
  EXPECT_THAT(reader->description(), HasSubstr("buffered reads (O_DIRECT on limits: Invalid argument)"));
  Wanted wanted;
  wanted.add(0, 3, 20);
  reader->begin(wanted.batch);
  reader->wait(wanted.batch, [] {});
  EXPECT_THAT(wanted.batch.failures, IsEmpty());
  std::ifstream file("/proc/self/limits");
  std::string text(23, ' ');
  file.read(text.data(), 23);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(wanted.places[0].data()), 20), text.substr(3));
}

/// Makes io_uring_setup answer EPERM in this process, as containers do.
bool forbid_io_uring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(FileReader, TakesThreadsWhereIoUringIsNotPermitted) {
  const Files files({40'000, 700});
  EXPECT_EXIT(
      {
        if (!forbid_io_uring()) std::_Exit(2);
        const auto reader = open(files.paths, Bytes{320});
        EXPECT_THAT(reader->description(), HasSubstr("16 threads (io_uring: Operation not permitted)"));
        expect_bytes_of_the_files(*reader, files, 320, 4);
        std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(FileReader, AReadPastTheEndFailsAloneAndNamesFileAndBytes) {
  const Files files({10'000});
  for (const FileReaderOptions& options : kEveryWay) {
    const auto reader = open(files.paths, Bytes{320}, options);
    SCOPED_TRACE(reader->description());
    Wanted wanted;
    wanted.add(0, 100, 320);
    wanted.add(0, 9'900, 320);
    wanted.add(0, 9'600, 320);
    reader->begin(wanted.batch);
    reader->wait(wanted.batch, [] {});
    ASSERT_EQ(wanted.batch.failures.size(), 1U);
    EXPECT_EQ(wanted.batch.failures[0].read, 1U);
    EXPECT_EQ(wanted.batch.failures[0].what, "part-0 bytes 9900 to 10220: the file ends at byte 10000");
    EXPECT_EQ(wanted.places[0], wanted.expected(files, 0));
    EXPECT_EQ(wanted.places[2], wanted.expected(files, 2));
  }
}

TEST(FileReader, ADrilledReadFailsAndTouchesNothing) {
  const Files files({10'000});
  for (const FileReaderOptions& options : kEveryWay) {
    const auto reader = open(files.paths, Bytes{320}, options);
    SCOPED_TRACE(reader->description());
    Wanted wanted;
    for (int i = 0; i < 3; ++i) wanted.add(0, 1'000 * i, 320);
    wanted.batch.reads[1].drill = true;
    reader->begin(wanted.batch);
    reader->wait(wanted.batch, [] {});
    ASSERT_EQ(wanted.batch.failures.size(), 1U);
    EXPECT_EQ(wanted.batch.failures[0].read, 1U);
    EXPECT_EQ(wanted.batch.failures[0].what,
              "part-0 bytes 1000 to 1320: injected, a row that cannot be read");
    EXPECT_EQ(wanted.places[1], std::vector<std::byte>(320, std::byte{0xEE}));
    EXPECT_EQ(wanted.places[2], wanted.expected(files, 2));
    // The same batch again, whole.
    wanted.batch.reads[1].drill = false;
    reader->begin(wanted.batch);
    reader->wait(wanted.batch, [] {});
    EXPECT_THAT(wanted.batch.failures, IsEmpty());
    EXPECT_EQ(wanted.places[1], wanted.expected(files, 1));
  }
}

TEST(FileReader, SeveralBatchesMayBeOnTheirWay) {
  const Files files({50'000});
  for (const FileReaderOptions& options : kEveryWay) {
    const auto reader = open(files.paths, Bytes{100}, options);
    SCOPED_TRACE(reader->description());
    std::vector<Wanted> all(5);
    for (std::size_t b = 0; b < all.size(); ++b) {
      for (int i = 0; i < 300; ++i) all[b].add(0, (i * 37 + static_cast<int>(b)) % 49'000, 100);
      reader->begin(all[b].batch);
    }
    for (auto wanted = all.rbegin(); wanted != all.rend(); ++wanted) {
      reader->wait(wanted->batch, [] {});
      for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(wanted->places[i], wanted->expected(files, i));
    }
  }
}

/// The second read ends only after the waiting thread has told of the first.
TEST(ReadQueue, TellsAWaitingThreadThatReadsEnd) {
  ReadQueue queue;
  ReadBatch batch;
  batch.reads.resize(2);
  queue.begin(batch);
  std::promise<void> begun, told;
  std::thread reader([&] {
    const auto share = queue.take(2, ReadQueue::Idle::wait);
    begun.get_future().wait();
    queue.done(*share->batch, 0, "");
    EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    queue.done(*share->batch, 1, "no such block");
  });
  begun.set_value();
  bool once = false;
  queue.wait(batch, [&] {
    if (!std::exchange(once, true)) told.set_value();
  });
  reader.join();
  ASSERT_EQ(batch.failures.size(), 1U);
  EXPECT_EQ(batch.failures[0].what, "no such block");
}

TEST(FileReader, EndsWithItsBatchesDone) {
  const Files files({50'000});
  for (const FileReaderOptions& options : kEveryWay) {
    Wanted wanted;
    for (int i = 0; i < 500; ++i) wanted.add(0, i * 90, 100);
    open(files.paths, Bytes{100}, options)->begin(wanted.batch);
    for (std::size_t i = 0; i < 500; ++i) ASSERT_EQ(wanted.places[i], wanted.expected(files, i));
  }
}

TEST(FileReader, NamesAFileThatCannotBeRead) {
  const Files files({10});
  const auto error = [](const fs::path& path) {
    return open_file_reader(std::vector{path}, Bytes{1}).error();
  };
  EXPECT_EQ(error(files.paths[0].string() + "-not"), "part-0-not: No such file or directory");
  EXPECT_THAT(error(files.paths[0].parent_path()), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace gpu
