#include "model/text/jinja/builtins.h"
#include "model/text/jinja/letter_case.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/print.h"

namespace model::text::jinja {
namespace {

template <bool (*Is)(const Value&)>
bool plain(Runtime&, const Value& input, Args args) {
  const Bound none(std::move(args), "test", {});
  return Is(input);
}

template <Comparison comparison>
bool compared(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "test", {"other"}, 1);
  return holds(runtime, comparison, input, bound[0]);
}

template <bool (*Is)(std::string_view)>
bool of_text(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "test", {});
  return Is(to_text(runtime, input).bytes());
}

bool remainder_is(Runtime& runtime, const Value& input, const Value& divisor, std::int64_t wanted) {
  return equal(runtime, binary(runtime, Operator::modulo, input, divisor), Value(wanted));
}
template <int wanted>
bool parity(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "test", {});
  return remainder_is(runtime, input, Value(std::int64_t{2}), wanted);
}
bool divisible(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "test divisibleby", {"num"}, 1);
  return remainder_is(runtime, input, bound[0], 0);
}

bool same_as(Runtime&, const Value& input, Args args) {
  const Bound bound(std::move(args), "test sameas", {"other"}, 1);
  return input.is_same(bound[0]);
}
bool is_filter(Runtime&, const Value& input, Args args) {
  const Bound none(std::move(args), "test", {});
  return input.as_text() && find_filter(input.as_text()->bytes());
}
bool is_test(Runtime&, const Value& input, Args args) {
  const Bound none(std::move(args), "test", {});
  return input.as_text() && find_test(input.as_text()->bytes());
}

bool is_defined(const Value& value) { return !value.as_undefined(); }
bool is_undefined(const Value& value) { return value.as_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.as_bool(); }
bool is_true(const Value& value) { return value.as_bool() && *value.as_bool(); }
bool is_false(const Value& value) { return value.as_bool() && !*value.as_bool(); }
bool is_integer(const Value& value) { return value.is_integer(); }
bool is_float(const Value& value) { return value.as_float(); }
bool is_number(const Value& value) { return value.as_number().has_value(); }
bool is_string(const Value& value) { return value.as_text(); }
bool is_mapping(const Value& value) { return value.as_dict(); }
bool is_sequence(const Value& value) {
  const auto* list = value.as_list();
  return value.as_text() || value.as_dict() || value.as_undefined() || (list && list->has_subscript());
}
bool is_iterable(const Value& value) {
  return value.as_text() || value.as_dict() || value.as_list() || value.as_undefined() || value.as_loop();
}
bool is_callable(const Value& value) {
  return value.as_callable() || value.as_undefined();
}  // calling it is what fails
bool is_escaped(const Value&) { return false; }

constexpr std::pair<std::string_view, Test> kTests[] = {
    {"!=", compared<Comparison::unequal>},
    {"<", compared<Comparison::less>},
    {"<=", compared<Comparison::less_equal>},
    {"==", compared<Comparison::equal>},
    {">", compared<Comparison::greater>},
    {">=", compared<Comparison::greater_equal>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", divisible},
    {"eq", compared<Comparison::equal>},
    {"equalto", compared<Comparison::equal>},
    {"escaped", plain<is_escaped>},
    {"even", parity<0>},
    {"false", plain<is_false>},
    {"filter", is_filter},
    {"float", plain<is_float>},
    {"ge", compared<Comparison::greater_equal>},
    {"greaterthan", compared<Comparison::greater>},
    {"gt", compared<Comparison::greater>},
    {"in", compared<Comparison::in>},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable>},
    {"le", compared<Comparison::less_equal>},
    {"lessthan", compared<Comparison::less>},
    {"lower", of_text<is_lower>},
    {"lt", compared<Comparison::less>},
    {"mapping", plain<is_mapping>},
    {"ne", compared<Comparison::unequal>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", parity<1>},
    {"sameas", same_as},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", is_test},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", of_text<is_upper>},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const auto& [known, test] : kTests) {
    if (known == name) return test;
  }
  return nullptr;
}

}  // namespace model::text::jinja
