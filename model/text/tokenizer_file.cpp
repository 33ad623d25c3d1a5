#include "model/text/tokenizer_file.h"

#include <simdjson.h>

#include <unordered_map>
#include <unordered_set>

#include "model/text/tokenizer_added.h"
#include "model/text/tokenizer_bytes.h"
#include "model/text/tokenizer_pattern.h"

namespace model::text {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;
constexpr std::int64_t kMaxTokenId = (1 << 24) - 1;
constexpr std::size_t kMaxRules = 32;
constexpr std::size_t kMaxProblems = 50;

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Walks the document with the key of every place at hand, and gathers what is wrong with it.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  void read(const element& document) {
    object root;
    if (document.get(root) != simdjson::SUCCESS) return fail("", "is not an object");
    only_keys(root, "",
              {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
    for (const char* key : {"truncation", "padding"})
      if (!is_null(root[key])) fail(key, "is not supported");
    read_model(root["model"]);
    read_added_tokens(root["added_tokens"]);
    read_normalizer(root["normalizer"], "normalizer", 0);
    read_pre_tokenizer(root["pre_tokenizer"]);
    read_post_processor(root["post_processor"], "post_processor", 0);
    const std::string decoder = type_of(root["decoder"], "decoder");
    if (decoder != "ByteLevel") fail("decoder.type", "'" + decoder + "' is not supported (only ByteLevel)");
  }

  Result<TokenizerFile, LoadError> result() && {
    if (!problems_.empty()) return LoadError{std::move(problems_)};
    return std::move(out_);
  }

  void fail(std::string_view key, const std::string& what) {
    if (problems_.size() < kMaxProblems)
      problems_.push_back(std::string(file_) + ": " + (key.empty() ? "" : std::string(key) + ": ") + what);
  }

 private:
  using Found = simdjson::simdjson_result<element>;

  static Found given(element value) { return Found(std::move(value)); }
  static bool is_null(const Found& value) {
    return value.error() != simdjson::SUCCESS || value.value_unsafe().is_null();
  }

  void only_keys(const object& value, const std::string& key, std::initializer_list<std::string_view> known) {
    std::unordered_set<std::string_view> seen;
    for (const auto& field : value) {
      const std::string name = (key.empty() ? "" : key + ".") + std::string(field.key);
      if (std::find(known.begin(), known.end(), field.key) == known.end()) fail(name, "is not supported");
      if (!seen.insert(field.key).second) fail(name, "appears twice");
    }
  }

  bool flag(const object& parent, const std::string& key, const char* name, bool when_absent) {
    const Found value = parent[name];
    if (is_null(value)) return when_absent;
    bool out = when_absent;
    if (value.get(out) != simdjson::SUCCESS) fail(key + "." + name, "is not true or false");
    return out;
  }

  std::string type_of(const Found& value, const std::string& key) {
    std::string_view type;
    if (is_null(value) || value["type"].get(type) != simdjson::SUCCESS) {
      fail(key, "has no type");
      return {};
    }
    return std::string(type);
  }

  void must_be_empty(const object& parent, const std::string& key, const char* name) {
    const Found value = parent[name];
    std::string_view text;
    if (is_null(value) || (value.get(text) == simdjson::SUCCESS && text.empty())) return;
    fail(key + "." + name, "is not supported");
  }

  static std::string vocab_key(std::string_view token) { return "model.vocab['" + std::string(token) + "']"; }

  /// `key` is called only where it is needed: there are hundreds of thousands of entries.
  template <class Key>
  std::optional<TokenId> token_id(const Found& value, const Key& key) {
    std::int64_t id = 0;
    if (value.get(id) == simdjson::SUCCESS && id >= 0 && id <= kMaxTokenId) return static_cast<TokenId>(id);
    fail(key(), "is not an id from 0 to " + std::to_string(kMaxTokenId));
    return std::nullopt;
  }

  void read_model(const Found& value) {
    object model;
    if (value.get(model) != simdjson::SUCCESS) return fail("model", "is not an object");
    only_keys(model, "model",
              {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
               "byte_fallback", "ignore_merges", "vocab", "merges"});
    std::string_view type;
    if (!is_null(model["type"]) && (model["type"].get(type) != simdjson::SUCCESS || type != "BPE"))
      return fail("model.type", "'" + std::string(type) + "' is not supported (only BPE)");
    double dropout = 0;
    if (!is_null(model["dropout"]) && (model["dropout"].get(dropout) != simdjson::SUCCESS || dropout != 0))
      fail("model.dropout", "is not supported");
    must_be_empty(model, "model", "continuing_subword_prefix");
    must_be_empty(model, "model", "end_of_word_suffix");
    if (flag(model, "model", "byte_fallback", false)) fail("model.byte_fallback", "is not supported");
    out_.ignore_merges = flag(model, "model", "ignore_merges", false);
    read_vocab(model["vocab"]);
    read_merges(model["merges"]);
    read_unknown(model);
  }

  void read_vocab(const Found& value) {
    object vocab;
    if (value.get(vocab) != simdjson::SUCCESS) return fail("model.vocab", "is not an object");
    for (const auto& field : vocab) {
      const auto key = [&] { return vocab_key(field.key); };
      const auto id = token_id(given(field.value), key);
      if (!id) continue;
      if (field.key.empty()) fail(key(), "an empty token");
      if (!id_by_token_.emplace(field.key, *id).second) fail(key(), "appears twice");
      if (!token_by_id_.emplace(*id, field.key).second)
        fail(key(), "id " + std::to_string(*id) + " is taken");
      auto bytes = bytes_of_byte_level(field.key);
      if (!bytes) not_byte_level_.insert(field.key);
      out_.vocab.push_back({*id, bytes ? *std::move(bytes) : std::string(field.key), bytes.has_value()});
    }
  }

  void read_merges(const Found& value) {
    array merges;
    if (value.get(merges) != simdjson::SUCCESS) return fail("model.merges", "is not a list");
    std::size_t index = 0;
    for (const element merge : merges) {
      const auto key = [index] { return "model.merges[" + std::to_string(index) + "]"; };
      if (const auto pair = merge_pair(merge)) {
        const auto left = id_by_token_.find(pair->first), right = id_by_token_.find(pair->second);
        const auto merged = id_by_token_.find(std::string(pair->first) + std::string(pair->second));
        if (left == id_by_token_.end() || right == id_by_token_.end() || merged == id_by_token_.end()) {
          fail(key(), "'" + std::string(pair->first) + "' + '" + std::string(pair->second) +
                          "' is not made of tokens of model.vocab");
        } else {
          out_.merges.push_back({left->second, right->second, merged->second});
        }
      } else {
        fail(key(), "is not a pair of tokens");
      }
      ++index;
    }
  }

  static std::optional<std::pair<std::string_view, std::string_view>> merge_pair(const element& merge) {
    std::pair<std::string_view, std::string_view> pair;
    std::string_view line;
    if (merge.get(line) == simdjson::SUCCESS) {
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
        return std::nullopt;
      return std::pair{line.substr(0, space), line.substr(space + 1)};
    }
    array both;
    if (merge.get(both) != simdjson::SUCCESS || both.size() != 2) return std::nullopt;
    if (both.at(0).get(pair.first) != simdjson::SUCCESS || both.at(1).get(pair.second) != simdjson::SUCCESS)
      return std::nullopt;
    return pair;
  }

  /// Joined unknowns (fuse_unk) would need a rule of their own; where every byte of UTF-8 has an entry
  /// nothing is ever unknown.
  void read_unknown(const object& model) {
    const bool fuse = flag(model, "model", "fuse_unk", false);
    if (is_null(model["unk_token"])) return;
    std::string_view token;
    if (model["unk_token"].get(token) != simdjson::SUCCESS) return fail("model.unk_token", "is not a string");
    const auto id = id_by_token_.find(token);
    if (id != id_by_token_.end()) out_.unknown = id->second;
    std::unordered_set<unsigned char> known;
    for (const VocabEntry& entry : out_.vocab)
      if (entry.is_byte_level && entry.bytes.size() == 1)
        known.insert(static_cast<unsigned char>(entry.bytes[0]));
    bool complete = true;
    for (unsigned byte = 0; byte < 0xF5; ++byte)
      complete =
          complete && (byte == 0xC0 || byte == 0xC1 || known.contains(static_cast<unsigned char>(byte)));
    if (complete) return;
    if (id == id_by_token_.end()) fail("model.unk_token", "is not in model.vocab");
    if (fuse) fail("model.fuse_unk", "is not supported where bytes have no token");
  }

  void read_added_tokens(const Found& value) {
    std::unordered_set<std::string_view> contents;
    std::unordered_set<TokenId> ids;
    if (!is_null(value)) {
      array tokens;
      if (value.get(tokens) != simdjson::SUCCESS) return fail("added_tokens", "is not a list");
      std::size_t index = 0;
      for (const element token : tokens) {
        const std::string key = "added_tokens[" + std::to_string(index++) + "]";
        object fields;
        std::string_view content;
        if (token.get(fields) != simdjson::SUCCESS || fields["content"].get(content) != simdjson::SUCCESS) {
          fail(key, "is not an object with a content");
          continue;
        }
        only_keys(fields, key, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
        const auto id = token_id(fields["id"], [&] { return key + ".id"; });
        if (!id) continue;
        if (content.empty() || content.size() > kMaxAddedTokenBytes)
          fail(key + ".content", "has no or too many bytes");
        if (!contents.insert(content).second)
          fail(key + ".content", "'" + std::string(content) + "' appears twice");
        if (!ids.insert(*id).second) fail(key + ".id", std::to_string(*id) + " appears twice");
        const auto in_vocab = id_by_token_.find(content);
        const auto other = token_by_id_.find(*id);
        if ((in_vocab != id_by_token_.end() && in_vocab->second != *id) ||
            (other != token_by_id_.end() && other->second != content))
          fail(key + ".id", std::to_string(*id) + " contradicts model.vocab");
        const bool special = flag(fields, key, "special", false);
        out_.added.push_back(
            {*id, std::string(content), bytes_of_byte_level(content).value_or(std::string(content)),
             flag(fields, key, "single_word", false), flag(fields, key, "lstrip", false),
             flag(fields, key, "rstrip", false), flag(fields, key, "normalized", !special), special});
      }
    }
    for (const std::string_view token : not_byte_level_)
      if (!contents.contains(token)) fail(vocab_key(token), "is not written in the byte-level alphabet");
  }

  void read_normalizer(const Found& value, const std::string& key, int depth) {
    if (is_null(value)) return;
    const std::string type = type_of(value, key);
    if (type == "NFC") {
      out_.nfc = true;
    } else if (type == "Sequence" && depth < 4) {
      for_each(value["normalizers"], key + ".normalizers",
               [&](const element& part, const std::string& part_key) {
                 read_normalizer(given(part), part_key, depth + 1);
               });
    } else if (!type.empty()) {
      fail(key + ".type", "'" + type + "' is not supported (NFC, Sequence)");
    }
  }

  template <class Each>
  void for_each(const Found& list, const std::string& key, const Each& each) {
    array parts;
    if (list.get(parts) != simdjson::SUCCESS || parts.size() > kMaxRules)
      return fail(key, "is not a list of at most " + std::to_string(kMaxRules));
    std::size_t index = 0;
    for (const element part : parts) each(part, key + "[" + std::to_string(index++) + "]");
  }

  void read_pre_tokenizer(const Found& value) {
    num_byte_levels_ = 0;
    read_pre_tokenizer_part(value, "pre_tokenizer", 0);
    if (num_byte_levels_ != 1) fail("pre_tokenizer", "has no ByteLevel, or several");
  }

  void read_pre_tokenizer_part(const Found& value, const std::string& key, int depth) {
    const std::string type = type_of(value, key);
    object fields;
    if (type.empty() || value.get(fields) != simdjson::SUCCESS) return;
    // Behind ByteLevel a pattern would see the byte-level alphabet instead of the text.
    if (num_byte_levels_ > 0) return fail(key, "follows ByteLevel");
    if (type == "Sequence" && depth < 4) {
      for_each(value["pretokenizers"], key + ".pretokenizers",
               [&](const element& part, const std::string& part_key) {
                 read_pre_tokenizer_part(given(part), part_key, depth + 1);
               });
    } else if (type == "Split") {
      read_split(fields, key);
    } else if (type == "Digits") {
      only_keys(fields, key, {"type", "individual_digits"});
      out_.splits.push_back(
          {flag(fields, key, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)", true, true, key});
    } else if (type == "ByteLevel") {
      only_keys(fields, key, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      if (flag(fields, key, "add_prefix_space", true)) fail(key + ".add_prefix_space", "is not supported");
      if (flag(fields, key, "use_regex", true))
        out_.splits.push_back({std::string(kGpt2Pattern), true, true, key});
      ++num_byte_levels_;
    } else {
      fail(key + ".type", "'" + type + "' is not supported (Sequence, Split, Digits, ByteLevel)");
    }
  }

  void read_split(const object& fields, const std::string& key) {
    only_keys(fields, key, {"type", "pattern", "behavior", "invert"});
    const bool invert = flag(fields, key, "invert", false);
    std::string_view behavior, regex;
    if (fields["behavior"].get(behavior) != simdjson::SUCCESS ||
        (behavior != "Isolated" && behavior != "Removed"))
      return fail(key + ".behavior", "'" + std::string(behavior) + "' is not supported (Isolated, Removed)");
    if (fields["pattern"]["Regex"].get(regex) != simdjson::SUCCESS)
      return fail(key + ".pattern", "is not supported (only Regex)");
    const bool removes = behavior == "Removed";
    out_.splits.push_back(
        {std::string(regex), !removes || invert, !removes || !invert, key + ".pattern.Regex"});
  }

  /// Post-processors insert special tokens on request, which is the chat template's affair here, and move
  /// offsets; ids stay as they are.
  void read_post_processor(const Found& value, const std::string& key, int depth) {
    if (is_null(value)) return;
    const std::string type = type_of(value, key);
    if (type == "Sequence" && depth < 4) {
      for_each(value["processors"], key + ".processors",
               [&](const element& part, const std::string& part_key) {
                 read_post_processor(given(part), part_key, depth + 1);
               });
    } else if (type != "ByteLevel" && type != "TemplateProcessing" && !type.empty()) {
      fail(key + ".type", "'" + type + "' is not supported (Sequence, ByteLevel, TemplateProcessing)");
    }
  }

  std::string_view file_;
  TokenizerFile out_;
  std::vector<std::string> problems_;
  std::unordered_map<std::string_view, TokenId> id_by_token_;  // views into the document
  std::unordered_map<TokenId, std::string_view> token_by_id_;
  std::unordered_set<std::string_view> not_byte_level_;
  int num_byte_levels_ = 0;
};

}  // namespace

Result<TokenizerFile, LoadError> parse_tokenizer_file(std::string_view json, std::string_view file) {
  Reader reader(file);
  simdjson::dom::parser parser(kMaxFileBytes);
  element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document); error != simdjson::SUCCESS) {
    reader.fail("", std::string("is not JSON: ") + simdjson::error_message(error));
  } else {
    reader.read(document);
  }
  return std::move(reader).result();
}

}  // namespace model::text
