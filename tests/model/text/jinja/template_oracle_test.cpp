#include <gtest/gtest.h>
#include <simdjson.h>

#include "model/text/jinja/json.h"
#include "model/text/jinja/template.h"

namespace model::text::jinja {
namespace {

/// What the template gives, or "error: …".
Result<Text, Failure> render(std::string_view source, std::string_view variables_json) {
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
  return (*parsed)->render(variables, Limits{}, 0);
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
  EXPECT_GE(count, 700);
}

}  // namespace
}  // namespace model::text::jinja
