#include "model/text/jinja/json.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "model/text/jinja/print.h"

namespace model::text::jinja {
namespace {

constexpr std::size_t kMaxJsonDepth = 256;

class Writer {
 public:
  Writer(Builder& out, const JsonStyle& style) : out_(out), style_(style) {}

  void write(const Value& value) {
    const Nesting nesting(out_.runtime());
    out_.runtime().step();
    if (const auto* text = value.as_text()) return string(*text);
    if (value.is_none()) return out_.add("null");
    if (const auto* truth = value.as_bool()) return out_.add(*truth ? "true" : "false");
    if (const auto number = value.as_int()) return out_.add(std::to_string(*number));
    if (const auto* number = value.as_float()) return out_.add(float_text(*number));
    if (const auto* dict = value.as_dict()) return object(*dict);
    const auto* list = value.as_list();
    if (!list || (list->shape != List::Shape::list && list->shape != List::Shape::tuple)) {
      fail("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
    }
    array(*list);
  }

 private:
  static std::string float_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_repr(number);
  }

  void line(std::size_t level) {
    if (!style_.indent) return;
    out_.add("\n");
    out_.repeat(*style_.indent, level);
  }

  void array(const List& list) {
    if (list.items.empty()) return out_.add("[]");
    out_.add("[");
    line(++level_);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) separate();
      write(list.items[i]);
    }
    line(--level_);
    out_.add("]");
  }

  void object(const Dict& dict) {
    if (dict.entries().empty()) return out_.add("{}");
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(out_.runtime(), a->key, b->key); });
    }
    out_.add("{");
    line(++level_);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) separate();
      key(entries[i]->key);
      out_.add(style_.key_separator);
      write(entries[i]->value);
    }
    line(--level_);
    out_.add("}");
  }

  void separate() {
    out_.add(style_.item_separator);
    line(level_);
  }

  void key(const Value& key) {
    if (const auto* text = key.as_text()) return string(*text);
    const bool is_number = key.as_number().has_value();
    if (!is_number && !key.is_none()) {
      fail("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
    out_.add("\"");
    write(key);
    out_.add("\"");
  }

  void escape(std::string& to, char32_t unit) const {
    constexpr std::string_view kHex = "0123456789abcdef";
    to += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) to.push_back(kHex[unit >> shift & 0xF]);
  }

  std::string escaped(char32_t code) const {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    std::string escapes;
    if (code >= 0x10000) {
      escape(escapes, 0xD800 + ((code - 0x10000) >> 10));
      escape(escapes, 0xDC00 + ((code - 0x10000) & 0x3FF));
    } else {
      escape(escapes, code);
    }
    return escapes;
  }

  void string(const Text& text) {
    const auto bytes = text.bytes();
    out_.add("\"");
    std::size_t copied = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      const bool plain = byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x80 || !style_.ensure_ascii);
      if (plain) {
        ++at;
        continue;
      }
      out_.add(text, copied, at);
      out_.add(escaped(code_point(bytes, at)), text.is_foreign(at));
      at += code_point_size(bytes, at);
      copied = at;
    }
    out_.add(text, copied, bytes.size());
    out_.add("\"");
  }

  Builder& out_;
  const JsonStyle& style_;
  std::size_t level_ = 0;
};

Value read(Runtime& runtime, const simdjson::dom::element& element) {
  using simdjson::dom::element_type;
  const auto foreign = [](std::string_view bytes) { return Value(Text::foreign(std::string(bytes))); };
  switch (element.type()) {
    case element_type::STRING:
      return foreign(std::string_view(element.get_string().value_unsafe()));
    case element_type::INT64:
      return Value(std::int64_t{element.get_int64().value_unsafe()});
    case element_type::UINT64:
      return Value(static_cast<double>(std::uint64_t{element.get_uint64().value_unsafe()}));
    case element_type::DOUBLE:
      return Value(double{element.get_double().value_unsafe()});
    case element_type::BOOL:
      return Value(bool{element.get_bool().value_unsafe()});
    case element_type::NULL_VALUE:
      return Value();
    case element_type::ARRAY: {
      std::vector<Value> items;
      const simdjson::dom::array array = element.get_array().value_unsafe();
      for (const auto item : array) items.push_back(read(runtime, item));
      return make_list(runtime, std::move(items));
    }
    case element_type::OBJECT: {
      Dict dict;
      const simdjson::dom::object object = element.get_object().value_unsafe();
      for (const auto& [key, value] : object) dict.set(foreign(key), read(runtime, value));
      return make_dict(std::move(dict));
    }
  }
  return Value();
}

}  // namespace

void write_json(Builder& out, const Value& value, const JsonStyle& style) { Writer(out, style).write(value); }

Value read_json(Runtime& runtime, std::string_view json) {
  simdjson::dom::parser parser;
  if (const auto error = parser.allocate(json.size(), kMaxJsonDepth)) fail(simdjson::error_message(error));
  simdjson::dom::element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root))
    fail(simdjson::error_message(error));
  return read(runtime, root);
}

}  // namespace model::text::jinja
