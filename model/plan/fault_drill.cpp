#include "model/plan/fault_drill.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "kernels/hooked_ops.h"
#include "model/plan/option_table.h"

namespace model {
namespace {

/// What may be said of a kind beside @step, as bits.
enum Qualifier : unsigned { kNone = 0, kOp = 1, kRequest = 2, kRole = 4, kMs = 8 };
constexpr std::array<std::pair<std::string_view, unsigned>, 4> kQualifiers = {
    {{"op", kOp}, {"request", kRequest}, {"role", kRole}, {"ms", kMs}}};
constexpr std::array<std::string_view, 6> kRoles = {"health",  "gpu_stream", "scheduler",
                                                    "encoder", "request",    "sequence"};

struct Kind {
  std::string_view name;
  FaultKind kind;
  unsigned takes;
  unsigned needs;
  bool injected;  ///< false: of the grammar, not of this build
  std::string_view help;
};
constexpr std::array<Kind, 12> kKinds = {{
    {"sticky", FaultKind::sticky, kOp, kNone, true, "the device is lost at an illegal address: 503, exit 70"},
    {"misaligned", FaultKind::misaligned, kOp, kNone, true, "the same at a misaligned address"},
    {"step_error", FaultKind::step_error, kOp | kRequest, kNone, true,
     "a launch is refused: the step's choices, or that one, end with an error"},
    {"oom", FaultKind::oom, kOp, kNone, true, "an allocation is refused: as step_error"},
    {"nan", FaultKind::nan, kRequest, kNone, true,
     "logits become NaN, of the step's choices or that one: as step_error"},
    {"blaslt_status", FaultKind::blaslt_status, kNone, kNone, true,
     "the library refuses a product: the slower path, logged and counted"},
    {"slow", FaultKind::slow, kOp | kMs, kMs, true, "the step takes longer and goes on: nothing happens"},
    {"hang", FaultKind::hang, kOp, kNone, true, "the step never returns: 503 after --step-deadline, exit 70"},
    {"actor_death", FaultKind::actor_death, kRole | kRequest, kRole, true,
     "an actor dies: the process with it, or its request"},
    {"verify_error", FaultKind::verify_error, kRequest, kNone, false, "a verify step is refused"},
    {"row_read_error", FaultKind::row_read_error, kRequest, kNone, true,
     "an n-gram row cannot be read from its file: as step_error"},
    {"snapshot_fail", FaultKind::snapshot_fail, kRequest, kNone, false, "a snapshot cannot be taken"},
}};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <class Names>
std::string joined(const Names& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

template <class Names>
std::string nearest_of(std::string_view wrong, const Names& names) {
  return nearest(wrong, std::vector<std::string>(names.begin(), names.end()));
}

std::vector<std::string_view> kind_names(bool injected_only) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) {
    if (kind.injected || !injected_only) names.push_back(kind.name);
  }
  return names;
}

std::string qualifier_names(unsigned bits) {
  std::vector<std::string_view> names = {"step"};
  for (const auto& [name, bit] : kQualifiers) {
    if ((bits & bit) != 0) names.push_back(name);
  }
  return joined(names);
}

bool read_number(std::string_view text, std::uint64_t least, std::uint64_t most, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= least && number <= most;
}

/// One `<kind>[@…]`, and what is wrong with it.
class OrderReader {
 public:
  std::optional<FaultOrder> read(std::string_view item) {
    const auto parts = split(item, '@');
    const auto found =
        std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.name == parts[0]; });
    if (found == kKinds.end()) {
      problems.push_back("no such fault; did you mean " + nearest_of(parts[0], kind_names(false)) + '?');
      return std::nullopt;
    }
    if (!found->injected)
      problems.push_back("this build does not inject it, only " + joined(kind_names(true)));
    order_.kind = found->kind;
    for (std::size_t i = 1; i < parts.size(); ++i) read_qualifier(*found, parts[i]);
    check_together(*found);
    if (!problems.empty()) return std::nullopt;
    return order_;
  }

  std::vector<std::string> problems;

 private:
  void read_qualifier(const Kind& kind, std::string_view text) {
    const auto equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : text.substr(equals + 1);
    if (name == "step") return read_step(value);
    const auto found = std::find_if(kQualifiers.begin(), kQualifiers.end(),
                                    [&](const auto& qualifier) { return qualifier.first == name; });
    if (found == kQualifiers.end()) {
      problems.push_back("no qualifier \"" + std::string(text) + "\", only step, op, request, role, ms");
    } else if ((kind.takes & found->second) == 0) {
      problems.push_back(std::string(name) + " does not apply to " + std::string(kind.name) +
                         ", which takes " + qualifier_names(kind.takes));
    } else {
      given_ |= found->second;
      read_value(found->second, value);
    }
  }

  void read_step(std::string_view value) {
    if (value == "next") {
      order_.step = 1;  // orders are given before the first
    } else if (!read_number(value, 1, ~std::uint64_t{0}, order_.step)) {
      problems.push_back("step has to be next or an integer from 1");
    }
  }

  void read_value(unsigned qualifier, std::string_view value) {
    std::uint64_t number = 0;
    if (qualifier == kOp) {
      if (std::find(kernels::kOpNames.begin(), kernels::kOpNames.end(), value) == kernels::kOpNames.end())
        problems.push_back("no operation " + std::string(value) + "; did you mean " +
                           nearest_of(value, kernels::kOpNames) + '?');
      order_.op = value;
    } else if (qualifier == kRole) {
      if (std::find(kRoles.begin(), kRoles.end(), value) == kRoles.end())
        problems.push_back("role has to be one of " + joined(kRoles));
      order_.role = value;
    } else if (qualifier == kRequest) {
      if (!read_number(value, 0, ~std::uint64_t{0}, number))
        problems.push_back("request has to be an integer from 0 (the health canary)");
      order_.request = number;
    } else {
      if (!read_number(value, 1, 3'600'000, number)) problems.push_back("ms has to be from 1 to 3600000");
      order_.time = std::chrono::milliseconds(number);
    }
  }

  void check_together(const Kind& kind) {
    for (const auto& [name, bit] : kQualifiers) {
      if ((kind.needs & ~given_ & bit) != 0)
        problems.push_back(std::string(kind.name) + " needs @" + std::string(name) + '=');
    }
    if (given_ & kOp && given_ & kRequest)
      problems.push_back("op and request do not go together: an operation is the whole step's");
    if (given_ & kRole && given_ & kRequest && order_.role != "request" && order_.role != "sequence")
      problems.push_back("request does not apply to role " + order_.role + ", of which there is one");
    if (order_.kind == FaultKind::actor_death && order_.request == SequenceId{0})
      problems.push_back("request 0 is the health canary, which is no actor");
  }

  FaultOrder order_;
  unsigned given_ = 0;
};

}  // namespace

Result<std::vector<FaultOrder>, LoadError> parse_fault_orders(std::string_view text) {
  std::vector<FaultOrder> orders;
  LoadError wrong;
  if (text.empty()) return orders;
  if (text == "1") text = "sticky@step=next";
  for (const std::string_view item : split(text, ',')) {
    OrderReader reader;
    const auto order = reader.read(item);
    if (order && std::find(orders.begin(), orders.end(), *order) != orders.end())
      reader.problems.push_back("said twice");
    for (const std::string& problem : reader.problems)
      wrong.problems.push_back("ATLAS_TEST_FAULT " + std::string(item) + ": " + problem);
    if (order) orders.push_back(*order);
  }
  if (!wrong.problems.empty()) return wrong;
  return orders;
}

std::string fault_help() {
  std::string out =
      "  ATLAS_TEST_FAULT=KIND[@step=N|next][@op=NAME][@request=N][@role=ACTOR][@ms=T][,…]\n"
      "  Drill: something fails once, in the first step from the N-th since ready on (next: the first) in "
      "which it can.\n"
      "  op: before that operation; request: the N-th choice since ready, 0 the health canary; 1 alone is "
      "sticky@step=next.\n";
  for (const Kind& kind : kKinds) {
    std::string line = "  " + std::string(kind.name);
    line.resize(std::max<std::size_t>(line.size() + 1, 18), ' ');
    line += qualifier_names(kind.takes);
    line.resize(std::max<std::size_t>(line.size() + 1, 40), ' ');
    out += line + std::string(kind.help) + (kind.injected ? "" : " (not in this build)") + '\n';
  }
  return out + "  roles: " + joined(kRoles) + "\n  operations: " + joined(kernels::kOpNames) + '\n';
}

}  // namespace model
