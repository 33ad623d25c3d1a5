#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/ids.h"

namespace model {

/// Where one page ends up after a snapshot: shared with it, never written again below its k positions.
using SnapshotPages = std::vector<PageId>;

/// The MTP head's part of a snapshot at k: raw index keys of its open block and the stream row of position k
/// − 1, kept in the same slot.
struct MtpSnapshot {
  Position rows = 0;  ///< rows 0 … k − 2 are true
};

/// A model without an MTP head has no such part; saying so is not the same as forgetting it.
struct NoMtp {};

/// Device state of a sequence for k fed tokens: KV length and pages, GDN convolution and recurrent state, raw
/// keys of the open QSA block, PLE convolution. It is made from all of its parts or not at all; the device
/// bytes lie in `slot`. Read-only once made.
class StateSnapshot {
 public:
  StateSnapshot(Position k, SnapshotSlot slot, SnapshotPages pages, std::variant<NoMtp, MtpSnapshot> mtp)
      : k_(k), slot_(slot), pages_(std::move(pages)), mtp_(mtp) {}

  Position k() const { return k_; }
  SnapshotSlot slot() const { return slot_; }
  const SnapshotPages& pages() const { return pages_; }
  const std::variant<NoMtp, MtpSnapshot>& mtp() const { return mtp_; }

 private:
  Position k_;
  SnapshotSlot slot_;
  SnapshotPages pages_;
  std::variant<NoMtp, MtpSnapshot> mtp_;
};

/// What is left of a capture whose part failed: nothing can be restored from it, and it says why.
struct SnapshotTombstone {
  Position k = 0;
  std::string failed_part;
};

}  // namespace model
