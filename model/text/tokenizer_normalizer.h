#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/text/tokenizer.h"

namespace model::text {

/// Text that took another form, with the literal ranges moved along.
struct RewrittenText {
  std::string text;
  std::vector<ByteRange> literal;
};

bool is_nfc(std::string_view text);

/// Canonical composition of valid UTF-8. A character that a literal byte took part in is literal.
RewrittenText to_nfc(std::string_view text, const std::vector<ByteRange>& literal);

/// Broken UTF-8 replaced by U+FFFD.
RewrittenText to_valid_utf8(std::string_view text, const std::vector<ByteRange>& literal);

/// The parts of `ranges` within `window`, counted from its start.
std::vector<ByteRange> clip(const std::vector<ByteRange>& ranges, ByteRange window);

}  // namespace model::text
