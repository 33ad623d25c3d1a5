#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "gpu/units.h"

namespace model {

/// Which rows of a table lie in which slots: the policy, without the bytes. A plan pins the slots of its rows
/// before anything is fetched and lets them go when it has run; only slots that nobody pins are taken from
/// their rows, by CLOCK: a hand goes round and passes once by a row that was asked for again since it came.
/// Free → (pin a missing row) Reserved → (fetched) Held → (CLOCK) Reserved for another row;
/// Reserved → (fetch failed: drop) Free. Reserved and Held differ for the owner alone, who waits for what it
/// fetches. Pure; one thread.
class RowCache {
 public:
  using Slot = std::int32_t;
  static constexpr std::int64_t kMostSlots = std::numeric_limits<Slot>::max();

  /// What one plan holds, until unpin.
  struct Pins {
    std::vector<Slot> slots;
    std::uint64_t ticket = 0;
  };
  struct Place {
    Slot slot = -1;
    bool missing = false;  ///< reserved just now: its row has to be fetched
  };

  explicit RowCache(std::int64_t num_slots);
  /// Bytes of these tables for so many slots.
  static gpu::Bytes bytes(std::int64_t num_slots);

  Pins new_pins() { return {{}, ++last_ticket_}; }
  /// The row's slot, pinned. None: the row is not there, and every slot is pinned.
  std::optional<Place> pin(Pins& pins, std::int64_t row);
  void unpin(Pins& pins);
  /// The slot's row was not fetched: nobody finds it there any more.
  void drop(Slot slot);
  /// Lets go of a row that no plan pins: the next one that asks has to fetch it.
  void forget(std::int64_t row);

  /// −1: none.
  std::int64_t row_of(Slot slot) const { return slots_[static_cast<std::size_t>(slot)].row; }
  std::int64_t num_slots() const { return static_cast<std::int64_t>(slots_.size()); }
  std::int64_t num_pinned() const { return num_pinned_; }
  /// Rows that are held or reserved.
  std::int64_t num_rows() const { return num_rows_; }

 private:
  struct SlotState {
    std::int64_t row = -1;
    std::uint64_t ticket = 0;  // of the last pins that took it
    std::int32_t pins = 0;
    bool again = false;  // asked for since the hand passed
  };
  SlotState& state(Slot slot) { return slots_[static_cast<std::size_t>(slot)]; }
  void hold(Pins& pins, Slot slot);
  std::optional<Slot> unpinned_slot();
  /// Open addressing: the entry that has the row, or the empty one where it would go.
  std::size_t entry_of(std::int64_t row) const;
  void erase(std::int64_t row);

  std::vector<SlotState> slots_;
  std::vector<Slot> index_;  // −1: empty; a power of two, at most half full
  std::size_t hand_ = 0;
  std::int64_t num_pinned_ = 0, num_rows_ = 0;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace model
