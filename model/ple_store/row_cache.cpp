#include "model/ple_store/row_cache.h"

#include <bit>
#include <cassert>

namespace model {
namespace {

std::size_t index_size(std::int64_t num_slots) {
  return std::bit_ceil(2 * static_cast<std::size_t>(num_slots));
}

/// Rows of a head lie close together: their bits are spread before the low ones choose an entry.
std::size_t spread(std::int64_t row) {
  const std::uint64_t mixed = static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(mixed ^ mixed >> 32);
}

}  // namespace

RowCache::RowCache(std::int64_t num_slots)
    : slots_(static_cast<std::size_t>(num_slots)), index_(index_size(num_slots), -1) {}

gpu::Bytes RowCache::bytes(std::int64_t num_slots) {
  return gpu::Bytes{static_cast<std::int64_t>(sizeof(SlotState))} * num_slots +
         gpu::Bytes{static_cast<std::int64_t>(index_size(num_slots) * sizeof(Slot))};
}

std::optional<RowCache::Place> RowCache::pin(Pins& pins, std::int64_t row) {
  std::size_t entry = entry_of(row);
  if (const Slot slot = index_[entry]; slot >= 0) {
    state(slot).again = true;
    hold(pins, slot);
    return Place{slot, false};
  }
  const auto slot = unpinned_slot();
  if (!slot) return std::nullopt;
  SlotState& taken = state(*slot);
  if (taken.row >= 0) {
    erase(taken.row);
    entry = entry_of(row);
  }
  taken.row = row;
  taken.again = false;
  index_[entry] = *slot;
  ++num_rows_;
  hold(pins, *slot);
  return Place{*slot, true};
}

void RowCache::hold(Pins& pins, Slot slot) {
  SlotState& held = state(slot);
  if (held.ticket == pins.ticket) return;
  held.ticket = pins.ticket;
  if (held.pins++ == 0) ++num_pinned_;
  pins.slots.push_back(slot);
}

void RowCache::unpin(Pins& pins) {
  for (const Slot slot : pins.slots) {
    SlotState& held = state(slot);
    assert(held.pins > 0);
    if (--held.pins == 0) --num_pinned_;
    if (held.ticket == pins.ticket) held.ticket = 0;
  }
  pins.slots.clear();
}

void RowCache::drop(Slot slot) {
  SlotState& failed = state(slot);
  if (failed.row < 0) return;
  erase(failed.row);
  failed.row = -1;
  failed.again = false;
}

void RowCache::forget(std::int64_t row) {
  const Slot slot = index_[entry_of(row)];
  if (slot >= 0 && state(slot).pins == 0) drop(slot);
}

/// Two rounds find a slot whenever one is unpinned: the first takes the second chances away.
std::optional<RowCache::Slot> RowCache::unpinned_slot() {
  if (num_pinned_ == num_slots()) return std::nullopt;
  while (true) {
    const auto at = static_cast<Slot>(hand_);
    SlotState& seen = slots_[hand_];
    hand_ = hand_ + 1 == slots_.size() ? 0 : hand_ + 1;
    if (seen.pins > 0) continue;
    if (!seen.again) return at;
    seen.again = false;
  }
}

std::size_t RowCache::entry_of(std::int64_t row) const {
  const std::size_t mask = index_.size() - 1;
  std::size_t entry = spread(row) & mask;
  while (index_[entry] >= 0 && row_of(index_[entry]) != row) entry = (entry + 1) & mask;
  return entry;
}

/// Moves back what had to go further than the emptied entry, so that no search stops there early.
void RowCache::erase(std::int64_t row) {
  const std::size_t mask = index_.size() - 1;
  std::size_t empty = entry_of(row);
  assert(index_[empty] >= 0);
  --num_rows_;
  for (std::size_t entry = (empty + 1) & mask; index_[entry] >= 0; entry = (entry + 1) & mask) {
    const std::size_t home = spread(row_of(index_[entry])) & mask;
    if (((entry - home) & mask) < ((entry - empty) & mask)) continue;
    index_[empty] = index_[entry];
    empty = entry;
  }
  index_[empty] = -1;
}

}  // namespace model
