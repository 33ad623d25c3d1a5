#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/jinja/value.h"

namespace model::text::jinja {

/// The variables of a template, a loop iteration, a macro call or a block. A macro keeps the scope that it
/// was defined in, and sees what that scope holds when it is called.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>>
      variables;  ///< names point into the syntax tree or the globals

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope; scope = scope->parent.get()) {
      for (const auto& [known, value] : scope->variables) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    for (auto& [known, old] : variables) {
      if (known == name) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(name, std::move(value));
  }
};

}  // namespace model::text::jinja
