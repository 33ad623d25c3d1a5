#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/errors.h"
#include "model/ids.h"

namespace model {

enum class FaultKind : std::uint8_t {
  sticky,
  step_error,
  verify_error,
  blaslt_status,
  oom,
  hang,
  slow,
  nan,
  misaligned,
  row_read_error,
  snapshot_fail,
  actor_death,
};

/// Something that is to fail on purpose, once, so that an operator (or a test) sees what the process makes of
/// it. It happens in the first step, from number `step` on, in which it can.
struct FaultOrder {
  FaultKind kind = FaultKind::sticky;
  StepNumber step = 1;  ///< the N-th plan executed since ready
  std::string op;       ///< before which of the step's operations (kernels::kOpNames); "": before the first
  std::optional<SequenceId> request;  ///< the N-th choice since ready; 0: the health canary; none: the step's
  std::string role;                   ///< of the actor that dies
  std::chrono::milliseconds time{0};  ///< by how much it is slow

  friend bool operator==(const FaultOrder&, const FaultOrder&) = default;
};

/// Reads `<kind>[@step=N|next][@op=NAME][@request=N][@role=ACTOR][@ms=T][,…]`; "1" is a sticky fault in the
/// next step, "" no order at all. Every problem at once: unknown kinds, kinds of the grammar that this build
/// cannot inject, qualifiers that do not apply to a kind. Pure.
Result<std::vector<FaultOrder>, LoadError> parse_fault_orders(std::string_view text);

/// The grammar for --help: every kind with its qualifiers and what becomes of it.
std::string fault_help();

}  // namespace model
