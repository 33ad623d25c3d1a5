#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace model::text {

/// The bytes that a byte-level token stands for. Such a vocabulary writes each byte as one printable code
/// point: itself where it is printable in Latin-1, else one of U+0100…U+0143. nullopt: `token` has a code
/// point outside that alphabet.
std::optional<std::string> bytes_of_byte_level(std::string_view token);

}  // namespace model::text
