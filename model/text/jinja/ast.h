#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/text/jinja/builtins.h"
#include "model/text/jinja/value.h"

namespace model::text::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<Stmt>;

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread, spread_named;  ///< *list, **dict; null without
};

enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparison { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };

struct LiteralExpr {
  Value value;
};
struct NameExpr {
  std::string name;
};
struct SequenceExpr {
  List::Shape shape;
  std::vector<ExprPtr> items;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
struct NegateExpr {
  ExprPtr operand;
  bool negative;
};  // false: unary plus
struct NotExpr {
  ExprPtr operand;
};
struct BinaryExpr {
  Operator op;
  ExprPtr left, right;
};
struct ConcatExpr {
  std::vector<ExprPtr> parts;
};
struct LogicExpr {
  bool is_and;
  ExprPtr left, right;
};
struct CompareExpr {
  ExprPtr first;
  std::vector<std::pair<Comparison, ExprPtr>> rest;
};
struct ConditionalExpr {
  ExprPtr test, chosen, otherwise;
};  // otherwise may be null
struct AttributeExpr {
  ExprPtr object;
  std::string name;
};
struct SliceExpr {
  ExprPtr start, stop, step;
};  // each may be null; only ever an index
struct SubscriptExpr {
  ExprPtr object, index;
};
struct CallExpr {
  ExprPtr callee;
  Arguments arguments;
};
struct FilterExpr {
  ExprPtr input;
  std::string name;
  Filter filter;
  Arguments arguments;
};  // null input: the block's text
struct TestExpr {
  ExprPtr input;
  std::string name;
  Test test;
  Arguments arguments;
};

struct Expr {
  int line = 0;
  int height = 1;  ///< bounded by the parser, so that evaluating and freeing a tree cannot exhaust the stack
  std::variant<LiteralExpr, NameExpr, SequenceExpr, DictExpr, NegateExpr, NotExpr, BinaryExpr, ConcatExpr,
               LogicExpr, CompareExpr, ConditionalExpr, AttributeExpr, SliceExpr, SubscriptExpr, CallExpr,
               FilterExpr, TestExpr>
      node;
};

/// What can be assigned to: a name, `namespace.attribute`, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> items;
  bool is_tuple = false;
};

/// A macro, or the body of a call block.
struct MacroSpec {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  ///< of the last parameters
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct TextStmt {
  Value text;
};
struct PrintStmt {
  ExprPtr expression;
};
struct IfStmt {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct ForStmt {
  Target target;
  ExprPtr iterable, condition;
  Body body, otherwise;
};  // condition may be null
struct SetStmt {
  Target target;
  ExprPtr value;
};
struct SetBlockStmt {
  Target target;
  ExprPtr filter;
  Body body;
};  // filter may be null
struct MacroStmt {
  std::unique_ptr<MacroSpec> macro;
};
struct CallBlockStmt {
  std::unique_ptr<MacroSpec> caller;
  ExprPtr call;
};
struct FilterBlockStmt {
  ExprPtr filter;
  Body body;
};
struct WithStmt {
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};
struct BreakStmt {};
struct ContinueStmt {};

struct Stmt {
  int line = 0;
  std::variant<TextStmt, PrintStmt, IfStmt, ForStmt, SetStmt, SetBlockStmt, MacroStmt, CallBlockStmt,
               FilterBlockStmt, WithStmt, BreakStmt, ContinueStmt>
      node;
};

}  // namespace model::text::jinja
