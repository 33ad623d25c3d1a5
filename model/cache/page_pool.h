#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/ids.h"

namespace model {

/// Accounts for device things that are numbered 0 … n−1: KV pages and state slots. Owned by the scheduler;
/// the bytes belong to the Runner.
///
///   free ──take──▶ used ──release(last plan)──▶ quarantined ──complete(that plan)──▶ free
///
/// What a sequence gives back stays quarantined until every plan that names it has completed, so no step in
/// flight can read or write what somebody else got meanwhile. Plans complete in the order of their numbers.
/// Invariant: free + used + quarantined == total.
class IdPool {
 public:
  explicit IdPool(std::int32_t total);

  /// All or nothing; the lowest never-used ids first.
  std::optional<std::vector<std::int32_t>> take(std::int32_t count);
  /// `last_plan`: the newest plan that names any of `ids`; 0 when none does.
  void release(const std::vector<std::int32_t>& ids, StepNumber last_plan);
  /// Plans up to `plan` have completed.
  void complete(StepNumber plan);

  std::int32_t total() const { return static_cast<std::int32_t>(where_.size()); }
  std::int32_t free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t quarantined() const { return quarantined_; }
  std::int32_t used() const { return used_; }

 private:
  enum class Where : std::uint8_t { free, used, quarantined };
  struct Quarantine {
    StepNumber until = 0;
    std::vector<std::int32_t> ids;
  };
  void set_free(const std::vector<std::int32_t>& ids);

  std::vector<Where> where_;        // by id: a double release is caught where it happens
  std::vector<std::int32_t> free_;  // a stack, its top at the back
  std::vector<Quarantine> waiting_;
  std::int32_t used_ = 0;
  std::int32_t quarantined_ = 0;
  StepNumber completed_ = 0;
};

using PagePool = IdPool;
using SlotPool = IdPool;

}  // namespace model
