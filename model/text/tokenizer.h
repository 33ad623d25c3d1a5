#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/errors.h"
#include "model/ids.h"

namespace model::text {

struct TokenizerFile;

/// Bytes [first, last) of a text.
struct ByteRange {
  std::size_t first = 0, last = 0;
};

/// Byte-level BPE of a tokenizer.json (Hugging Face tokenizers format): NFC normaliser, pre-tokeniser pattern
/// (PCRE2, JIT), merges, added tokens. Immutable after loading; every member may be called from any thread at
/// once. Encoding is linear (times log) in the input, a single word of 1 MB included. Anything in the file
/// that this class does not implement is a load error naming the key.
class Tokenizer {
 public:
  static Result<std::shared_ptr<const Tokenizer>, LoadError> from_json(std::string_view json,
                                                                       std::string_view file);
  /// The same of a vocabulary that another kind of file describes. `file` names that file in problems.
  static Result<std::shared_ptr<const Tokenizer>, LoadError> from_parts(TokenizerFile parts,
                                                                        std::string_view file);
  virtual ~Tokenizer() = default;

  /// Ids of `text`. Added tokens are recognised everywhere except where they would touch a byte of `literal`
  /// (ascending, disjoint): what a user wrote is ordinary text, so nobody can close a turn by spelling a
  /// control token. `text` is UTF-8; invalid bytes are encoded as U+FFFD.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      std::span<const ByteRange> literal = {}) const = 0;
  /// Like `encode` with no added token recognised at all.
  virtual std::vector<TokenId> encode_ordinary(std::string_view text) const = 0;

  /// The raw bytes of a token (may be part of a code point). An unknown id gives "".
  virtual std::string_view bytes(TokenId id) const = 0;
  /// Text of a whole list, broken UTF-8 replaced by U+FFFD as the tokenizers library does.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;

  virtual std::int32_t size() const = 0;  ///< one more than the largest id
  virtual bool is_known(TokenId id) const = 0;
  virtual bool is_special(TokenId id) const = 0;  ///< added token with special: true
  virtual bool is_added(TokenId id) const = 0;
  virtual std::optional<TokenId> added_token(std::string_view content) const = 0;
};

}  // namespace model::text
