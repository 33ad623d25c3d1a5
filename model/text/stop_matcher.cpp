#include "model/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace model::text {
namespace {

struct Scan {
  std::optional<std::size_t> end;  // of the first occurrence
  std::size_t partial = 0;         // without one: how many of the text's last bytes begin the stop string
};

/// Knuth-Morris-Pratt: linear in text and stop string, however repetitive both are.
Scan scan(std::string_view text, std::string_view stop) {
  std::vector<std::size_t> border(stop.size(), 0);  // [i]: longest proper prefix of stop that ends at i
  const auto extend = [&](std::size_t matched, char next) {
    while (matched > 0 && stop[matched] != next) matched = border[matched - 1];
    return stop[matched] == next ? matched + 1 : 0;
  };
  for (std::size_t i = 1; i < stop.size(); ++i) border[i] = extend(border[i - 1], stop[i]);
  std::size_t matched = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    matched = extend(matched, text[i]);
    if (matched == stop.size()) return {i + 1, 0};
  }
  return {std::nullopt, matched};
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

StopMatcher::Piece StopMatcher::push(std::string_view text) {
  if (stops_.empty()) return {std::string(text), std::nullopt};
  held_.append(text);
  const std::string* matched = nullptr;
  std::size_t match_end = held_.size() + 1;
  std::size_t partial = 0;
  for (const std::string& stop : stops_) {
    const Scan found = scan(held_, stop);
    partial = std::max(partial, found.partial);
    if (!found.end) continue;
    if (*found.end < match_end || (*found.end == match_end && stop.size() > matched->size())) {
      matched = &stop;
      match_end = *found.end;
    }
  }
  std::string all = std::exchange(held_, {});
  if (matched != nullptr) {
    all.resize(include_stop_ ? match_end : match_end - matched->size());
    return {std::move(all), *matched};
  }
  held_ = all.substr(all.size() - partial);
  all.resize(all.size() - partial);
  return {std::move(all), std::nullopt};
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace model::text
