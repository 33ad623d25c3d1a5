#include "model/text/tokenizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "model/text/tokenizer_added.h"
#include "model/text/tokenizer_bpe.h"
#include "model/text/tokenizer_file.h"
#include "model/text/tokenizer_normalizer.h"
#include "model/text/tokenizer_pattern.h"
#include "model/text/unicode.h"

namespace model::text {
namespace {

/// Text → added tokens as written → normal form → added tokens of the normal form → words → byte pairs.
class ByteLevelTokenizer final : public Tokenizer {
 public:
  ByteLevelTokenizer(TokenizerFile file, WordSplitter splitter)
      : encoder_(file), splitter_(std::move(splitter)), nfc_(file.nfc) {
    for (VocabEntry& entry : file.vocab) know(entry.id).bytes = std::move(entry.bytes);
    for (AddedToken& token : file.added) {
      if (token.normalized && nfc_) {
        in_normal_form_.add(token, to_nfc(token.content, {}).text);
      } else {
        (token.normalized ? in_normal_form_ : as_written_).add(token, token.content);
      }
      Token& known = know(token.id);
      known.bytes = std::move(token.bytes);
      known.is_added = true;
      known.is_special = token.special;
      added_by_content_.emplace(std::move(token.content), token.id);
    }
  }

  std::vector<TokenId> encode(std::string_view text, std::span<const ByteRange> literal) const override {
    return encode(text, {literal.begin(), literal.end()}, true);
  }
  std::vector<TokenId> encode_ordinary(std::string_view text) const override {
    return encode(text, {}, false);
  }

  std::string_view bytes(TokenId id) const override {
    return is_known(id) ? token(id).bytes : std::string_view();
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    std::string all;
    for (const TokenId id : ids)
      if (!skip_special || !is_special(id)) all += bytes(id);
    return replace_invalid_utf8(all);
  }

  std::int32_t size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  bool is_known(TokenId id) const override { return id >= 0 && id < size() && token(id).is_known; }
  bool is_special(TokenId id) const override { return is_known(id) && token(id).is_special; }
  bool is_added(TokenId id) const override { return is_known(id) && token(id).is_added; }
  std::optional<TokenId> added_token(std::string_view content) const override {
    const auto found = added_by_content_.find(std::string(content));
    return found == added_by_content_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  struct Token {
    std::string bytes;
    bool is_known = false, is_added = false, is_special = false;
  };

  const Token& token(TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  Token& know(TokenId id) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens_.size()) tokens_.resize(index + 1);
    tokens_[index].is_known = true;
    return tokens_[index];
  }

  std::vector<TokenId> encode(std::string_view text, std::vector<ByteRange> literal, bool with_added) const {
    RewrittenText valid;
    if (valid_utf8_prefix(text) != text.size()) {
      valid = to_valid_utf8(text, literal);
      text = valid.text;
      literal = std::move(valid.literal);
    }
    std::vector<TokenId> ids;
    BytePairEncoder::Scratch scratch;
    const std::function<void(std::string_view)> on_word = [&](std::string_view word) {
      encoder_.encode_word(word, scratch, ids);
    };
    const auto ordinary = [&](std::string_view part) { splitter_.split(part, on_word); };
    const auto normal_form = [&](std::string_view part, const std::vector<ByteRange>& part_literal) {
      if (!with_added || in_normal_form_.empty()) return ordinary(part);
      for_each_section(in_normal_form_, part, part_literal, ids,
                       [&](ByteRange range) { ordinary(in(part, range)); });
    };
    const auto written = [&](ByteRange range) {
      const std::string_view part = in(text, range);
      const std::vector<ByteRange> part_literal =
          in_normal_form_.empty() ? std::vector<ByteRange>() : clip(literal, range);
      if (!nfc_ || is_nfc(part)) return normal_form(part, part_literal);
      const RewrittenText normal = to_nfc(part, part_literal);
      normal_form(normal.text, normal.literal);
    };
    if (with_added) {
      for_each_section(as_written_, text, literal, ids, written);
    } else {
      written({0, text.size()});
    }
    return ids;
  }

  static std::string_view in(std::string_view text, ByteRange range) {
    return text.substr(range.first, range.last - range.first);
  }

  template <class OnText>
  static void for_each_section(const AddedTokenFinder& finder, std::string_view text,
                               const std::vector<ByteRange>& literal, std::vector<TokenId>& ids,
                               const OnText& on_text) {
    for (const TextSection& section : finder.sections(text, literal)) {
      if (section.added) {
        ids.push_back(*section.added);
      } else {
        on_text(section.range);
      }
    }
  }

  std::vector<Token> tokens_;  // by id
  std::unordered_map<std::string, TokenId> added_by_content_;
  AddedTokenFinder as_written_, in_normal_form_;
  BytePairEncoder encoder_;
  WordSplitter splitter_;
  bool nfc_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>, LoadError> Tokenizer::from_json(std::string_view json,
                                                                         std::string_view file) {
  auto parsed = parse_tokenizer_file(json, file);
  RETURN_IF_ERROR(parsed);
  return from_parts(*std::move(parsed), file);
}

Result<std::shared_ptr<const Tokenizer>, LoadError> Tokenizer::from_parts(TokenizerFile parts,
                                                                          std::string_view file) {
  auto splitter = WordSplitter::compile(parts.splits, file);
  RETURN_IF_ERROR(splitter);
  return std::shared_ptr<const Tokenizer>(
      std::make_shared<ByteLevelTokenizer>(std::move(parts), *std::move(splitter)));
}

}  // namespace model::text
