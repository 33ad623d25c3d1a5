#include "actors/gpu_stream/served_text.h"

#include <simdjson.h>
#include <iterator>
#include <optional>
#include <utility>

#include "model/checkpoint/gguf_text.h"
#include "model/checkpoint/mapped_file.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace actors {
namespace {

namespace fs = std::filesystem;
using model::LoadError;

constexpr std::int64_t kMaxTextFileBytes = 256 << 20;

void append(std::vector<std::string>& problems, LoadError error) {
  problems.insert(problems.end(), std::make_move_iterator(error.problems.begin()),
                  std::make_move_iterator(error.problems.end()));
}

/// The file's text; none when it is not there, or when a problem was noted.
std::optional<std::string> read_text(const fs::path& path, std::vector<std::string>& problems) {
  auto text = model::read_optional_file(path, kMaxTextFileBytes);
  if (text.ok()) return *std::move(text);
  append(problems, std::move(text).error());
  return std::nullopt;
}

/// tokenizer_config.json's chat_template: a text, or a list of named ones whose "default" is meant.
std::optional<std::string> template_of_config(std::string_view json, std::vector<std::string>& problems) {
  simdjson::dom::parser parser;
  simdjson::dom::element root, source;
  if (const auto error = parser.parse(json.data(), json.size()).get(root)) {
    problems.push_back("tokenizer_config.json: " + std::string(simdjson::error_message(error)));
    return std::nullopt;
  }
  if (root["chat_template"].get(source) != simdjson::SUCCESS || source.is_null()) return std::nullopt;
  std::string_view text;
  if (source.get(text) == simdjson::SUCCESS) return std::string(text);
  simdjson::dom::array list;
  if (source.get(list) == simdjson::SUCCESS) {
    for (const simdjson::dom::element item : list) {
      std::string_view name;
      if (item["name"].get(name) == simdjson::SUCCESS && name == "default" &&
          item["template"].get(text) == simdjson::SUCCESS)
        return std::string(text);
    }
  }
  problems.push_back(
      "tokenizer_config.json: chat_template is neither a text nor a list of named templates with a "
      "\"default\"");
  return std::nullopt;
}

void read_tokenizer(const fs::path& folder, ServedModel& served, std::vector<std::string>& problems) {
  const fs::path path = folder / "tokenizer.json";
  const auto json = read_text(path, problems);
  if (!json) return;  // token ids only
  auto tokenizer = model::text::Tokenizer::from_json(*json, path.string());
  if (!tokenizer.ok()) return append(problems, std::move(tokenizer).error());
  if ((*tokenizer)->size() > served.config.vocab_size) {
    problems.push_back(path.string() + ": token ids up to " + std::to_string((*tokenizer)->size() - 1) +
                       "; config.json has a vocab_size of " + std::to_string(served.config.vocab_size));
    return;
  }
  served.tokenizer = std::move(*tokenizer);
}

/// --chat-template, else chat_template.jinja, else the tokenizer's configuration.
void read_template(const fs::path& folder, const std::string& named, ServedModel& served,
                   std::vector<std::string>& problems) {
  const auto config = read_text(folder / "tokenizer_config.json", problems);
  std::optional<std::string> of_config;
  if (config) of_config = template_of_config(*config, problems);
  fs::path path = named.empty() ? folder / "chat_template.jinja" : fs::path(named);
  auto source = read_text(path, problems);
  if (!source && !named.empty()) {
    problems.push_back("--chat-template " + named + ": cannot be read");
    return;
  }
  if (!source) {
    path = folder / "tokenizer_config.json";
    source = std::move(of_config);
  }
  if (!source) return;
  auto parsed = model::text::ChatTemplate::parse(*source, config.value_or(""), path.string());
  if (!parsed.ok()) return append(problems, std::move(parsed).error());
  served.chat_template = std::move(*parsed);
}

/// The same out of a GGUF file.
void read_gguf_text_into(const model::GgufModel& gguf, const std::string& named, ServedModel& served,
                         std::vector<std::string>& problems) {
  auto text = model::read_gguf_text(gguf);
  if (!text.ok()) return append(problems, std::move(text).error());
  if (!text->stop_tokens.empty()) served.stop_tokens = text->stop_tokens;
  if (!text->tokenizer) return;  // token ids only
  auto tokenizer = model::text::Tokenizer::from_parts(std::move(*text->tokenizer), gguf.name());
  if (!tokenizer.ok()) return append(problems, std::move(tokenizer).error());
  served.tokenizer = std::move(*tokenizer);
  std::string path = gguf.name() + ": tokenizer.chat_template";
  std::optional<std::string> source = std::move(text->chat_template);
  if (!named.empty()) {
    source = read_text(named, problems);
    path = named;
    if (!source) problems.push_back("--chat-template " + named + ": cannot be read");
  }
  if (!source) return;
  auto parsed = model::text::ChatTemplate::parse(*source, text->special_tokens_json, path);
  if (!parsed.ok()) return append(problems, std::move(parsed).error());
  served.chat_template = std::move(*parsed);
}

}  // namespace

void read_served_text(const model::ModelFolder& folder, const std::string& chat_template, ServedModel& served,
                      std::vector<std::string>& problems) {
  if (folder.gguf) {
    read_gguf_text_into(*folder.gguf, chat_template, served, problems);
  } else {
    read_tokenizer(folder.path, served, problems);
    if (served.tokenizer) read_template(folder.path, chat_template, served, problems);
  }
  if (served.tokenizer) {
    served.token_traits = std::make_shared<const model::repetition::TokenTraits>(*served.tokenizer);
  }
}

}  // namespace actors
