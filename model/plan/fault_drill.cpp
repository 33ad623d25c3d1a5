#include "model/plan/fault_drill.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "model/plan/option_table.h"

namespace model {
namespace {

struct Kind {
  std::string_view name;
  std::optional<gpu::InjectedFault> fault;  ///< none: of the grammar, not of this build
};
constexpr std::array<Kind, 12> kKinds = {{
    {"sticky", gpu::InjectedFault::illegal_address},
    {"misaligned", gpu::InjectedFault::misaligned_address},
    {"step_error", gpu::InjectedFault::refused_launch},
    {"verify_error", std::nullopt},
    {"blaslt_status", std::nullopt},
    {"oom", std::nullopt},
    {"hang", std::nullopt},
    {"slow", std::nullopt},
    {"nan", std::nullopt},
    {"row_read_error", std::nullopt},
    {"snapshot_fail", std::nullopt},
    {"actor_death", std::nullopt},
}};
constexpr std::array<std::string_view, 4> kLaterQualifiers = {"op", "request", "role", "ms"};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string injected_kinds() {
  std::string all;
  for (const Kind& kind : kKinds) {
    if (kind.fault) all += (all.empty() ? "" : ", ") + std::string(kind.name);
  }
  return all;
}

std::optional<std::string> read_kind(std::string_view name, FaultOrder& order) {
  const auto found =
      std::find_if(kKinds.begin(), kKinds.end(), [name](const Kind& kind) { return kind.name == name; });
  if (found == kKinds.end()) {
    std::vector<std::string> known;
    for (const Kind& kind : kKinds) known.emplace_back(kind.name);
    return "no such fault; did you mean " + nearest(name, known) + '?';
  }
  if (!found->fault) return "this build does not inject it, only " + injected_kinds();
  order.fault = *found->fault;
  return std::nullopt;
}

std::optional<std::string> read_qualifier(std::string_view text, FaultOrder& order) {
  const auto equals = text.find('=');
  const std::string name(text.substr(0, equals));
  if (std::find(kLaterQualifiers.begin(), kLaterQualifiers.end(), name) != kLaterQualifiers.end())
    return name + " is not read by this build, only step";
  if (name != "step" || equals == std::string_view::npos)
    return "\"" + std::string(text) + "\" has to be step=N or step=next";
  const std::string_view value = text.substr(equals + 1);
  if (value == "next") {
    order.step = 1;  // orders are given before the first
    return std::nullopt;
  }
  StepNumber step = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), step);
  if (error != std::errc{} || end != value.data() + value.size() || step < 1)
    return "step has to be next or an integer from 1";
  order.step = step;
  return std::nullopt;
}

}  // namespace

Result<std::vector<FaultOrder>, LoadError> parse_fault_orders(std::string_view text) {
  std::vector<FaultOrder> orders;
  LoadError wrong;
  if (text.empty()) return orders;
  if (text == "1") text = "sticky@step=next";
  for (const std::string_view item : split(text, ',')) {
    FaultOrder order;
    const auto parts = split(item, '@');
    const std::size_t problems_before = wrong.problems.size();
    const auto note = [&](std::optional<std::string> problem) {
      if (problem) wrong.problems.push_back("ATLAS_TEST_FAULT " + std::string(item) + ": " + *problem);
    };
    note(read_kind(parts[0], order));
    for (std::size_t i = 1; i < parts.size(); ++i) note(read_qualifier(parts[i], order));
    if (wrong.problems.size() > problems_before) continue;
    if (std::any_of(orders.begin(), orders.end(), [&](const FaultOrder& o) { return o.step == order.step; }))
      note("step " + std::to_string(order.step) + " has a fault already");
    orders.push_back(order);
  }
  if (!wrong.problems.empty()) return wrong;
  return orders;
}

}  // namespace model
