#pragma once

#include <string_view>

#include "model/text/jinja/value.h"

namespace model::text::jinja {

/// `object.name`: a method first, then an item of that name; undefined without either.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// `object[key]`: an item first, then a method of that name; undefined without either.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
/// `object[start:stop:step]`; none stands for what is left out.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step);
/// `a.b.0` as filters take it: items of items. A missing item becomes `otherwise` when there is one.
Value get_path(Runtime& runtime, const Value& object, const Value& path, const Value* otherwise = nullptr);
bool is_callable(const Value& value);

}  // namespace model::text::jinja
