#pragma once

#include <string>
#include <string_view>

namespace model::text {

/// Appends `text` as a JSON string, quotes included. Only what JSON requires is escaped (quote, backslash,
/// control characters); everything else leaves as UTF-8. Invalid UTF-8 becomes U+FFFD, so what leaves is
/// valid whatever came in.
void append_json_string(std::string& out, std::string_view text);

}  // namespace model::text
