#pragma once

#include <memory>

#include "model/text/jinja/ast.h"
#include "model/text/jinja/scope.h"

namespace model::text::jinja {

/// A macro with the scope that it was defined in; the Runtime keeps that scope. What it prints is its result.
class Macro : public Callable {
 public:
  Macro(const MacroSpec& macro, std::shared_ptr<Scope> scope) : macro_(macro), scope_(std::move(scope)) {
    name = macro.name;
  }
  Value call(Runtime& runtime, Args args) const override;

 private:
  void bind_surplus(Runtime& runtime, Args& args, std::size_t taken, Scope& inner) const;

  const MacroSpec& macro_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace model::text::jinja
