#include "model/text/tokenizer_bpe.h"

#include <algorithm>
#include <bit>

namespace model::text {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::size_t kMaxWordBytes = std::size_t{1} << 30;  // places are 32 bits wide

constexpr std::uint64_t pair_of(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

constexpr std::size_t slot_of(std::uint64_t pair, std::size_t num_slots) {
  return static_cast<std::size_t>(pair * 0x9E3779B97F4A7C15U >> 20) & (num_slots - 1);
}

/// Of a max-heap, whose top is to be the lowest order.
constexpr auto kLater = [](const auto& a, const auto& b) { return a.order > b.order; };

}  // namespace

BytePairEncoder::BytePairEncoder(const TokenizerFile& file) {
  by_byte_.fill(file.unknown.value_or(kNoToken));
  for (const VocabEntry& entry : file.vocab) {
    if (!entry.is_byte_level) continue;
    if (entry.bytes.size() == 1) by_byte_[static_cast<unsigned char>(entry.bytes[0])] = entry.id;
    if (file.ignore_merges) whole_words_.emplace(entry.bytes, entry.id);
  }
  merges_.resize(std::bit_ceil(2 * file.merges.size() + 2));
  for (std::size_t rank = 0; rank < file.merges.size(); ++rank) {
    const MergeRule& rule = file.merges[rank];
    add_merge({pair_of(rule.left, rule.right), static_cast<std::uint32_t>(rank), rule.merged});
  }
}

/// A pair listed twice keeps its last rank, as in the library.
void BytePairEncoder::add_merge(Merge merge) {
  std::size_t slot = slot_of(merge.pair, merges_.size());
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != merge.pair)
    slot = (slot + 1) & (merges_.size() - 1);
  merges_[slot] = merge;
}

const BytePairEncoder::Merge* BytePairEncoder::merge_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t slot = slot_of(pair, merges_.size());; slot = (slot + 1) & (merges_.size() - 1)) {
    if (merges_[slot].pair == pair) return &merges_[slot];
    if (merges_[slot].pair == kNoPair) return nullptr;
  }
}

void BytePairEncoder::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
    out.push_back(whole->second);
    return;
  }
  for (; word.size() > kMaxWordBytes; word.remove_prefix(kMaxWordBytes))
    merge_word(word.substr(0, kMaxWordBytes), scratch, out);
  merge_word(word, scratch, out);
}

/// Notes the merge of the symbol at `place` with its successor, where there is one.
void BytePairEncoder::consider(Scratch& scratch, std::uint32_t place) const {
  const auto& symbol = scratch.symbols[place];
  if (symbol.next == kNone) return;
  if (const Merge* merge = merge_of(symbol.id, scratch.symbols[symbol.next].id))
    scratch.heap.push_back({std::uint64_t{merge->rank} << 32 | place, merge->merged});
}

void BytePairEncoder::merge_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  for (const char byte : word) {
    const TokenId id = by_byte_[static_cast<unsigned char>(byte)];
    if (id == kNoToken) continue;
    const auto place = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, place == 0 ? kNone : place - 1, place + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;
  for (std::uint32_t place = 0; place + 1 < symbols.size(); ++place) consider(scratch, place);
  std::make_heap(heap.begin(), heap.end(), kLater);

  const auto consider_now = [&](std::uint32_t place) {
    const std::size_t before = heap.size();
    consider(scratch, place);
    if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), kLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kLater);
    const auto candidate = heap.back();
    heap.pop_back();
    const auto place = static_cast<std::uint32_t>(candidate.order);
    auto& symbol = symbols[place];
    if (symbol.id == kNoToken || symbol.next == kNone)
      continue;  // joined to its left since, or the last one now
    auto& right = symbols[symbol.next];
    const Merge* merge = merge_of(symbol.id, right.id);
    if (merge == nullptr || merge->merged != candidate.merged) continue;  // a neighbour has changed since
    symbol.id = candidate.merged;
    symbol.next = right.next;
    right.id = kNoToken;
    if (symbol.next != kNone) symbols[symbol.next].previous = place;
    if (symbol.previous != kNone) consider_now(symbol.previous);
    consider_now(place);
  }
  for (std::uint32_t place = 0; place != kNone; place = symbols[place].next) out.push_back(symbols[place].id);
}

}  // namespace model::text
