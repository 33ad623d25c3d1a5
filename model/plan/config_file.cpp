#include "model/plan/config_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#include <charconv>
#include <optional>

namespace model {
namespace {

std::optional<std::string> as_text(const toml::node& node) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get() ? "on" : "off";
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_floating_point()) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, value->get()).ptr);
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<ConfigEntry>, LoadError> parse_config_file(std::string_view text,
                                                              const std::string& path) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const auto& error = parsed.error();
    return LoadError{
        {path + ':' + std::to_string(error.source().begin.line) + ": " + std::string(error.description())}};
  }
  std::vector<ConfigEntry> entries;
  LoadError wrong;
  for (const auto& [key, node] : parsed.table()) {
    const std::size_t line = node.source().begin.line;
    const auto add = [&](const toml::node& value) {
      if (auto spelled = as_text(value)) {
        entries.push_back({std::string(key.str()), std::move(*spelled), line});
      } else {
        wrong.problems.push_back(path + ':' + std::to_string(line) + ": " + std::string(key.str()) +
                                 " has to be a text, a number, true or false, or a list of these");
      }
    };
    if (const auto* list = node.as_array()) {
      for (const auto& item : *list) add(item);
    } else {
      add(node);
    }
  }
  if (!wrong.problems.empty()) return wrong;
  return entries;
}

}  // namespace model
