#include <unicode/uchar.h>

#include <algorithm>

#include "model/text/jinja/access.h"
#include "model/text/jinja/filters.h"
#include "model/text/jinja/format.h"
#include "model/text/jinja/json.h"
#include "model/text/jinja/letter_case.h"
#include "model/text/jinja/print.h"
#include "model/text/jinja/text_algorithms.h"

namespace model::text::jinja {
namespace {

template <Text (*Change)(Runtime&, const Text&)>
Value changed(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter", {});
  return Value(Change(runtime, to_text(runtime, input)));
}

Text as_it_is(Runtime&, const Text& text) { return text; }

/// jinja2's own title: after spaces, hyphens and opening brackets only, so "don't" stays one word.
Text title_words(Runtime& runtime, const Text& text) {
  constexpr std::string_view kBefore = "-({[<";
  Builder out(runtime);
  const auto separates = [&](std::size_t at) {
    return is_space(code_point(text.bytes(), at)) || kBefore.find(text.bytes()[at]) != std::string_view::npos;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const bool separators = separates(at);
    while (at < text.size() && separates(at) == separators) at += code_point_size(text.bytes(), at);
    if (separators) {
      out.add(text, first, at);
      continue;
    }
    const std::size_t rest = first + code_point_size(text.bytes(), first);
    out.add(upper(runtime, text.slice(first, rest)));
    out.add(lower(runtime, text.slice(rest, at)));
  }
  return out.take();
}

Text escaped(Runtime& runtime, const Text& text) {
  constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
  Builder out(runtime);
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const auto& [plain, escape] : kEscapes) {
      if (text.bytes()[at] != plain) continue;
      out.add(text, copied, at);
      out.add(escape, text.is_foreign(at));
      copied = at + 1;
    }
  }
  out.add(text, copied, text.size());
  return out.take();
}

Value trim(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter trim", {"chars"});
  const Text* chars = bound.has(0) && !bound[0].is_none() ? &bound.text(0) : nullptr;
  return Value(strip(runtime, to_text(runtime, input), chars, Side::both));
}

Value replace_filter(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter replace", {"old", "new", "count"}, 2);
  return Value(replace(runtime, to_text(runtime, input), to_text(runtime, bound[0]),
                       to_text(runtime, bound[1]), bound.integer(2, -1)));
}

Value join(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter join", {"d", "attribute"});
  const Text separator = bound.has(0) ? to_text(runtime, bound[0]) : Text();
  Builder out(runtime);
  bool first = true;
  const auto iterated = iterate(runtime, input);
  for (const auto& item : iterated->items) {
    runtime.step();
    if (!std::exchange(first, false)) out.add(separator);
    print(out, bound.has(1) ? get_path(runtime, item, bound[1]) : item);
  }
  return Value(out.take());
}

Value indent(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter indent", {"width", "first", "blank"});
  const auto& text = require_text(input, "filter indent");
  Builder margin(runtime);
  if (bound.has(0) && bound[0].as_text())
    margin.add(bound.text(0));
  else
    margin.repeat(Text::own(" "), static_cast<std::size_t>(std::max<std::int64_t>(bound.integer(0, 4), 0)));
  const Text indentation = margin.take();
  Builder out(runtime);
  if (bound.flag(1, false)) out.add(indentation);
  auto lines = split_lines(runtime, text, false);
  // the filter splits the text with a newline added: what ends in one has an empty line more
  if (lines.empty() || (lines.back().last < text.size())) lines.push_back({text.size(), text.size()});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    runtime.step();
    if (i > 0) {
      out.add("\n");
      if (bound.flag(2, false) || lines[i].first < lines[i].last) out.add(indentation);
    }
    out.add(text, lines[i].first, lines[i].last);
  }
  return Value(out.take());
}

Value truncate(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter truncate", {"length", "killwords", "end", "leeway"});
  const Text end = bound.has(2) ? bound.text(2) : Text::own("...");
  const auto end_size = static_cast<std::int64_t>(count_code_points(end.bytes()));
  const std::int64_t length = bound.integer(0, 255), leeway = bound.integer(3, 5);
  if (length < end_size || leeway < 0)
    fail("filter truncate: length shorter than its end mark, or a negative leeway");
  const auto size = static_cast<std::int64_t>(input.as_text() ? count_code_points(input.as_text()->bytes())
                                                              : iterate(runtime, input)->items.size());
  if (size <= leeway || size - leeway <= length) return input;
  const auto& text = require_text(input, "filter truncate");
  Text kept = text.slice(0, code_point_offset(text.bytes(), static_cast<std::size_t>(length - end_size)));
  if (!bound.flag(1, false)) {
    const std::size_t space = kept.bytes().rfind(' ');
    if (space != std::string_view::npos) kept = kept.slice(0, space);
  }
  Builder out(runtime);
  out.add(kept);
  out.add(end);
  return Value(out.take());
}

Value center(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter center", {"width"});
  return Value(pad(runtime, to_text(runtime, input), bound.integer(0, 80), Text::own(" "), Side::both));
}

Value wordcount(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter wordcount", {});
  const Text text = to_text(runtime, input);
  std::size_t words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size(); at += code_point_size(text.bytes(), at)) {
    const auto code = static_cast<UChar32>(code_point(text.bytes(), at));
    const bool is_word =
        code == '_' || u_isalpha(code) || u_getIntPropertyValue(code, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
    words += is_word && !in_word;
    in_word = is_word;
  }
  return Value::count(words);
}

Value format(Runtime& runtime, const Value& input, Args args) {
  const Text text = to_text(runtime, input);
  if (!args.named.empty() && !args.positional.empty()) {
    fail("filter format: positional and keyword arguments cannot come together");
  }
  if (args.named.empty()) {
    return Value(
        format_percent(runtime, text, make_list(runtime, std::move(args.positional), List::Shape::tuple)));
  }
  Dict named;
  for (auto& [name, value] : args.named) named.set(Value::own(name), std::move(value));
  return Value(format_percent(runtime, text, make_dict(std::move(named))));
}

Value tojson(Runtime& runtime, const Value& input, Args args) {
  const Bound bound(std::move(args), "filter tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.has(1) && !bound[1].is_none()) {
    Builder indent(runtime);
    if (bound[1].as_text())
      indent.add(bound.text(1));
    else
      indent.repeat(Text::own(" "), static_cast<std::size_t>(std::max<std::int64_t>(bound.integer(1, 0), 0)));
    style.indent = indent.take();
    style.item_separator = Text::own(",");
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const auto separators = iterate(runtime, bound[2]);
    if (separators->items.size() != 2) fail("filter tojson: separators are two strings");
    style.item_separator = require_text(separators->items[0], "filter tojson");
    style.key_separator = require_text(separators->items[1], "filter tojson");
  }
  Builder out(runtime);
  write_json(out, input, style);
  return Value(out.take());
}

void add_quoted(Builder& out, const Text& text, bool in_query) {
  constexpr std::string_view kHex = "0123456789ABCDEF", kPlain = "_.-~";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && u_isalnum(byte)) || kPlain.find(c) != std::string_view::npos ||
                       (c == '/' && !in_query);
    if (plain) {
      out.add(text, at, at + 1);
    } else if (c == ' ' && in_query) {
      out.add("+", text.is_foreign(at));
    } else {
      const char escape[] = {'%', kHex[byte >> 4], kHex[byte & 0xF]};
      out.add(std::string_view(escape, 3), text.is_foreign(at));
    }
  }
}

Value urlencode(Runtime& runtime, const Value& input, Args args) {
  const Bound none(std::move(args), "filter urlencode", {});
  Builder out(runtime);
  if (!input.as_list() && !input.as_dict()) {
    add_quoted(out, to_text(runtime, input), false);
    return Value(out.take());
  }
  bool first = true;
  const auto pair = [&](const Value& key, const Value& value) {
    if (!std::exchange(first, false)) out.add("&");
    add_quoted(out, to_text(runtime, key), true);
    out.add("=");
    add_quoted(out, to_text(runtime, value), true);
  };
  if (const auto* dict = input.as_dict()) {
    for (const auto& entry : dict->entries()) pair(entry.key, entry.value);
  } else {
    for (const auto& item : input.as_list()->items) {
      const auto parts = iterate(runtime, item);
      if (parts->items.size() != 2) fail("filter urlencode: a list of pairs is required");
      pair(parts->items[0], parts->items[1]);
    }
  }
  return Value(out.take());
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"capitalize", changed<capitalize>},
    {"center", center},
    {"e", changed<escaped>},
    {"escape", changed<escaped>},
    {"forceescape", changed<escaped>},
    {"format", format},
    {"indent", indent},
    {"join", join},
    {"lower", changed<lower>},
    {"replace", replace_filter},
    {"safe", changed<as_it_is>},
    {"string", changed<as_it_is>},
    {"title", changed<title_words>},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", changed<upper>},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};

}  // namespace

Filter find_text_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace model::text::jinja
