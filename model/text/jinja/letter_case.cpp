#include "model/text/jinja/letter_case.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/edits.h>
#include <unicode/uchar.h>

#include <limits>

namespace model::text::jinja {
namespace {

enum class Case { upper, lower, title };

using Mapping = void (*)(const char* locale, std::uint32_t options, icu::StringPiece source,
                         icu::ByteSink& sink, icu::Edits* edits, UErrorCode& error);

/// Maps a whole text with ICU; its list of edits says which bytes became which.
Text mapped(Runtime& runtime, const Text& text, Mapping mapping) {
  runtime.step(text.size() / 16);
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) / 4)
    fail("string too long");
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  icu::Edits edits;
  UErrorCode error = U_ZERO_ERROR;
  const icu::StringPiece source(text.bytes().data(), static_cast<std::int32_t>(text.size()));
  mapping("", 0, source, sink, &edits, error);
  if (U_FAILURE(error)) fail("the letter case of a string cannot be changed");
  Builder out(runtime);
  auto edit = edits.getFineIterator();
  while (edit.next(error)) {
    const auto first = static_cast<std::size_t>(edit.sourceIndex());
    const auto size = static_cast<std::size_t>(edit.oldLength());
    if (edit.hasChange()) {
      const std::string_view bytes(result);
      out.add(bytes.substr(static_cast<std::size_t>(edit.destinationIndex()),
                           static_cast<std::size_t>(edit.newLength())),
              size > 0 && text.is_foreign(first));
    } else {
      out.add(text, first, first + size);
    }
  }
  return out.take();
}

void to_upper(const char* locale, std::uint32_t options, icu::StringPiece source, icu::ByteSink& sink,
              icu::Edits* edits, UErrorCode& error) {
  icu::CaseMap::utf8ToUpper(locale, options, source, sink, edits, error);
}
void to_lower(const char* locale, std::uint32_t options, icu::StringPiece source, icu::ByteSink& sink,
              icu::Edits* edits, UErrorCode& error) {
  icu::CaseMap::utf8ToLower(locale, options, source, sink, edits, error);
}
void to_folded(const char*, std::uint32_t options, icu::StringPiece source, icu::ByteSink& sink,
               icu::Edits* edits, UErrorCode& error) {
  icu::CaseMap::utf8Fold(options, source, sink, edits, error);
}

/// One letter at a time, for rules of Python that ICU does not have. Titlecase has no full mapping here but ß
/// and its like: those become an upper letter and the rest lower.
void add_letter(Builder& out, const Text& text, std::size_t at, std::size_t size, Case to) {
  const Text letter = text.slice(at, at + size);
  if (to == Case::lower) return out.add(lower(out.runtime(), letter));
  const char32_t code = code_point(text.bytes(), at);
  const auto simple = static_cast<char32_t>(to == Case::title ? u_totitle(static_cast<UChar32>(code))
                                                              : u_toupper(static_cast<UChar32>(code)));
  if (simple != code) {
    std::string bytes;
    append_utf8(bytes, simple);
    return out.add(bytes, text.is_foreign(at));
  }
  const Text full = upper(out.runtime(), letter);
  if (to == Case::upper || full.empty()) return out.add(full);
  const std::size_t first = code_point_size(full.bytes(), 0);
  out.add(full, 0, first);
  out.add(lower(out.runtime(), full.slice(first, full.size())));
}

bool is_cased(char32_t code) { return u_hasBinaryProperty(static_cast<UChar32>(code), UCHAR_CASED); }

bool all_cased(std::string_view text, UProperty wanted) {
  bool any = false;
  for (std::size_t at = 0; at < text.size(); at += code_point_size(text, at)) {
    const char32_t code = code_point(text, at);
    if (u_hasBinaryProperty(static_cast<UChar32>(code), wanted))
      any = true;
    else if (is_cased(code))
      return false;
  }
  return any;
}

}  // namespace

Text upper(Runtime& runtime, const Text& text) { return mapped(runtime, text, to_upper); }
Text lower(Runtime& runtime, const Text& text) { return mapped(runtime, text, to_lower); }
Text fold_case(Runtime& runtime, const Text& text) { return mapped(runtime, text, to_folded); }

Text title(Runtime& runtime, const Text& text) {
  Builder out(runtime);
  bool after_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = code_point_size(text.bytes(), at);
    runtime.step();
    add_letter(out, text, at, size, after_letter ? Case::lower : Case::title);
    after_letter = is_cased(code_point(text.bytes(), at));
    at += size;
  }
  return out.take();
}

Text capitalize(Runtime& runtime, const Text& text) {
  if (text.empty()) return {};
  Builder out(runtime);
  const std::size_t first = code_point_size(text.bytes(), 0);
  add_letter(out, text, 0, first, Case::title);
  out.add(lower(runtime, text.slice(first, text.size())));
  return out.take();
}

Text swap_case(Runtime& runtime, const Text& text) {
  Builder out(runtime);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = code_point_size(text.bytes(), at);
    runtime.step();
    const bool was_upper =
        u_hasBinaryProperty(static_cast<UChar32>(code_point(text.bytes(), at)), UCHAR_UPPERCASE);
    add_letter(out, text, at, size, was_upper ? Case::lower : Case::upper);
    at += size;
  }
  return out.take();
}

bool is_upper(std::string_view text) { return all_cased(text, UCHAR_UPPERCASE); }
bool is_lower(std::string_view text) { return all_cased(text, UCHAR_LOWERCASE); }

}  // namespace model::text::jinja
