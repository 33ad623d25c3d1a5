#pragma once

#include <memory>
#include <string_view>

#include "model/text/jinja/ast.h"
#include "model/text/jinja/scope.h"

namespace model::text::jinja {

/// Walks a syntax tree. Made anew for each macro call; the accounts are the Runtime's. Throws Failure.
class Interpreter {
 public:
  enum class Flow { normal, leave_loop, next_iteration };

  Interpreter(Runtime& runtime, Builder& out) : runtime_(runtime), out_(&out) {}

  Flow run(const Body& body, const std::shared_ptr<Scope>& scope);
  Value evaluate(const Expr& expression, const std::shared_ptr<Scope>& scope);

 private:
  using ScopePtr = std::shared_ptr<Scope>;

  Flow execute(const Stmt& statement, const ScopePtr& scope);
  Flow execute_for(const ForStmt& statement, const ScopePtr& scope);
  Flow execute_with(const WithStmt& statement, const ScopePtr& scope);
  Flow execute_if(const IfStmt& statement, const ScopePtr& scope);
  void execute_call_block(const CallBlockStmt& statement, const ScopePtr& scope);
  Value captured(const Body& body, const Expr* filter, const ScopePtr& scope, Flow& flow);
  void assign(const Target& target, const Value& value, const ScopePtr& scope);
  Value make_macro(const MacroSpec& macro, const ScopePtr& scope);

  Value dispatch(const Expr& expression, const ScopePtr& scope);
  Value name(const NameExpr& node, const ScopePtr& scope);
  Value sequence(const SequenceExpr& node, const ScopePtr& scope);
  Value dict(const DictExpr& node, const ScopePtr& scope);
  Value concat(const ConcatExpr& node, const ScopePtr& scope);
  Value compare(const CompareExpr& node, const ScopePtr& scope);
  Value conditional(const ConditionalExpr& node, const ScopePtr& scope);
  Value subscript(const SubscriptExpr& node, const ScopePtr& scope);
  Value call(const CallExpr& node, const ScopePtr& scope, const Value* caller = nullptr);
  Value filter(const FilterExpr& node, const ScopePtr& scope);
  Value test(const TestExpr& node, const ScopePtr& scope);
  Args arguments(const Arguments& arguments, const ScopePtr& scope);

  Runtime& runtime_;
  Builder* out_;
  const Value* piped_ = nullptr;  ///< the text of the block whose filters are being applied
};

}  // namespace model::text::jinja
