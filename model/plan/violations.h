#pragma once

#include <string>
#include <utility>

#include "model/errors.h"

namespace model {

/// Collects what does not hold. Each line says what, why and the value needed.
class Violations {
 public:
  void require(bool holds, const std::string& what) {
    if (!holds) error_.problems.push_back(what);
  }
  void range(const char* flag, std::int64_t value, std::int64_t min, std::int64_t max,
             const std::string& why) {
    require(value >= min && value <= max, std::string(flag) + " is " + std::to_string(value) + ": " + why +
                                              "; " + std::to_string(min) + " to " + std::to_string(max) +
                                              " are possible");
  }
  bool none() const { return error_.problems.empty(); }
  LoadError take() { return std::move(error_); }

 private:
  LoadError error_;
};

}  // namespace model
