#include "model/text/jinja/interpreter.h"

#include "model/text/jinja/macro.h"
#include "model/text/jinja/print.h"

namespace model::text::jinja {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::shared_ptr<Scope> scope_inside(const std::shared_ptr<Scope>& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

}  // namespace

Interpreter::Flow Interpreter::run(const Body& body, const ScopePtr& scope) {
  for (const auto& statement : body) {
    if (const Flow flow = execute(statement, scope); flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Stmt& statement, const ScopePtr& scope) try {
  const Nesting nesting(runtime_);
  runtime_.step();
  Flow flow = Flow::normal;
  std::visit(Overloaded{
                 [&](const TextStmt& node) { out_->add(*node.text.as_text()); },
                 [&](const PrintStmt& node) { print(*out_, evaluate(*node.expression, scope)); },
                 [&](const IfStmt& node) { flow = execute_if(node, scope); },
                 [&](const ForStmt& node) { flow = execute_for(node, scope); },
                 [&](const SetStmt& node) { assign(node.target, evaluate(*node.value, scope), scope); },
                 [&](const SetBlockStmt& node) {
                   assign(node.target, captured(node.body, node.filter.get(), scope, flow), scope);
                 },
                 [&](const MacroStmt& node) { scope->set(node.macro->name, make_macro(*node.macro, scope)); },
                 [&](const CallBlockStmt& node) { execute_call_block(node, scope); },
                 [&](const FilterBlockStmt& node) {
                   print(*out_, captured(node.body, node.filter.get(), scope, flow));
                 },
                 [&](const WithStmt& node) { flow = execute_with(node, scope); },
                 [&](const BreakStmt&) { flow = Flow::leave_loop; },
                 [&](const ContinueStmt&) { flow = Flow::next_iteration; },
             },
             statement.node);
  return flow;
} catch (Failure& failure) {
  if (failure.line == 0) failure.line = statement.line;
  throw;
}

Interpreter::Flow Interpreter::execute_if(const IfStmt& statement, const ScopePtr& scope) {
  for (const auto& [condition, body] : statement.branches) {
    if (truthy(evaluate(*condition, scope))) return run(body, scope);
  }
  return run(statement.otherwise, scope);
}

Interpreter::Flow Interpreter::execute_for(const ForStmt& statement, const ScopePtr& scope) {
  auto items = iterate(runtime_, evaluate(*statement.iterable, scope));
  if (statement.condition) {
    std::vector<Value> chosen;
    for (const auto& item : items->items) {
      const auto inner = scope_inside(scope);
      assign(statement.target, item, inner);
      if (truthy(evaluate(*statement.condition, inner))) chosen.push_back(item);
    }
    items = make_list(runtime_, std::move(chosen)).share_list();
  }
  if (items->items.empty()) return run(statement.otherwise, scope);
  auto loop = std::make_shared<Loop>();
  loop->items = items;
  for (; loop->index < items->items.size(); ++loop->index) {
    const auto inner = scope_inside(scope);
    inner->set("loop", Value(loop));
    assign(statement.target, items->items[loop->index], inner);
    if (run(statement.body, inner) == Flow::leave_loop) break;
  }
  loop->changed.reset();  // it may hold the loop itself
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_with(const WithStmt& statement, const ScopePtr& scope) {
  const auto inner = scope_inside(scope);
  for (const auto& [target, value] : statement.bindings) assign(target, evaluate(*value, scope), inner);
  return run(statement.body, inner);
}

Value Interpreter::captured(const Body& body, const Expr* filter, const ScopePtr& scope, Flow& flow) {
  Builder buffer(runtime_);
  Builder* const outer = std::exchange(out_, &buffer);
  flow = run(body, scope_inside(scope));
  out_ = outer;
  Value text(buffer.take());
  if (!filter) return text;
  piped_ = &text;
  return evaluate(*filter, scope);
}

void Interpreter::execute_call_block(const CallBlockStmt& statement, const ScopePtr& scope) {
  const Value caller = make_macro(*statement.caller, scope);
  print(*out_, call(std::get<CallExpr>(statement.call->node), scope, &caller));
}

void Interpreter::assign(const Target& target, const Value& value, const ScopePtr& scope) {
  if (target.is_tuple) {
    const auto items = iterate(runtime_, value);
    if (items->items.size() != target.items.size()) {
      fail("cannot unpack " + std::to_string(items->items.size()) + " values into " +
           std::to_string(target.items.size()));
    }
    for (std::size_t i = 0; i < target.items.size(); ++i) assign(target.items[i], items->items[i], scope);
  } else if (target.attribute.empty()) {
    scope->set(target.name, value);
  } else {
    const auto* holder = scope->find(target.name);
    auto* space = holder ? holder->as_namespace() : nullptr;
    if (!space) fail("cannot assign attribute on non-namespace object '" + target.name + "'");
    space->attributes.set(Value::own(target.attribute), value);
  }
}

Value Interpreter::make_macro(const MacroSpec& macro, const ScopePtr& scope) {
  runtime_.keep(scope);
  return Value(std::shared_ptr<const Callable>(std::make_shared<Macro>(macro, scope)));
}

}  // namespace model::text::jinja
