#include "model/checkpoint/gguf_text.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "model/checkpoint/gguf_reader.h"
#include "model/text/json_escape.h"
#include "model/text/tokenizer_added.h"
#include "model/text/tokenizer_bytes.h"

namespace model {
namespace {

using text::SplitRule;
using text::TokenizerFile;

/// tokenizer.ggml.token_type
enum TokenType : std::int64_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

constexpr std::int64_t kMaxTokens = limits::kVocab.max;
constexpr const char* kPreKey = "tokenizer.ggml.pre";

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A name of tokenizer.ggml.pre: how text is cut into words, which the file itself does not say.
struct PreTokenizer {
  std::string_view name;
  const char* first;  // null: only one pattern
  const char* second;
  bool nfc = false;            // the tokenizers behind these names normalise
  bool ignore_merges = false;  // whole words first
};
constexpr std::array kPreTokenizers{
    PreTokenizer{"gpt-2", nullptr, kGpt2},
    PreTokenizer{"smollm", kDigit, kGpt2},
    PreTokenizer{"llama-bpe", nullptr, kLlama3, false, true},
    PreTokenizer{"llama3", nullptr, kLlama3, false, true},
    PreTokenizer{"llama-v3", nullptr, kLlama3, false, true},
    PreTokenizer{"qwen2", nullptr, kQwen2, true},
    PreTokenizer{"qwen35", nullptr, kQwen35, true},
};

/// What ends a turn in the models of the field, where the file marks it as a control token.
constexpr std::array<std::string_view, 9> kEndNames{"<|eot_id|>", "<|eom_id|>",      "<|im_end|>",
                                                    "<|end|>",    "<|end_of_text|>", "<|endoftext|>",
                                                    "</s>",       "<end_of_turn>",   "<EOT>"};
constexpr std::array<std::string_view, 3> kEndKeys{
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};

std::string in_quotes(std::string_view text) {
  std::string shown;
  text::append_json_string(shown, text.substr(0, 100));
  return shown;
}

class TextReader {
 public:
  TextReader(const GgufModel& model, std::vector<std::string>& problems)
      : reader_(model, problems), problems_(problems) {}

  GgufText run() {
    GgufText out;
    read_template(out);
    const auto model = reader_.text("tokenizer.ggml.model");
    if (!model || *model == "none" || *model == "no_vocab") return out;
    if (*model != "gpt2") {
      reader_.problem("tokenizer.ggml.model",
                      "is " + in_quotes(*model) + "; supported is gpt2 (byte-level byte pairs)");
      return out;
    }
    tokens_ = reader_.texts("tokenizer.ggml.tokens");
    types_ = reader_.integers("tokenizer.ggml.token_type");
    reader_.require("tokenizer.ggml.tokens");
    reader_.require("tokenizer.ggml.merges");
    if (static_cast<std::int64_t>(tokens_.size()) > kMaxTokens)
      reader_.problem("tokenizer.ggml.tokens", "has " + std::to_string(tokens_.size()) + " elements");
    if (!types_.empty() && types_.size() != tokens_.size()) {
      reader_.problem("tokenizer.ggml.token_type", "has " + std::to_string(types_.size()) +
                                                       " elements, tokenizer.ggml.tokens has " +
                                                       std::to_string(tokens_.size()));
    }
    if (!problems_.empty()) return out;
    TokenizerFile& tokenizer = out.tokenizer.emplace();
    read_words(tokenizer);
    read_tokens(tokenizer);
    read_merges(tokenizer);
    read_special(out);
    return out;
  }

 private:
  std::int64_t type_of(std::size_t id) const { return types_.empty() ? normal : types_[id]; }

  void read_words(TokenizerFile& tokenizer) {
    reader_.require(kPreKey);
    const auto name = reader_.text(kPreKey);
    if (!name) return;
    const auto found = std::find_if(kPreTokenizers.begin(), kPreTokenizers.end(),
                                    [&](const PreTokenizer& pre) { return pre.name == *name; });
    if (found == kPreTokenizers.end()) {
      std::string known;
      for (const PreTokenizer& pre : kPreTokenizers)
        known += (known.empty() ? "" : ", ") + std::string(pre.name);
      reader_.problem(kPreKey, "is " + in_quotes(*name) + "; supported are " + known);
      return;
    }
    tokenizer.nfc = found->nfc;
    tokenizer.ignore_merges = found->ignore_merges;
    for (const char* pattern : {found->first, found->second})
      if (pattern != nullptr) tokenizer.splits.push_back({pattern, true, true, kPreKey});
  }

  void read_tokens(TokenizerFile& tokenizer) {
    ids_.reserve(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::string_view token = tokens_[i];
      const auto id = static_cast<TokenId>(i);
      const std::int64_t type = type_of(i);
      if (type == unused) continue;  // rows that pad the embedding
      const auto wrong = [&](const std::string& what) {
        reader_.problem("tokenizer.ggml.tokens",
                        "element " + std::to_string(i) + " (" + in_quotes(token) + ") " + what);
      };
      if (type < normal || type > byte) {
        reader_.problem("tokenizer.ggml.token_type",
                        "element " + std::to_string(i) + " is " + std::to_string(type));
        return;
      }
      if (token.empty()) return wrong("is empty");
      if (!ids_.emplace(token, id).second) return wrong("appears twice");
      auto bytes = text::bytes_of_byte_level(token);
      if (type == control || type == user_defined || type == unknown) {
        if (token.size() > text::kMaxAddedTokenBytes) return wrong("is too long for a token of its own");
        tokenizer.added.push_back({id, std::string(token), bytes ? *bytes : std::string(token), false, false,
                                   false, false, type != user_defined});
      } else if (!bytes) {
        return wrong("is not written in the byte-level alphabet");
      }
      const bool is_byte_level = bytes.has_value();
      tokenizer.vocab.push_back({id, is_byte_level ? *std::move(bytes) : std::string(token), is_byte_level});
    }
  }

  void read_merges(TokenizerFile& tokenizer) {
    const auto merges = reader_.texts("tokenizer.ggml.merges");
    std::string joined;
    for (std::size_t i = 0; i < merges.size(); ++i) {
      // A space separates the two; the alphabet of byte-level tokens has none.
      const auto space = merges[i].find(' ');
      const auto problem = [&](const std::string& what) {
        reader_.problem("tokenizer.ggml.merges",
                        "element " + std::to_string(i) + " (" + in_quotes(merges[i]) + ") " + what);
      };
      if (space == std::string_view::npos || merges[i].find(' ', space + 1) != std::string_view::npos)
        return problem("is not a pair of tokens");
      joined.assign(merges[i].substr(0, space)).append(merges[i].substr(space + 1));
      const auto left = ids_.find(merges[i].substr(0, space)), right = ids_.find(merges[i].substr(space + 1)),
                 merged = ids_.find(joined);
      if (left == ids_.end() || right == ids_.end() || merged == ids_.end())
        return problem("names tokens that are not in tokenizer.ggml.tokens");
      tokenizer.merges.push_back({left->second, right->second, merged->second});
    }
  }

  std::optional<TokenId> token_of(std::string_view key) {
    const auto id = reader_.integer(key, limits::kToken);
    if (!id) return std::nullopt;
    if (static_cast<std::size_t>(*id) < tokens_.size()) return static_cast<TokenId>(*id);
    reader_.problem(
        key, "is " + std::to_string(*id) + ", not below the " + std::to_string(tokens_.size()) + " tokens");
    return std::nullopt;
  }

  void read_special(GgufText& out) {
    const auto add_end = [&](TokenId id) {
      if (std::find(out.stop_tokens.begin(), out.stop_tokens.end(), id) == out.stop_tokens.end())
        out.stop_tokens.push_back(id);
    };
    for (std::string_view key : kEndKeys)
      if (const auto id = token_of(key)) add_end(*id);
    for (std::string_view name : kEndNames) {
      const auto found = ids_.find(name);
      if (found != ids_.end() && type_of(static_cast<std::size_t>(found->second)) == control)
        add_end(found->second);
    }
    std::string json;
    for (const auto& [name, key] : {std::pair("bos_token", "tokenizer.ggml.bos_token_id"),
                                    std::pair("eos_token", "tokenizer.ggml.eos_token_id"),
                                    std::pair("pad_token", "tokenizer.ggml.padding_token_id"),
                                    std::pair("unk_token", "tokenizer.ggml.unknown_token_id")}) {
      const auto id = token_of(key);
      if (!id) continue;
      json += json.empty() ? "{" : ",";
      text::append_json_string(json, name);
      json += ':';
      text::append_json_string(json, tokens_[static_cast<std::size_t>(*id)]);
    }
    out.special_tokens_json = json.empty() ? "{}" : json + '}';
  }

  void read_template(GgufText& out) {
    for (const char* key : {"tokenizer.chat_template", "tokenizer.chat_template.default"}) {
      if (const auto source = reader_.text(key); source && !out.chat_template)
        out.chat_template = std::string(*source);
    }
  }

  GgufReader reader_;
  std::vector<std::string>& problems_;
  std::vector<std::string_view> tokens_;
  std::vector<std::int64_t> types_;
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace

Result<GgufText, LoadError> read_gguf_text(const GgufModel& model) {
  LoadError error;
  GgufText out = TextReader(model, error.problems).run();
  if (!error.problems.empty()) return error;
  return out;
}

}  // namespace model
