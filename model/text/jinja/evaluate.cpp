#include "model/text/jinja/access.h"
#include "model/text/jinja/interpreter.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/print.h"

namespace model::text::jinja {

Value Interpreter::evaluate(const Expr& expression, const ScopePtr& scope) try {
  const Nesting nesting(runtime_);
  runtime_.step();
  return dispatch(expression, scope);
} catch (Failure& failure) {
  if (failure.line == 0) failure.line = expression.line;
  throw;
}

Value Interpreter::dispatch(const Expr& expression, const ScopePtr& scope) {
  const auto& node = expression.node;
  if (const auto* e = std::get_if<LiteralExpr>(&node)) return e->value;
  if (const auto* e = std::get_if<NameExpr>(&node)) return name(*e, scope);
  if (const auto* e = std::get_if<SequenceExpr>(&node)) return sequence(*e, scope);
  if (const auto* e = std::get_if<DictExpr>(&node)) return dict(*e, scope);
  if (const auto* e = std::get_if<NegateExpr>(&node))
    return signed_value(evaluate(*e->operand, scope), e->negative);
  if (const auto* e = std::get_if<NotExpr>(&node)) return Value(!truthy(evaluate(*e->operand, scope)));
  if (const auto* e = std::get_if<BinaryExpr>(&node)) {
    const Value left = evaluate(*e->left, scope);
    return binary(runtime_, e->op, left, evaluate(*e->right, scope));
  }
  if (const auto* e = std::get_if<ConcatExpr>(&node)) return concat(*e, scope);
  if (const auto* e = std::get_if<LogicExpr>(&node)) {
    Value left = evaluate(*e->left, scope);
    return truthy(left) == e->is_and ? evaluate(*e->right, scope) : std::move(left);
  }
  if (const auto* e = std::get_if<CompareExpr>(&node)) return compare(*e, scope);
  if (const auto* e = std::get_if<ConditionalExpr>(&node)) return conditional(*e, scope);
  if (const auto* e = std::get_if<AttributeExpr>(&node)) {
    return get_attribute(runtime_, evaluate(*e->object, scope), e->name);
  }
  if (const auto* e = std::get_if<SubscriptExpr>(&node)) return subscript(*e, scope);
  if (const auto* e = std::get_if<CallExpr>(&node)) return call(*e, scope);
  if (const auto* e = std::get_if<FilterExpr>(&node)) return filter(*e, scope);
  if (const auto* e = std::get_if<TestExpr>(&node)) return test(*e, scope);
  fail("a slice stands only inside brackets");
}

Value Interpreter::name(const NameExpr& node, const ScopePtr& scope) {
  if (const auto* value = scope->find(node.name)) return *value;
  if (const auto* value = find_global(node.name)) return *value;
  return Value::undefined("'" + node.name + "' is undefined");
}

Value Interpreter::sequence(const SequenceExpr& node, const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(evaluate(*item, scope));
  return make_list(runtime_, std::move(items), node.shape);
}

Value Interpreter::dict(const DictExpr& node, const ScopePtr& scope) {
  Dict dict;
  for (const auto& [key, value] : node.items) {
    Value evaluated = evaluate(*key, scope);
    dict.set(std::move(evaluated), evaluate(*value, scope));
  }
  return make_dict(std::move(dict));
}

Value Interpreter::concat(const ConcatExpr& node, const ScopePtr& scope) {
  Builder out(runtime_);
  for (const auto& part : node.parts) print(out, evaluate(*part, scope));
  return Value(out.take());
}

Value Interpreter::compare(const CompareExpr& node, const ScopePtr& scope) {
  Value left = evaluate(*node.first, scope);
  for (const auto& [comparison, expression] : node.rest) {
    Value right = evaluate(*expression, scope);
    if (!holds(runtime_, comparison, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::conditional(const ConditionalExpr& node, const ScopePtr& scope) {
  if (truthy(evaluate(*node.test, scope))) return evaluate(*node.chosen, scope);
  if (node.otherwise) return evaluate(*node.otherwise, scope);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::subscript(const SubscriptExpr& node, const ScopePtr& scope) {
  const Value object = evaluate(*node.object, scope);
  const auto* slice = std::get_if<SliceExpr>(&node.index->node);
  if (!slice) return get_item(runtime_, object, evaluate(*node.index, scope));
  const auto bound = [&](const ExprPtr& expression) -> Value {
    return expression ? evaluate(*expression, scope) : Value();
  };
  const Value start = bound(slice->start), stop = bound(slice->stop), step = bound(slice->step);
  return get_slice(runtime_, object, start, stop, step);
}

Args Interpreter::arguments(const Arguments& arguments, const ScopePtr& scope) {
  Args args;
  for (const auto& value : arguments.positional) args.positional.push_back(evaluate(*value, scope));
  for (const auto& [name, value] : arguments.named) args.named.emplace_back(name, evaluate(*value, scope));
  if (arguments.spread) {
    const auto items = iterate(runtime_, evaluate(*arguments.spread, scope));
    runtime_.step(items->items.size());
    args.positional.insert(args.positional.end(), items->items.begin(), items->items.end());
  }
  if (arguments.spread_named) {
    const Value named = evaluate(*arguments.spread_named, scope);
    const auto* dict = named.as_dict();
    if (!dict) fail("the argument after ** must be a mapping, not " + std::string(type_name(named)));
    runtime_.step(dict->entries().size());
    for (const auto& entry : dict->entries()) {
      args.named.emplace_back(require_text(entry.key, "a keyword").bytes(), entry.value);
    }
  }
  for (std::size_t i = 1; i < args.named.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      runtime_.step();
      if (args.named[i].first == args.named[other].first)
        fail("keyword argument repeated: " + args.named[i].first);
    }
  }
  return args;
}

Value Interpreter::call(const CallExpr& node, const ScopePtr& scope, const Value* caller) {
  const Value callee = evaluate(*node.callee, scope);
  Args args = arguments(node.arguments, scope);
  if (caller) args.named.emplace_back("caller", *caller);
  if (const auto* undefined = callee.as_undefined()) fail(*undefined->message);
  const auto* callable = callee.as_callable();
  if (!callable) fail("'" + std::string(type_name(callee)) + "' object is not callable");
  return callable->call(runtime_, std::move(args));
}

Value Interpreter::filter(const FilterExpr& node, const ScopePtr& scope) {
  const Value input = node.input ? evaluate(*node.input, scope) : *std::exchange(piped_, nullptr);
  if (!node.filter) fail("no filter named '" + node.name + "'");
  return node.filter(runtime_, input, arguments(node.arguments, scope));
}

Value Interpreter::test(const TestExpr& node, const ScopePtr& scope) {
  const Value input = evaluate(*node.input, scope);
  if (!node.test) fail("no test named '" + node.name + "'");
  return Value(node.test(runtime_, input, arguments(node.arguments, scope)));
}

}  // namespace model::text::jinja
