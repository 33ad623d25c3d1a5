#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/gguf_text.h"
#include "model/text/tokenizer.h"
#include "tests/fuzz/target.h"

namespace {

/// The input as a file that has no name.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : descriptor_(memfd_create("gguf", MFD_CLOEXEC)) {
    fuzzing::require(descriptor_ >= 0);
    const auto size = static_cast<ssize_t>(content.size());
    fuzzing::require(write(descriptor_, content.data(), content.size()) == size);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void check_header(std::string_view input) {
  const auto header = model::parse_gguf(std::as_bytes(std::span(input)), "file");
  if (!header.ok()) {
    fuzzing::require(!header.error().problems.empty());
    return;
  }
  const auto size = static_cast<std::int64_t>(input.size());
  for (const model::TensorEntry& tensor : header->tensors) {
    fuzzing::require(tensor.offset >= 0 && tensor.bytes >= 0);
    fuzzing::require(header->data_start + tensor.offset <= size - tensor.bytes);
  }
}

}  // namespace

/// A GGUF file: its header, then what config, generation defaults, tokenizer and template are made of.
void fuzz(std::string_view input) {
  check_header(input);
  const MemoryFile file(input);
  const auto model = model::open_gguf(file.path());
  if (!model.ok()) return;
  (void)model::read_gguf_config(*model);
  (void)model::read_gguf_generation(*model);
  auto text = model::read_gguf_text(*model);
  if (!text.ok() || !text->tokenizer) return;
  const auto tokenizer = model::text::Tokenizer::from_parts(std::move(*text->tokenizer), "file");
  if (!tokenizer.ok()) return;
  (void)(*tokenizer)->decode((*tokenizer)->encode("hello <|im_end|> caf\xc3\xa9 12\n"), false);
}
