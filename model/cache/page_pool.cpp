#include "model/cache/page_pool.h"

#include <algorithm>
#include <cassert>

namespace model {

IdPool::IdPool(std::int32_t total) : where_(static_cast<std::size_t>(total), Where::free) {
  free_.reserve(where_.size());
  for (std::int32_t id = total - 1; id >= 0; --id) free_.push_back(id);
}

std::optional<std::vector<std::int32_t>> IdPool::take(std::int32_t count) {
  assert(count >= 0);
  if (count > free()) return std::nullopt;
  std::vector<std::int32_t> ids(free_.end() - count, free_.end());
  std::reverse(ids.begin(), ids.end());
  free_.resize(free_.size() - ids.size());
  for (const auto id : ids) where_[static_cast<std::size_t>(id)] = Where::used;
  used_ += count;
  return ids;
}

void IdPool::release(const std::vector<std::int32_t>& ids, StepNumber last_plan) {
  const bool named_in_flight = last_plan > completed_;
  for (const auto id : ids) {
    auto& where = where_[static_cast<std::size_t>(id)];
    assert(where == Where::used);
    where = Where::quarantined;
  }
  const auto count = static_cast<std::int32_t>(ids.size());
  used_ -= count;
  quarantined_ += count;
  if (named_in_flight) {
    waiting_.push_back({last_plan, ids});
  } else {
    set_free(ids);
  }
}

void IdPool::complete(StepNumber plan) {
  completed_ = std::max(completed_, plan);
  const auto still = std::partition(waiting_.begin(), waiting_.end(),
                                    [&](const Quarantine& q) { return q.until > completed_; });
  for (auto q = still; q != waiting_.end(); ++q) set_free(q->ids);
  waiting_.erase(still, waiting_.end());
}

void IdPool::set_free(const std::vector<std::int32_t>& ids) {
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    where_[static_cast<std::size_t>(*id)] = Where::free;
    free_.push_back(*id);
  }
  quarantined_ -= static_cast<std::int32_t>(ids.size());
}

}  // namespace model
