#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "model/checkpoint/gguf_config.h"
#include "model/checkpoint/gguf_text.h"
#include "model/text/tokenizer.h"
#include "tests/fuzz/target.h"

namespace {

/// What is accepted keeps its promises: tensors lie within the file, and texts within the header.
void check_header(std::string_view input) {
  const auto header = model::parse_gguf(std::as_bytes(std::span(input)), "file");
  if (!header.ok()) return fuzzing::require(!header.error().problems.empty());
  const auto size = static_cast<std::int64_t>(input.size());
  for (const model::TensorEntry& tensor : header->tensors) {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
    fuzzing::require(tensor.bytes == rows * tensor.type.row_bytes({tensor.shape.back()}).n);
    fuzzing::require(tensor.offset >= 0 && header->data_start + tensor.offset + tensor.bytes <= size);
  }
  for (const auto& [key, value] : header->metadata) {
    const auto* array = std::get_if<model::GgufArray>(&value);
    if (array == nullptr) continue;
    for (const std::string_view text : array->strings())
      fuzzing::require(text.data() >= input.data() && text.data() + text.size() <= input.data() + size);
    fuzzing::require(static_cast<std::int64_t>(array->integers().size()) <= array->size);
  }
}

}  // namespace

/// A GGUF file: its header, and what the metadata says about model and text.
void fuzz(std::string_view input) {
  check_header(input);
  const int file = memfd_create("input", MFD_CLOEXEC);
  fuzzing::require(file >= 0 &&
                   write(file, input.data(), input.size()) == static_cast<ssize_t>(input.size()));
  const auto model = model::open_gguf("/proc/self/fd/" + std::to_string(file));
  if (model.ok()) {
    const auto config = model::read_gguf_config(*model);
    fuzzing::require(config.ok() || !config.error().problems.empty());
    const auto generation = model::read_gguf_generation(*model);
    fuzzing::require(generation.ok() || !generation.error().problems.empty());
    auto text = model::read_gguf_text(*model);
    if (text.ok() && text->tokenizer) {
      const auto tokenizer = model::text::Tokenizer::from_parts(*std::move(text->tokenizer), "file");
      if (tokenizer.ok()) (*tokenizer)->encode("héllo <|end|> 12");
    }
  }
  close(file);
}
