#include "model/checkpoint/inspect.h"

#include <cstdio>
#include <map>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/gguf_text.h"
#include "model/checkpoint/loader.h"
#include "model/text/unicode.h"

namespace model {
namespace {

std::string megabytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

std::int64_t elements_of(const TensorEntry& entry) {
  std::int64_t elements = 1;
  for (const std::int64_t size : entry.shape) elements *= size;
  return elements;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

void describe_config(const ModelConfig& config, std::string& out) {
  std::map<LayerKind, int> kinds;
  for (const LayerKind kind : config.layers) ++kinds[kind];
  out += "model_type   " + config.model_type + '\n';
  out += "layers       " + std::to_string(config.layers.size());
  if (kinds.size() > 1 || kinds.count(LayerKind::full_attention) == 0) {
    out += " (" + std::to_string(kinds[LayerKind::linear_attention]) + " linear, " +
           std::to_string(kinds[LayerKind::full_attention]) + " full, " +
           std::to_string(kinds[LayerKind::sparse_attention]) + " sparse attention)";
  }
  out += "\nhidden       " + std::to_string(config.hidden_size) + "\nheads        " +
         std::to_string(config.num_heads) + " of " + std::to_string(config.head_dim) + ", " +
         std::to_string(config.num_kv_heads) + " for keys and values\n";
  if (config.moe) {
    out += "experts      " + std::to_string(config.moe->num_experts) + ", " +
           std::to_string(config.moe->top_k) + " a token\n";
  }
  out += "vocabulary   " + std::to_string(config.vocab_size) +
         (config.tied_embeddings ? " (the embedding is the head)" : "") + '\n';
  out += "context      " + std::to_string(config.max_positions) + '\n';
}

void describe_gguf_text(const GgufText& text, std::string& out) {
  out += "tokenizer    ";
  if (!text.tokenizer) {
    out += "none\n";
  } else {
    const auto& tokenizer = *text.tokenizer;
    out += std::to_string(tokenizer.vocab.size()) + " tokens, " + std::to_string(tokenizer.merges.size()) +
           " merges, " + std::to_string(tokenizer.added.size()) + " of its own; special " +
           text::printable(text.special_tokens_json) + '\n';
  }
  out += "stop tokens ";
  for (const TokenId id : text.stop_tokens) out += ' ' + std::to_string(id);
  out += "\ntemplate     ";
  out += text.chat_template ? std::to_string(text.chat_template->size()) + " bytes\n" : "none\n";
}

void describe_folder_text(const std::filesystem::path& folder, std::string& out) {
  std::error_code unreadable;
  for (const auto& [what, names] :
       {std::pair("tokenizer    ", std::vector<const char*>{"tokenizer.json"}),
        std::pair("template     ",
                  std::vector<const char*>{"chat_template.jinja", "tokenizer_config.json"})}) {
    out += what;
    std::string found = "none";
    for (const char* name : names)
      if (found == "none" && std::filesystem::exists(folder / name, unreadable)) found = name;
    out += found + '\n';
  }
}

void describe_tensors(const Checkpoint& checkpoint, std::string& out) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_type;  // tensors, bytes
  std::int64_t elements = 0, bytes = 0;
  std::size_t width = 0;
  for (const auto& [name, at] : checkpoint.tensors()) {
    auto& [count, size] = by_type[to_string(at.entry->type)];
    ++count;
    size += at.entry->bytes;
    elements += elements_of(*at.entry);
    bytes += at.entry->bytes;
    width = std::max(width, name.size());
  }
  out += "tensors      " + std::to_string(checkpoint.tensors().size()) + ", " + std::to_string(elements) +
         " numbers in " + megabytes(bytes) + '\n';
  for (const auto& [type, sum] : by_type)
    out += "  " + padded(type, 6) + std::to_string(sum.first) + " tensors, " + megabytes(sum.second) + '\n';
  for (const auto& [name, at] : checkpoint.tensors())
    out += padded(text::printable(name), width + 2) + padded(to_string(at.entry->type), 6) +
           to_string(at.entry->shape) + '\n';
}

}  // namespace

Result<std::string, LoadError> describe_model(const std::filesystem::path& path) {
  auto model = open_model_folder(path);
  if (!model.ok()) return std::move(model).error();
  std::string out;
  describe_config(model->config, out);
  if (model->gguf) {
    auto text = read_gguf_text(*model->gguf);
    if (!text.ok()) return std::move(text).error();
    describe_gguf_text(*text, out);
    describe_tensors(Checkpoint::of(*model->gguf), out);
    return out;
  }
  describe_folder_text(path, out);
  auto checkpoint = Checkpoint::open(path);
  if (!checkpoint.ok()) return std::move(checkpoint).error();
  describe_tensors(*checkpoint, out);
  return out;
}

}  // namespace model
