#include <gtest/gtest.h>
#include <simdjson.h>

#include <random>

#include "model/text/jinja/json.h"
#include "model/text/jinja/template.h"

namespace model::text::jinja {
namespace {

Result<Text, Failure> render(std::string_view source, std::string_view variables_json, Limits limits = {}) {
  auto parsed = Template::parse(source);
  if (!parsed) return parsed.error();
  const auto variables = [&](Runtime& runtime) {
    Variables all;
    const Value values = read_json(runtime, variables_json);
    for (const auto& entry : values.as_dict()->entries()) {
      all.emplace_back(entry.key.as_text()->bytes(), entry.value);
    }
    return all;
  };
  return (*parsed)->render(variables, limits, 0);
}

TEST(Template, AgreesWithPythonsJinja2) {
  simdjson::dom::parser parser;
  simdjson::dom::element golden;
  const std::string path = std::string(ATLAS_FIXTURES) + "/../model/text/jinja/cases.json";
  ASSERT_EQ(parser.load(path).get(golden), simdjson::SUCCESS) << path;
  const std::string variables = simdjson::minify(golden["variables"]);
  int count = 0;
  for (const auto item : golden["cases"].get_array()) {
    ++count;
    const std::string_view source = item["template"];
    const auto text = render(source, variables);
    std::string_view expected;
    if (item["text"].get(expected) == simdjson::SUCCESS) {
      EXPECT_TRUE(text.ok()) << source << "\n  fails: " << (text.ok() ? "" : text.error().what);
      if (text.ok()) {
        EXPECT_EQ(text->bytes(), expected) << source;
      }
      continue;
    }
    EXPECT_FALSE(text.ok()) << source << "\n  should fail, gives: " << (text.ok() ? text->bytes() : "");
    const std::string_view raised = item["error"];
    if (!text.ok() && !raised.empty()) {
      EXPECT_TRUE(text.error().raised) << source;
      EXPECT_EQ(text.error().what, raised) << source;
    }
  }
  EXPECT_GE(count, 900);
}

/// One to four random edits: a range removed, repeated, taken from another template, or a character of the
/// language put in.
std::string mutated(std::mt19937& random, const std::vector<std::string>& templates) {
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  std::string text = templates[below(templates.size())];
  constexpr std::string_view kCharacters =
      "{}%#-+|.,:()[]'\"\\~*/<>=! \n\xff"
      "0aif";
  for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
    const std::size_t at = below(text.size() + 1), size = below(12);
    const std::string& other = templates[below(templates.size())];
    switch (below(4)) {
      case 0:
        text.erase(at, size);
        break;
      case 1:
        text.insert(at, text.substr(at, size));
        break;
      case 2:
        text.insert(at, other.substr(below(other.size() + 1), size));
        break;
      default:
        text.insert(at, 1, kCharacters[below(kCharacters.size())]);
    }
  }
  return text;
}

TEST(Template, BrokenTemplatesFailAndNeverCrash) {
  simdjson::dom::parser parser;
  simdjson::dom::element golden;
  ASSERT_EQ(parser.load(std::string(ATLAS_FIXTURES) + "/../model/text/jinja/cases.json").get(golden),
            simdjson::SUCCESS);
  const std::string variables = simdjson::minify(golden["variables"]);
  std::vector<std::string> templates;
  for (const auto item : golden["cases"].get_array())
    templates.emplace_back(std::string_view(item["template"]));
  std::mt19937 random(7);
  Limits limits;
  limits.max_steps = 20'000;
  limits.max_text_bytes = 100'000;
  int rendered = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string source = mutated(random, templates);
    const auto text = render(source, variables, limits);
    if (!text.ok()) {
      EXPECT_FALSE(text.error().what.empty() && !text.error().raised) << source;
      continue;
    }
    ++rendered;
    EXPECT_LE(text->size(), limits.max_text_bytes);
    std::size_t behind = 0;
    for (const auto& range : text->literal()) {
      EXPECT_TRUE(range.first < range.last && range.last <= text->size() &&
                  (range.first > behind || behind == 0))
          << source;
      behind = range.last;
    }
  }
  EXPECT_GT(rendered, 1000);
}

}  // namespace
}  // namespace model::text::jinja
