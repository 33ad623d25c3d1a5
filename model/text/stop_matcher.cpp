#include "model/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace model::text {
namespace {

/// The longest prefix of `stop` that ends with `next`, when the `matched` first bytes came before it.
std::size_t extend(std::string_view stop, const std::vector<std::size_t>& border, std::size_t matched,
                   char next) {
  if (matched == stop.size()) matched = border[matched - 1];
  while (matched > 0 && stop[matched] != next) matched = border[matched - 1];
  return stop[matched] == next ? matched + 1 : 0;
}

std::vector<std::size_t> borders_of(std::string_view stop) {
  std::vector<std::size_t> border(stop.size(), 0);
  for (std::size_t i = 1; i < stop.size(); ++i) border[i] = extend(stop, border, border[i - 1], stop[i]);
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop) : include_stop_(include_stop) {
  std::vector<Stop> known;
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    auto border = borders_of(stop);
    known.push_back({std::move(stop), std::move(border)});
  }
  if (known.empty()) return;
  matched_.assign(known.size(), 0);
  stops_ = std::make_shared<const std::vector<Stop>>(std::move(known));
}

StopMatcher::Piece StopMatcher::push(std::string_view text, Occurrence occurrence) {
  if (!stops_) return {std::string(text), std::nullopt};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Stop* ended = nullptr;
    for (std::size_t s = 0; s < stops_->size(); ++s) {
      const Stop& stop = (*stops_)[s];
      matched_[s] = extend(stop.text, stop.border, matched_[s], text[i]);
      if (matched_[s] == stop.text.size() && (ended == nullptr || stop.text.size() > ended->text.size()))
        ended = &stop;
    }
    if (ended == nullptr || occurrence == Occurrence::is_text) continue;
    std::string out = std::exchange(held_, {});
    out += text.substr(0, i + 1);
    if (!include_stop_) out.resize(out.size() - ended->text.size());
    forget();
    return {std::move(out), ended->text};
  }
  // A whole stop string that is text can still be the beginning of another occurrence of itself, not more.
  std::size_t partial = 0;
  for (std::size_t s = 0; s < stops_->size(); ++s) {
    const Stop& stop = (*stops_)[s];
    if (matched_[s] == stop.text.size()) matched_[s] = stop.border.back();
    partial = std::max(partial, matched_[s]);
  }
  std::string out = std::exchange(held_, {});
  out += text;
  held_ = out.substr(out.size() - partial);
  out.resize(out.size() - partial);
  return {std::move(out), std::nullopt};
}

std::string StopMatcher::finish() {
  forget();
  return std::exchange(held_, {});
}

void StopMatcher::forget() { std::fill(matched_.begin(), matched_.end(), 0); }

}  // namespace model::text
