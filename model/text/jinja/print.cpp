#include "model/text/jinja/print.h"

#include <unicode/uchar.h>

#include <charconv>
#include <cmath>

namespace model::text::jinja {
namespace {

void repr_text(Builder& out, const Text& text) {
  const auto bytes = text.bytes();
  const bool double_quoted =
      bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos;
  const char quote = double_quoted ? '"' : '\'';
  out.add(std::string_view(&quote, 1));
  std::size_t copied = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = code_point_size(bytes, at);
    const char32_t code = code_point(bytes, at);
    std::string escape;
    const auto hex = [&](char kind, int digits) {
      escape = std::string("\\") + kind;
      for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
        escape += "0123456789abcdef"[code >> shift & 0xF];
    };
    if (code == static_cast<unsigned char>(quote) || code == '\\') {
      escape = std::string("\\") + static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      escape = code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (code < 0x20 || code == 0x7F || (code > 0x7F && !u_isprint(static_cast<UChar32>(code))) ||
               (code > 0x7F && is_space(code))) {
      if (code < 0x100)
        hex('x', 2);
      else if (code < 0x10000)
        hex('u', 4);
      else
        hex('U', 8);
    }
    if (!escape.empty()) {
      out.add(text, copied, at);
      out.add(escape, text.is_foreign(at));
      copied = at + size;
    }
    at += size;
  }
  out.add(text, copied, bytes.size());
  out.add(std::string_view(&quote, 1));
}

void repr_dict(Builder& out, const Dict& dict) {
  out.add("{");
  bool first = true;
  for (const auto& entry : dict.entries()) {
    if (!std::exchange(first, false)) out.add(", ");
    repr(out, entry.key);
    out.add(": ");
    repr(out, entry.value);
  }
  out.add("}");
}

void repr_list(Builder& out, const List& list) {
  using Shape = List::Shape;
  if (list.shape == Shape::generator) return out.add("<generator object>");
  if (list.shape == Shape::range) return out.add(list.range);
  const bool is_view = list.shape != Shape::list && list.shape != Shape::tuple;
  if (is_view)
    out.add(list.shape == Shape::keys     ? "dict_keys("
            : list.shape == Shape::values ? "dict_values("
                                          : "dict_items(");
  out.add(list.shape == Shape::tuple ? "(" : "[");
  bool first = true;
  for (const auto& item : list.items) {
    if (!std::exchange(first, false)) out.add(", ");
    repr(out, item);
  }
  if (list.shape == Shape::tuple) return out.add(list.items.size() == 1 ? ",)" : ")");
  out.add(is_view ? "])" : "]");
}

}  // namespace

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  std::string sign = text[0] == '-' ? "-" : "", digits;
  for (const char c : text.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void print(Builder& out, const Value& value) {
  if (const auto* text = value.as_text()) return out.add(*text);
  if (value.as_undefined()) return;
  repr(out, value);
}

void repr(Builder& out, const Value& value) {
  const Nesting nesting(out.runtime());
  out.runtime().step();
  if (const auto* text = value.as_text()) return repr_text(out, *text);
  if (value.is_none()) return out.add("None");
  if (value.as_undefined()) return out.add("Undefined");
  if (const auto* truth = value.as_bool()) return out.add(*truth ? "True" : "False");
  if (const auto number = value.as_int()) return out.add(std::to_string(*number));
  if (const auto* number = value.as_float()) return out.add(float_repr(*number));
  if (const auto* list = value.as_list()) return repr_list(out, *list);
  if (const auto* dict = value.as_dict()) return repr_dict(out, *dict);
  if (const auto* space = value.as_namespace()) {
    out.add("<Namespace ");
    repr_dict(out, space->attributes);
    return out.add(">");
  }
  if (const auto* loop = value.as_loop()) {
    return out.add("<LoopContext " + std::to_string(loop->index + 1) + "/" +
                   std::to_string(loop->items->items.size()) + ">");
  }
  out.add("<function " + value.as_callable()->name + ">");
}

Text to_text(Runtime& runtime, const Value& value) {
  if (const auto* text = value.as_text()) return *text;
  Builder out(runtime);
  print(out, value);
  return out.take();
}

}  // namespace model::text::jinja
