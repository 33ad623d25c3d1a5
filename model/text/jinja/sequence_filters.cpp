#include <algorithm>
#include <set>

#include "model/text/jinja/access.h"
#include "model/text/jinja/filters.h"
#include "model/text/jinja/letter_case.h"
#include "model/text/jinja/operators.h"

namespace model::text::jinja {
namespace {

/// What a filter compares by: the item, or an attribute of it, without regard to letter case unless asked.
Value comparison_key(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute ? get_path(runtime, item, *attribute) : item;
  const auto* text = key.as_text();
  return text && !case_sensitive ? Value(lower(runtime, *text)) : key;
}

/// A single key is compared alone; several as lists are, whose equal heads are passed over.
struct Keyed {
  std::vector<Value> keys;
  Value item;
};

std::vector<Value> sorted(Runtime& runtime, std::vector<Keyed> items, bool reverse, bool as_lists = false) {
  const auto before = [&](const Keyed& a, const Keyed& b) {
    if (!as_lists) return less(runtime, a.keys[0], b.keys[0]);
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
      if (equal(runtime, a.keys[i], b.keys[i])) continue;
      return less(runtime, a.keys[i], b.keys[i]);
    }
    return false;
  };
  if (reverse) {  // equal items keep their order
    std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) { return before(b, a); });
  } else {
    std::stable_sort(items.begin(), items.end(), before);
  }
  std::vector<Value> values;
  for (auto& item : items) values.push_back(std::move(item.item));
  return values;
}

Value sort(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> attributes;
  if (const Value* attribute = bound.get(2); attribute && attribute->as_text()) {
    std::string_view rest = attribute->as_text()->bytes();
    for (std::size_t comma = 0; comma != std::string_view::npos;
         rest.remove_prefix(comma == std::string_view::npos ? 0 : comma + 1)) {
      comma = rest.find(',');
      attributes.push_back(Value::own(rest.substr(0, comma)));
    }
  } else {
    attributes.push_back(attribute ? *attribute : Value());
  }
  std::vector<Keyed> items;
  const auto iterated = iterate(runtime, input);
  for (const auto& item : iterated->items) {
    Keyed keyed{{}, item};
    for (const auto& attribute : attributes)
      keyed.keys.push_back(comparison_key(runtime, item, &attribute, bound.flag(1, false)));
    items.push_back(std::move(keyed));
  }
  return make_list(runtime, sorted(runtime, std::move(items), bound.flag(0, false), true));
}

Value dictsort(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter dictsort", {"case_sensitive", "by", "reverse"});
  const auto* dict = input.as_dict();
  if (!dict) fail("filter dictsort: a mapping is required, not " + std::string(type_name(input)));
  const std::string_view by = bound.has(1) ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value") fail("filter dictsort: by is \"key\" or \"value\"");
  std::vector<Keyed> items;
  for (const auto& entry : dict->entries()) {
    const Value key =
        comparison_key(runtime, by == "key" ? entry.key : entry.value, nullptr, bound.flag(0, false));
    items.push_back({{key}, make_list(runtime, {entry.key, entry.value}, List::Shape::tuple)});
  }
  return make_list(runtime, sorted(runtime, std::move(items), bound.flag(2, false)));
}

Value unique(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter unique", {"case_sensitive", "attribute"});
  std::set<std::string> seen;
  std::vector<Value> kept;
  const auto iterated = iterate(runtime, input);
  for (const auto& item : iterated->items) {
    runtime.step();
    if (seen.insert(key_of(comparison_key(runtime, item, bound.get(1), bound.flag(0, false)))).second)
      kept.push_back(item);
  }
  return make_list(runtime, std::move(kept), List::Shape::generator);
}

Value groupby(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter groupby", {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.flag(2, false);
  const auto raw_key = [&](const Value& item) { return get_path(runtime, item, bound[0], bound.get(1)); };
  std::vector<Keyed> items;
  const auto iterated = iterate(runtime, input);
  for (const auto& item : iterated->items) {
    items.push_back({{comparison_key(runtime, raw_key(item), nullptr, case_sensitive)}, item});
  }
  std::vector<Value> groups, members;
  Value key;
  const auto close = [&] {
    if (members.empty()) return;
    const Value shown = raw_key(members.front());
    groups.push_back(
        make_list(runtime, {shown, make_list(runtime, std::exchange(members, {}))}, List::Shape::tuple));
  };
  for (const auto& item : sorted(runtime, std::move(items), false)) {
    const Value next = comparison_key(runtime, raw_key(item), nullptr, case_sensitive);
    if (!members.empty() && !equal(runtime, next, key)) close();
    key = next;
    members.push_back(item);
  }
  close();
  return make_list(runtime, std::move(groups));
}

template <bool of_largest>
Value extreme(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter min/max", {"case_sensitive", "attribute"});
  const auto items = iterate(runtime, input);
  if (items->items.empty()) return Value::undefined("no aggregated item, sequence was empty");
  const auto key = [&](const Value& item) {
    return comparison_key(runtime, item, bound.get(1), bound.flag(0, false));
  };
  std::size_t best = 0;
  Value best_key = key(items->items[0]);
  for (std::size_t i = 1; i < items->items.size(); ++i) {
    Value next = key(items->items[i]);
    if (of_largest ? less(runtime, best_key, next) : less(runtime, next, best_key)) {
      best = i;
      best_key = std::move(next);
    }
  }
  return items->items[best];
}

Value sum(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter sum", {"attribute", "start"});
  Value total = bound.has(1) ? bound[1] : Value(std::int64_t{0});
  if (total.as_text()) fail("filter sum cannot add strings");
  const auto iterated = iterate(runtime, input);
  for (const auto& item : iterated->items) {
    total = binary(runtime, Operator::add, total, bound.has(0) ? get_path(runtime, item, bound[0]) : item);
  }
  return total;
}

Value length(Runtime&, const Value& input, Args args) {
  const Bound none(std::move(args), "filter length", {});
  if (const auto* text = input.as_text()) return Value::count(count_code_points(text->bytes()));
  if (const auto* dict = input.as_dict()) return Value::count(dict->entries().size());
  if (input.as_undefined()) return Value(std::int64_t{0});
  if (const auto* loop = input.as_loop()) return Value::count(loop->items->items.size());
  const auto* list = input.as_list();
  if (!list || list->shape == List::Shape::generator)
    fail("object of type '" + std::string(type_name(input)) + "' has no len()");
  return Value::count(list->items.size());
}

Value first(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter first", {});
  if (const auto* text = input.as_text(); text && !text->empty())
    return Value(text->slice(0, code_point_size(text->bytes(), 0)));
  const auto items = iterate(runtime, input);
  return items->items.empty() ? Value::undefined("no first item, sequence was empty") : items->items.front();
}

Value last(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter last", {});
  if (const auto* text = input.as_text(); text && !text->empty()) {
    return Value(text->slice(code_point_before(text->bytes(), text->size()), text->size()));
  }
  if (const auto* list = input.as_list(); list && list->shape == List::Shape::generator)
    fail("'generator' object is not reversible");
  if (input.as_undefined()) return Value::undefined("no last item, sequence was empty");
  const auto items = iterate(runtime, input);
  return items->items.empty() ? Value::undefined("no last item, sequence was empty") : items->items.back();
}

Value list(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter list", {});
  return make_list(runtime, iterate(runtime, input)->items);
}

Value reverse(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter reverse", {});
  if (input.as_text()) return get_slice(runtime, input, Value(), Value(), Value(std::int64_t{-1}));
  const auto items = iterate(runtime, input);
  return make_list(runtime, {items->items.rbegin(), items->items.rend()}, List::Shape::generator);
}

Value items(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter items", {});
  if (input.as_undefined()) return make_list(runtime, {}, List::Shape::generator);
  const auto* dict = input.as_dict();
  if (!dict) fail("can only get item pairs from a mapping");
  std::vector<Value> pairs;
  for (const auto& entry : dict->entries())
    pairs.push_back(make_list(runtime, {entry.key, entry.value}, List::Shape::tuple));
  return make_list(runtime, std::move(pairs), List::Shape::generator);
}

Value batch(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter batch", {"linecount", "fill_with"}, 1);
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bound.integer(0, 1), 1));
  const auto items = iterate(runtime, input);
  std::vector<Value> rows, row;
  for (const auto& item : items->items) {
    if (row.size() == size) rows.push_back(make_list(runtime, std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (bound.has(1) && !bound[1].is_none()) {
      runtime.check_items(size);
      row.resize(size, bound[1]);
    }
    rows.push_back(make_list(runtime, std::move(row)));
  }
  return make_list(runtime, std::move(rows), List::Shape::generator);
}

Value slice(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter slice", {"slices", "fill_with"}, 1);
  const std::int64_t wanted = bound.integer(0, 1);
  if (wanted == 0) fail("integer division or modulo by zero");
  const std::size_t count = wanted < 0 ? 0 : static_cast<std::size_t>(wanted);
  runtime.check_items(count);
  const auto items = iterate(runtime, input);
  std::vector<Value> columns;
  auto at = items->items.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const bool has_extra = i < items->items.size() % count;
    const auto end = at + static_cast<std::ptrdiff_t>(items->items.size() / count + has_extra);
    std::vector<Value> column(at, end);
    if (bound.has(1) && !bound[1].is_none() && !has_extra) column.push_back(bound[1]);
    columns.push_back(make_list(runtime, std::move(column)));
    at = end;
  }
  return make_list(runtime, std::move(columns), List::Shape::generator);
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"batch", batch},       {"count", length},       {"dictsort", dictsort},
    {"first", first},       {"groupby", groupby},    {"items", items},
    {"last", last},         {"length", length},      {"list", list},
    {"max", extreme<true>}, {"min", extreme<false>}, {"reverse", reverse},
    {"slice", slice},       {"sort", sort},          {"sum", sum},
    {"unique", unique},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace model::text::jinja
