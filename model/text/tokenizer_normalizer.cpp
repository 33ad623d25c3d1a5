#include "model/text/tokenizer_normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <iterator>
#include <optional>

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

/// A longer run of combining marks is put in canonical order before ICU sees it: ICU inserts each mark among
/// those before it, which is quadratic in an unordered run. Real text has a handful in a row.
constexpr std::size_t kLongRun = 32;

struct Mark {
  std::uint8_t combining_class = 0;
  std::string bytes;
};

/// The canonical decomposition of `code_point` when all of it combines with what stands before; else empty.
std::vector<Mark> marks_of(std::int32_t code_point) {
  icu::UnicodeString parts;
  if (nfc()->getDecomposition(code_point, parts) == 0) parts = icu::UnicodeString(code_point);
  std::vector<Mark> marks;
  for (std::int32_t at = 0; at < parts.length(); at = parts.moveIndex32(at, 1)) {
    const std::int32_t part = parts.char32At(at);
    const std::uint8_t combining_class = nfc()->getCombiningClass(part);
    if (combining_class == 0) return {};
    marks.push_back({combining_class, {}});
    icu::UnicodeString(part).toUTF8String(marks.back().bytes);
  }
  return marks;
}

/// The same text (canonically) with every long run of marks in order; none when each is already. Linear but
/// for the sort. UAX #15: a stable sort by combining class is the canonical order.
std::optional<RewrittenText> order_long_runs(std::string_view text, const std::vector<ByteRange>& literal) {
  RewrittenText out;
  RangeMover mover(literal);
  std::vector<Mark> run;
  std::size_t run_begin = 0, copied = 0, num_in_run = 0;
  const auto by_class = [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; };
  const auto end_run = [&](std::size_t run_end) {
    if (num_in_run > kLongRun && !std::is_sorted(run.begin(), run.end(), by_class)) {
      out.text.append(text.substr(copied, run_begin - copied));
      mover.span(run_begin - copied, run_begin - copied, true);
      const std::size_t before = out.text.size();
      std::stable_sort(run.begin(), run.end(), by_class);
      for (const Mark& mark : run) out.text += mark.bytes;
      mover.span(run_end - run_begin, out.text.size() - before, false);
      copied = run_end;
    }
    run.clear();
    num_in_run = 0;
  };
  for (std::size_t at = 0; at < text.size();) {
    constexpr unsigned char kFirstMarkLead = 0xCC;  // U+0300
    std::vector<Mark> marks;
    std::size_t length = 1;
    if (static_cast<unsigned char>(text[at]) >= kFirstMarkLead) {
      length = first_utf8_unit(text.substr(at)).length;
      marks = marks_of(static_cast<std::int32_t>(first_code_point(text.substr(at))));
    }
    if (marks.empty()) {
      end_run(at);
    } else {
      if (num_in_run++ == 0) run_begin = at;
      run.insert(run.end(), std::make_move_iterator(marks.begin()), std::make_move_iterator(marks.end()));
    }
    at += length;
  }
  end_run(text.size());
  if (copied == 0) return std::nullopt;
  out.text.append(text.substr(copied));
  mover.span(text.size() - copied, text.size() - copied, true);
  out.literal = mover.take();
  return out;
}

}  // namespace

bool is_nfc(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return true;
  if (order_long_runs(text, {})) return false;
  UErrorCode status = U_ZERO_ERROR;
  return nfc()->isNormalizedUTF8(piece_of(text), status) != 0 && U_SUCCESS(status);
}

RewrittenText to_nfc(std::string_view text, const std::vector<ByteRange>& literal) {
  if (const auto ordered = order_long_runs(text, literal)) return to_nfc(ordered->text, ordered->literal);
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
