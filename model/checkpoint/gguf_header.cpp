#include "model/checkpoint/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpu/units.h"
#include "model/checkpoint/gguf_types.h"

namespace model {
namespace {

constexpr std::size_t kMaxProblems = 50;
constexpr std::uint64_t kMaxKeyBytes = 65'535;  // the format's own limit
constexpr std::uint64_t kMaxNameBytes = 255;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::int64_t kDefaultAlignment = 32;
constexpr std::int64_t kMaxAlignment = 1 << 16;
constexpr std::uint64_t kLeastEntryBytes = 13;   // a key of no bytes, its type, one byte of value
constexpr std::uint64_t kLeastTensorBytes = 32;  // a name of no bytes, one dimension, type and offset
constexpr std::string_view kAlignmentKey = "general.alignment";

/// Why reading cannot go on.
struct Broken {
  std::string what;
};

/// Names from a downloaded file, fit for a log line.
std::string in_quotes(std::string_view text) {
  std::string shown = "\"";
  for (char c : text.substr(0, 100)) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return shown + (text.size() > 100 ? "…\"" : "\"");
}

/// Takes values off the front of the file, never past its end.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> all) : all_(all) {}

  std::size_t position() const { return position_; }
  std::uint64_t left() const { return all_.size() - position_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > left()) {
      throw Broken{std::string(what) + " needs " + std::to_string(count) + " bytes at byte " +
                   std::to_string(position_) + ", the file has " + std::to_string(left()) + " left"};
    }
    const auto taken = all_.subspan(position_, static_cast<std::size_t>(count));
    position_ += taken.size();
    return taken;
  }
  template <class T>
  T number(std::string_view what) {
    T value{};
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::string_view text(std::uint64_t longest, std::string_view what) {
    const auto length = number<std::uint64_t>(what);
    if (length > longest && length <= left()) {
      throw Broken{std::string(what) + " has " + std::to_string(length) + " bytes, at most " +
                   std::to_string(longest) + " are possible"};
    }
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> all_;
  std::size_t position_ = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string_view name)
      : file_bytes_(static_cast<std::int64_t>(file.size())), bytes_(file), name_(name) {}

  Result<GgufHeader, LoadError> run() {
    try {
      read_start();
      read_metadata();
      read_tensors();
      check_data();
    } catch (const Broken& broken) {
      problem(broken.what);
    }
    if (!error_.problems.empty()) return error_;
    return std::move(header_);
  }

 private:
  void problem(const std::string& what) {
    if (error_.problems.size() < kMaxProblems) error_.problems.push_back(std::string(name_) + ": " + what);
  }

  void read_start() {
    if (bytes_.left() < 24)
      throw Broken{"a file of " + std::to_string(bytes_.left()) + " bytes is no GGUF file"};
    const auto magic = bytes_.take(4, "the magic number");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
      const bool swapped = std::memcmp(magic.data(), "FUGG", 4) == 0;
      throw Broken{swapped ? "is a big-endian GGUF file, which is not supported"
                           : "does not begin with \"GGUF\": no GGUF file"};
    }
    header_.version = bytes_.number<std::uint32_t>("the version");
    if (header_.version == 0x02000000U || header_.version == 0x03000000U)
      throw Broken{"is a big-endian GGUF file, which is not supported"};
    if (header_.version != 2 && header_.version != 3)
      throw Broken{"GGUF version " + std::to_string(header_.version) + " is not supported (2 and 3 are)"};
    num_tensors_ = count("tensors", kLeastTensorBytes);
    num_entries_ = count("metadata keys", kLeastEntryBytes);
    if (num_tensors_ * kLeastTensorBytes + num_entries_ * kLeastEntryBytes > bytes_.left())
      throw Broken{std::to_string(num_tensors_) + " tensors and " + std::to_string(num_entries_) +
                   " metadata keys do not fit into the " + std::to_string(bytes_.left()) + " bytes left"};
  }

  /// Held against the file before anybody counts up to it.
  std::uint64_t count(std::string_view what, std::uint64_t least_bytes) {
    const auto number = bytes_.number<std::uint64_t>("the header");
    if (number > bytes_.left() / least_bytes) {
      throw Broken{std::to_string(number) + " " + std::string(what) + " do not fit into the " +
                   std::to_string(bytes_.left()) + " bytes left"};
    }
    return number;
  }

  void read_metadata() {
    for (std::uint64_t i = 0; i < num_entries_; ++i) {
      const std::string place = "metadata key " + std::to_string(i);
      const std::string_view key = bytes_.text(kMaxKeyBytes, place);
      if (key.empty()) throw Broken{place + " has no name"};
      const std::string what = "key " + in_quotes(key);
      const GgufValue value = read_value(read_type(what), what);
      if (!header_.metadata.emplace(key, value).second) problem(what + " appears twice");
    }
  }

  GgufType read_type(const std::string& what) {
    const auto number = bytes_.number<std::uint32_t>(what);
    if (number > static_cast<std::uint32_t>(GgufType::f64))
      throw Broken{what + " has the unknown value type " + std::to_string(number)};
    return static_cast<GgufType>(number);
  }

  GgufValue read_value(GgufType type, const std::string& what) {
    if (type == GgufType::string) return bytes_.text(~std::uint64_t{0}, what);
    if (type == GgufType::array) return read_array(what);
    const std::byte* from = bytes_.take(gguf::width_of(type), what).data();
    if (type == GgufType::f32) return double{gguf::read_at<float>(from)};
    if (type == GgufType::f64) return gguf::read_at<double>(from);
    if (type == GgufType::boolean) return boolean(from, what);
    if (type == GgufType::u64 && gguf::read_at<std::uint64_t>(from) >> 63 != 0)
      return GgufUnsigned{gguf::read_at<std::uint64_t>(from)};
    return *gguf::integer_at(type, from);
  }

  bool boolean(const std::byte* from, const std::string& what) {
    const auto value = std::to_integer<int>(*from);
    if (value > 1) problem(what + " is the boolean " + std::to_string(value) + ", 0 or 1 is needed");
    return value != 0;
  }

  GgufArray read_array(const std::string& what) {
    const GgufType type = read_type(what);
    if (type == GgufType::array) throw Broken{what + " is a list of lists, which is not supported"};
    const auto size = bytes_.number<std::uint64_t>(what);
    const std::uint64_t least = type == GgufType::string ? sizeof(std::uint64_t) : gguf::width_of(type);
    if (size > bytes_.left() / least) {
      throw Broken{what + " is a list of " + std::to_string(size) + " elements, which do not fit into the " +
                   std::to_string(bytes_.left()) + " bytes left"};
    }
    GgufArray array{type, static_cast<std::int64_t>(size), {}};
    if (type != GgufType::string) {
      array.bytes = bytes_.take(size * least, what);
      for (std::size_t i = 0; type == GgufType::boolean && i < array.bytes.size(); ++i) {
        if (std::to_integer<int>(array.bytes[i]) <= 1) continue;
        problem(what + " holds a boolean that is neither 0 nor 1");
        break;
      }
      return array;
    }
    Bytes whole = bytes_;
    const std::size_t first = bytes_.position();
    for (std::uint64_t i = 0; i < size; ++i) bytes_.text(~std::uint64_t{0}, what);
    array.bytes = whole.take(bytes_.position() - first, what);
    return array;
  }

  void read_tensors() {
    std::map<std::string_view, int> names;
    for (std::uint64_t i = 0; i < num_tensors_; ++i) {
      const std::string place = "tensor " + std::to_string(i);
      const std::string_view name = bytes_.text(kMaxNameBytes, place);
      if (name.empty()) throw Broken{place + " has no name"};
      const std::string what = "tensor " + in_quotes(name);
      if (++names[name] == 2) problem(what + " appears twice");
      read_tensor(name, what);
    }
  }

  void read_tensor(std::string_view name, const std::string& what) {
    TensorEntry entry;
    entry.name = name;
    const auto num_dimensions = bytes_.number<std::uint32_t>(what);
    if (num_dimensions == 0 || num_dimensions > kMaxDimensions) {
      throw Broken{what + " has " + std::to_string(num_dimensions) + " dimensions, 1 to " +
                   std::to_string(kMaxDimensions) + " are possible"};
    }
    std::int64_t elements = 1;
    bool sound = true;
    for (std::uint32_t d = 0; d < num_dimensions; ++d) {
      const auto size = bytes_.number<std::uint64_t>(what);
      if (size == 0 || size >> 62 != 0) {
        problem(what + " has a dimension of " + std::to_string(size));
        sound = false;
      } else if (sound && __builtin_mul_overflow(elements, static_cast<std::int64_t>(size), &elements)) {
        problem(what + " has more elements than can be counted");
        sound = false;
      }
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    const std::int64_t cols = entry.shape.front();
    std::reverse(entry.shape.begin(), entry.shape.end());
    const auto number = bytes_.number<std::uint32_t>(what);
    const gguf::TensorTypeName* type = gguf::tensor_type(number);
    const auto offset = bytes_.number<std::uint64_t>(what);
    if (type == nullptr || !type->type) {
      problem(what +
              (type == nullptr ? " has the unknown type " + std::to_string(number)
                               : " is " + std::string(type->name) + ", which is not supported") +
              " (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are)");
      return;
    }
    entry.type = *type->type;
    if (!sound) return;
    if (!size_tensor(entry, elements, cols, what)) return;
    if (offset >> 63 != 0) {
      problem(what + " has the offset " + std::to_string(offset));
      return;
    }
    entry.offset = static_cast<std::int64_t>(offset);
    header_.tensors.push_back(std::move(entry));
  }

  bool size_tensor(TensorEntry& entry, std::int64_t elements, std::int64_t cols, const std::string& what) {
    kernels::BlockShape block{1, gpu::size_of(entry.type.dtype)};
    if (entry.type.quantized) block = kernels::block_shape(*entry.type.quantized);
    if (cols % block.elements != 0) {
      problem(what + " has rows of " + std::to_string(cols) + " elements, which are no whole blocks of " +
              std::to_string(block.elements));
      return false;
    }
    if (__builtin_mul_overflow(elements / block.elements, block.bytes, &entry.bytes) ||
        entry.bytes > file_bytes_) {
      problem(what + " of shape " + to_string(entry.shape) + " needs more bytes than the file's " +
              std::to_string(file_bytes_));
      return false;
    }
    return true;
  }

  std::int64_t alignment() {
    const auto found = header_.metadata.find(kAlignmentKey);
    if (found == header_.metadata.end()) return kDefaultAlignment;
    const auto* value = std::get_if<std::int64_t>(&found->second);
    if (value != nullptr && *value >= 1 && *value <= kMaxAlignment &&
        std::has_single_bit(static_cast<std::uint64_t>(*value)))
      return *value;
    problem("key \"" + std::string(kAlignmentKey) + "\" is not a power of two up to " +
            std::to_string(kMaxAlignment));
    return kDefaultAlignment;
  }

  void check_data() {
    const std::int64_t step = alignment();
    header_.data_start = gpu::round_up(static_cast<std::int64_t>(bytes_.position()), step);
    const std::int64_t data_bytes = std::max<std::int64_t>(0, file_bytes_ - header_.data_start);
    std::vector<const TensorEntry*> order;
    for (const TensorEntry& entry : header_.tensors) {
      const std::string what =
          "tensor " + in_quotes(entry.name) + " at offset " + std::to_string(entry.offset);
      if (entry.offset % step != 0) problem(what + " is not aligned to " + std::to_string(step) + " bytes");
      if (entry.offset > data_bytes || entry.bytes > data_bytes - entry.offset) {
        problem(what + " with its " + std::to_string(entry.bytes) + " bytes ends behind the " +
                std::to_string(data_bytes) + " bytes of data");
      }
      order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(),
              [](const TensorEntry* a, const TensorEntry* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i]->offset - order[i - 1]->offset >= order[i - 1]->bytes) continue;
      problem("tensor " + in_quotes(order[i]->name) + " overlaps tensor " + in_quotes(order[i - 1]->name));
    }
  }

  std::int64_t file_bytes_;
  Bytes bytes_;
  std::string_view name_;
  std::uint64_t num_tensors_ = 0, num_entries_ = 0;
  GgufHeader header_;
  LoadError error_;
};

}  // namespace

Result<GgufHeader, LoadError> parse_gguf(std::span<const std::byte> file, std::string_view name) {
  return Parser(file, name).run();
}

}  // namespace model
