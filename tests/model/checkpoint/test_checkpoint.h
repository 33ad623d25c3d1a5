#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace model::testing_checkpoint {

namespace fs = std::filesystem;

/// A folder that goes when the test ends.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "atlas-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TempFolder(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string read_file(const fs::path& path) {
  std::string content(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(content.data(), static_cast<std::streamsize>(content.size()));
  return content;
}
inline void write_file(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

inline std::string length_prefix(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<char>(length >> (8 * i) & 0xFF);
  return bytes;
}

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;  ///< "" stands for zeros

  std::int64_t bytes() const {
    std::int64_t size = dtype == "I64" ? 8 : dtype == "F32" ? 4 : dtype == "F8_E4M3" ? 1 : 2;
    for (std::int64_t dimension : shape) size *= dimension;
    return size;
  }
};

/// A safetensors file as a list that a test can change.
struct TestFile {
  std::vector<TestTensor> tensors;

  enum class Data { none, hashes, all };
  /// With Data::hashes only the I64 buffers keep their values: enough for every check of a header.
  static TestFile read(const fs::path& path, Data keep) {
    const std::string content = read_file(path);
    std::uint64_t length = 0;
    std::memcpy(&length, content.data(), 8);
    TestFile file;
    const auto header = nlohmann::ordered_json::parse(content.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      TestTensor tensor{name, entry["dtype"], entry["shape"], ""};
      if (keep == Data::all || (keep == Data::hashes && tensor.dtype == "I64")) {
        tensor.data = content.substr(8 + length + entry["data_offsets"][0].get<std::size_t>(),
                                     static_cast<std::size_t>(tensor.bytes()));
      }
      file.tensors.push_back(std::move(tensor));
    }
    return file;
  }

  TestTensor& find(const std::string& name) {
    for (TestTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }
  void drop(const std::string& name) {
    tensors.erase(
        std::remove_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; }),
        tensors.end());
  }

  /// Zeros are holes of the file: writing a model of megabytes costs its header.
  void write(const fs::path& path) const {
    nlohmann::ordered_json header;
    header["__metadata__"] = {{"format", "pt"}};
    std::int64_t end = 0;
    for (const TestTensor& tensor : tensors) {
      header[tensor.name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {end, end + tensor.bytes()}}};
      end += tensor.bytes();
    }
    const std::string text = header.dump();
    const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const auto put = [&](const std::string& bytes, std::int64_t at) {
      if (::pwrite(file, bytes.data(), bytes.size(), at) != static_cast<ssize_t>(bytes.size()))
        throw std::runtime_error("pwrite");
    };
    const auto start = static_cast<std::int64_t>(8 + text.size());
    if (::ftruncate(file, start + end) != 0) throw std::runtime_error("ftruncate");
    put(length_prefix(text.size()) + text, 0);
    std::int64_t at = start;
    for (const TestTensor& tensor : tensors) {
      if (!tensor.data.empty()) put(tensor.data, at);
      at += tensor.bytes();
    }
    ::close(file);
  }
};

}  // namespace model::testing_checkpoint
