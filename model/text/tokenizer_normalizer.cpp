#include "model/text/tokenizer_normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>

#include <algorithm>

#include "model/text/unicode.h"

namespace model::text {
namespace {

const icu::Normalizer2* nfc() {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* instance = icu::Normalizer2::getNFCInstance(status);
  return U_SUCCESS(status) ? instance : nullptr;  // its data is compiled into ICU
}

icu::StringPiece piece_of(std::string_view text) {
  return {text.data(), static_cast<std::int32_t>(text.size())};
}

/// Moves ranges through a rewriting that is told span by span, in order.
class RangeMover {
 public:
  explicit RangeMover(const std::vector<ByteRange>& ranges) : ranges_(ranges) {}

  /// The next `length` bytes became `new_length` bytes; `same`: they are the same bytes.
  void span(std::size_t length, std::size_t new_length, bool same) {
    const std::size_t end = at_ + length;
    for (; index_ < ranges_.size() && ranges_[index_].first < end; ++index_) {
      const ByteRange& range = ranges_[index_];
      const std::size_t first = std::max(range.first, at_), last = std::min(range.last, end);
      if (first < last)
        add(same ? ByteRange{new_at_ + first - at_, new_at_ + last - at_}
                 : ByteRange{new_at_, new_at_ + new_length});
      if (range.last > end) break;
    }
    at_ = end;
    new_at_ += new_length;
  }
  std::vector<ByteRange> take() { return std::move(moved_); }

 private:
  void add(ByteRange range) {
    if (!moved_.empty() && moved_.back().last >= range.first) {
      moved_.back().last = std::max(moved_.back().last, range.last);
    } else if (range.first < range.last) {
      moved_.push_back(range);
    }
  }

  const std::vector<ByteRange>& ranges_;
  std::vector<ByteRange> moved_;
  std::size_t index_ = 0, at_ = 0, new_at_ = 0;
};

}  // namespace

bool is_nfc(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return true;
  UErrorCode status = U_ZERO_ERROR;
  return nfc()->isNormalizedUTF8(piece_of(text), status) != 0 && U_SUCCESS(status);
}

RewrittenText to_nfc(std::string_view text, const std::vector<ByteRange>& literal) {
  RewrittenText out;
  icu::StringByteSink<std::string> sink(&out.text, static_cast<std::int32_t>(text.size()));
  icu::Edits edits;
  UErrorCode status = U_ZERO_ERROR;
  nfc()->normalizeUTF8(0, piece_of(text), sink, literal.empty() ? nullptr : &edits, status);
  if (literal.empty()) return out;
  RangeMover mover(literal);
  for (icu::Edits::Iterator edit = edits.getFineIterator(); edit.next(status) != 0;)
    mover.span(static_cast<std::size_t>(edit.oldLength()), static_cast<std::size_t>(edit.newLength()),
               edit.hasChange() == 0);
  out.literal = mover.take();
  return out;
}

RewrittenText to_valid_utf8(std::string_view text, const std::vector<ByteRange>& literal) {
  RewrittenText out;
  RangeMover mover(literal);
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    out.text.append(text.substr(0, valid));
    mover.span(valid, valid, true);
    text.remove_prefix(valid);
    if (text.empty()) break;
    const std::size_t broken = first_utf8_unit(text).length;
    out.text.append(kReplacementCharacter);
    mover.span(broken, kReplacementCharacter.size(), false);
    text.remove_prefix(broken);
  }
  out.literal = mover.take();
  return out;
}

std::vector<ByteRange> clip(const std::vector<ByteRange>& ranges, ByteRange window) {
  std::vector<ByteRange> out;
  for (const ByteRange& range : ranges) {
    const std::size_t first = std::max(range.first, window.first), last = std::min(range.last, window.last);
    if (first < last) out.push_back({first - window.first, last - window.first});
  }
  return out;
}

}  // namespace model::text
