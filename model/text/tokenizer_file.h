#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/errors.h"
#include "model/ids.h"

namespace model::text {

/// What a tokenizer.json says, checked and reduced to what encoding and decoding need. Plain values.
struct VocabEntry {
  TokenId id;
  std::string bytes;
  bool is_byte_level;  ///< false: only an added token spells it; ordinary text never reaches it
};

struct MergeRule {  // its rank is its place in the list
  TokenId left, right, merged;
};

struct AddedToken {
  TokenId id;
  std::string content;  ///< what is searched for
  std::string bytes;    ///< what it decodes to
  bool single_word, lstrip, rstrip, normalized, special;
};

/// One pre-tokeniser: cuts text at the matches of a pattern (Oniguruma syntax). Matches and what lies between
/// them are pieces of their own.
struct SplitRule {
  std::string regex;
  bool keep_matches = true, keep_gaps = true;
  std::string key;  ///< where the file says so, for error messages
};

struct TokenizerFile {
  std::vector<VocabEntry> vocab;
  std::vector<MergeRule> merges;
  bool ignore_merges = false;
  std::optional<TokenId>
      unknown;  ///< of bytes that have no entry; without it such bytes vanish, as in the library
  std::vector<AddedToken> added;
  bool nfc = false;
  std::vector<SplitRule> splits;
};

/// Every problem found, each with the key. `file` names the file in messages.
Result<TokenizerFile, LoadError> parse_tokenizer_file(std::string_view json, std::string_view file);

}  // namespace model::text
