#pragma once

#include <string>
#include <vector>

#include "actors/engine.h"

namespace http {

/// What the operator reads while the process comes up: a line a stage, then that it is ready, a curl line and
/// the plan. Pure but for its memory of what was said.
class StartupReport {
 public:
  StartupReport(const actors::ServedModel& served, std::string url) : served_(served), url_(std::move(url)) {}

  /// The lines that `health` adds to what was said so far.
  std::vector<std::string> lines(const actors::HealthView& health);
  bool done() const { return done_; }

 private:
  const actors::ServedModel& served_;
  std::string url_;
  std::string stage_;
  bool done_ = false;
};

}  // namespace http
