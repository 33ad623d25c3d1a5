#include "model/text/jinja/expression_parser.h"

#include <array>
#include <charconv>
#include <cstdlib>

namespace model::text::jinja {
namespace {

constexpr int kMaxNesting = 200;  // brackets and signs inside one another, while parsing
constexpr int kMaxHeight = 500;   // of a syntax tree; a chain of operators or filters counts too

struct Guard {
  Guard(int& nesting, const TokenStream& tokens) : nesting_(nesting) {
    if (nesting_ >= kMaxNesting) tokens.error("expression nested deeper than " + std::to_string(kMaxNesting));
    ++nesting_;
  }
  ~Guard() { --nesting_; }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  int& nesting_;
};

}  // namespace

template <class Node>
ExprPtr ExpressionParser::make(int line, int deepest, Node node) {
  if (deepest >= kMaxHeight)
    tokens_.error("expression of more than " + std::to_string(kMaxHeight) + " levels");
  auto expression = std::make_unique<Expr>();
  expression->line = line;
  expression->height = deepest + 1;
  expression->node = std::move(node);
  return expression;
}

int ExpressionParser::height(const Arguments& arguments) {
  int deepest = std::max(height(arguments.spread), height(arguments.spread_named));
  for (const auto& value : arguments.positional) deepest = std::max(deepest, height(value));
  for (const auto& [name, value] : arguments.named) deepest = std::max(deepest, height(value));
  return deepest;
}

ExprPtr ExpressionParser::expression() {
  const Guard guard(nesting_, tokens_);
  auto chosen = disjunction();
  while (tokens_.at_name("if")) {
    const int line = tokens_.next().line;
    auto test = disjunction();
    ExprPtr otherwise;
    if (tokens_.skip_name("else")) otherwise = expression();
    const int deepest = std::max({height(test), height(chosen), height(otherwise)});
    chosen = make(line, deepest, ConditionalExpr{std::move(test), std::move(chosen), std::move(otherwise)});
  }
  return chosen;
}

ExprPtr ExpressionParser::disjunction() {
  auto left = conjunction();
  while (tokens_.at_name("or")) {
    const int line = tokens_.next().line;
    auto right = conjunction();
    const int deepest = std::max(height(left), height(right));
    left = make(line, deepest, LogicExpr{false, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::conjunction() {
  auto left = negation();
  while (tokens_.at_name("and")) {
    const int line = tokens_.next().line;
    auto right = negation();
    const int deepest = std::max(height(left), height(right));
    left = make(line, deepest, LogicExpr{true, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!tokens_.at_name("not")) return comparison();
  const Guard guard(nesting_, tokens_);
  const int line = tokens_.next().line;
  auto operand = negation();
  const int deepest = height(operand);
  return make(line, deepest, NotExpr{std::move(operand)});
}

ExprPtr ExpressionParser::comparison() {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kSymbols{{
      {"==", Comparison::equal},
      {"!=", Comparison::unequal},
      {"<", Comparison::less},
      {"<=", Comparison::less_equal},
      {">", Comparison::greater},
      {">=", Comparison::greater_equal},
  }};
  const int line = tokens_.line();
  auto first = sum();
  int deepest = height(first);
  std::vector<std::pair<Comparison, ExprPtr>> rest;
  const auto next_comparison = [&]() -> std::optional<Comparison> {
    for (const auto& [symbol, comparison] : kSymbols) {
      if (tokens_.skip_symbol(symbol)) return comparison;
    }
    if (tokens_.skip_name("in")) return Comparison::in;
    if (tokens_.at_name("not") && tokens_.ahead_is_name("in")) {
      tokens_.next();
      tokens_.next();
      return Comparison::not_in;
    }
    return std::nullopt;
  };
  while (const auto comparison = next_comparison()) {
    rest.emplace_back(*comparison, sum());
    deepest = std::max(deepest, height(rest.back().second));
  }
  if (rest.empty()) return first;
  return make(line, deepest, CompareExpr{std::move(first), std::move(rest)});
}

ExprPtr ExpressionParser::sum() {
  auto left = concatenation();
  while (tokens_.at_symbol("+") || tokens_.at_symbol("-")) {
    const Token& token = tokens_.next();
    auto right = concatenation();
    const int deepest = std::max(height(left), height(right));
    const Operator op = token.text == "+" ? Operator::add : Operator::subtract;
    left = make(token.line, deepest, BinaryExpr{op, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  const int line = tokens_.line();
  std::vector<ExprPtr> parts;
  parts.push_back(product());
  int deepest = height(parts.back());
  while (tokens_.skip_symbol("~")) {
    parts.push_back(product());
    deepest = std::max(deepest, height(parts.back()));
  }
  if (parts.size() == 1) return std::move(parts.front());
  return make(line, deepest, ConcatExpr{std::move(parts)});
}

ExprPtr ExpressionParser::product() {
  static constexpr std::array<std::pair<std::string_view, Operator>, 4> kSymbols{{
      {"*", Operator::multiply},
      {"/", Operator::divide},
      {"//", Operator::floor_divide},
      {"%", Operator::modulo},
  }};
  auto left = power();
  for (bool more = true; more;) {
    more = false;
    for (const auto& [symbol, op] : kSymbols) {
      if (!tokens_.at_symbol(symbol)) continue;
      const int line = tokens_.next().line;
      auto right = power();
      const int deepest = std::max(height(left), height(right));
      left = make(line, deepest, BinaryExpr{op, std::move(left), std::move(right)});
      more = true;
      break;
    }
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  auto left = unary();
  while (tokens_.at_symbol("**")) {
    const int line = tokens_.next().line;
    auto right = unary();
    const int deepest = std::max(height(left), height(right));
    left = make(line, deepest, BinaryExpr{Operator::power, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  ExprPtr node;
  if (tokens_.at_symbol("-") || tokens_.at_symbol("+")) {
    const Guard guard(nesting_, tokens_);
    const Token& token = tokens_.next();
    auto operand = unary(false);
    const int deepest = height(operand);
    node = make(token.line, deepest, NegateExpr{std::move(operand), token.text == "-"});
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::primary() {
  const Token& token = tokens_.current();
  switch (token.kind) {
    case Token::Kind::name:
      return name_or_constant();
    case Token::Kind::string: {
      std::string value;
      while (tokens_.at(Token::Kind::string)) value += tokens_.next().text;
      return make(token.line, 0, LiteralExpr{Value(Text::own(std::move(value)))});
    }
    case Token::Kind::integer:
    case Token::Kind::floating:
      return number();
    default:
      break;
  }
  if (tokens_.skip_symbol("(")) {
    auto inner = tuple(true, true);
    tokens_.expect_symbol(")");
    return inner;
  }
  if (tokens_.at_symbol("[")) return list();
  if (tokens_.at_symbol("{")) return dict();
  tokens_.unexpected("an expression");
}

ExprPtr ExpressionParser::name_or_constant() {
  const Token& token = tokens_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, 0, LiteralExpr{Value(true)});
  if (name == "false" || name == "False") return make(token.line, 0, LiteralExpr{Value(false)});
  if (name == "none" || name == "None") return make(token.line, 0, LiteralExpr{Value()});
  uses.caller |= name == "caller";
  uses.varargs |= name == "varargs";
  uses.kwargs |= name == "kwargs";
  return make(token.line, 0, NameExpr{name});
}

ExprPtr ExpressionParser::number() {
  const Token& token = tokens_.next();
  const char *first = token.text.data(), *last = first + token.text.size();
  if (token.kind == Token::Kind::floating) {
    double value = 0;
    if (std::from_chars(first, last, value).ec != std::errc{})
      value = std::strtod(first, nullptr);  // 0 or infinity
    return make(token.line, 0, LiteralExpr{Value(value)});
  }
  std::int64_t value = 0;
  if (std::from_chars(first, last, value).ec != std::errc{})
    tokens_.error("integer past 64 bit: " + token.text);
  return make(token.line, 0, LiteralExpr{Value(value)});
}

ExprPtr ExpressionParser::list() {
  const int line = tokens_.next().line;
  std::vector<ExprPtr> items;
  int deepest = 0;
  while (!tokens_.at_symbol("]")) {
    if (!items.empty()) tokens_.expect_symbol(",");
    if (tokens_.at_symbol("]")) break;
    items.push_back(expression());
    deepest = std::max(deepest, height(items.back()));
  }
  tokens_.expect_symbol("]");
  return make(line, deepest, SequenceExpr{List::Shape::list, std::move(items)});
}

ExprPtr ExpressionParser::dict() {
  const int line = tokens_.next().line;
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
  int deepest = 0;
  while (!tokens_.at_symbol("}")) {
    if (!items.empty()) tokens_.expect_symbol(",");
    if (tokens_.at_symbol("}")) break;
    auto key = expression();
    tokens_.expect_symbol(":");
    auto value = expression();
    deepest = std::max({deepest, height(key), height(value)});
    items.emplace_back(std::move(key), std::move(value));
  }
  tokens_.expect_symbol("}");
  return make(line, deepest, DictExpr{std::move(items)});
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.at(Token::Kind::print_end) || tokens_.at(Token::Kind::tag_end) || tokens_.at_symbol(")") ||
         tokens_.at_name("recursive");
}

ExprPtr ExpressionParser::tuple(bool with_condition, bool in_parentheses) {
  const Guard guard(nesting_, tokens_);
  const int line = tokens_.line();
  std::vector<ExprPtr> items;
  int deepest = 0;
  bool is_tuple = false;
  while (!at_tuple_end()) {
    items.push_back(with_condition ? expression() : disjunction());
    deepest = std::max(deepest, height(items.back()));
    if (!tokens_.skip_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (items.empty() && !in_parentheses) tokens_.unexpected("an expression");
  return make(line, deepest, SequenceExpr{List::Shape::tuple, std::move(items)});
}

ExprPtr ExpressionParser::postfix(ExprPtr node) {
  while (true) {
    if (tokens_.at_symbol(".") || tokens_.at_symbol("[")) {
      node = subscript(std::move(node));
    } else if (tokens_.at_symbol("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (tokens_.at_symbol("|")) {
      node = filters(std::move(node));
    } else if (tokens_.at_name("is")) {
      node = test(std::move(node));
    } else if (tokens_.at_symbol("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  const int line = tokens_.line();
  if (tokens_.skip_symbol(".")) {
    const int deepest = height(object);
    if (tokens_.at(Token::Kind::integer)) {
      return make(line, deepest + 1, SubscriptExpr{std::move(object), number()});
    }
    return make(line, deepest, AttributeExpr{std::move(object), tokens_.expect_name()});
  }
  tokens_.expect_symbol("[");
  std::vector<ExprPtr> indices;
  int deepest = 0;
  while (!tokens_.at_symbol("]")) {
    if (!indices.empty()) tokens_.expect_symbol(",");
    indices.push_back(subscript_index());
    deepest = std::max(deepest, height(indices.back()));
  }
  tokens_.expect_symbol("]");
  ExprPtr index;
  if (indices.size() == 1) {
    index = std::move(indices.front());
  } else {
    for (const auto& part : indices) {
      if (std::holds_alternative<SliceExpr>(part->node)) tokens_.error("a slice cannot be part of a tuple");
    }
    index = make(line, deepest, SequenceExpr{List::Shape::tuple, std::move(indices)});
  }
  deepest = std::max(height(object), height(index));
  return make(line, deepest, SubscriptExpr{std::move(object), std::move(index)});
}

ExprPtr ExpressionParser::subscript_index() {
  const int line = tokens_.line();
  SliceExpr slice;
  const auto at_bound_end = [&] {
    return tokens_.at_symbol(":") || tokens_.at_symbol("]") || tokens_.at_symbol(",");
  };
  if (!tokens_.at_symbol(":")) {
    slice.start = expression();
    if (!tokens_.at_symbol(":")) return std::move(slice.start);
  }
  tokens_.next();
  if (!at_bound_end()) slice.stop = expression();
  if (tokens_.skip_symbol(":") && !at_bound_end()) slice.step = expression();
  const int deepest = std::max({height(slice.start), height(slice.stop), height(slice.step)});
  return make(line, deepest, std::move(slice));
}

Arguments ExpressionParser::call_arguments() {
  Arguments arguments;
  tokens_.expect_symbol("(");
  bool first = true;
  while (!tokens_.at_symbol(")")) {
    if (!first) {
      tokens_.expect_symbol(",");
      if (tokens_.at_symbol(")")) break;
    }
    first = false;
    if (tokens_.skip_symbol("*")) {
      if (arguments.spread || arguments.spread_named)
        tokens_.error("a call has one * and it comes before **");
      arguments.spread = expression();
    } else if (tokens_.skip_symbol("**")) {
      if (arguments.spread_named) tokens_.error("a call has one **");
      arguments.spread_named = expression();
    } else if (tokens_.at(Token::Kind::name) && tokens_.ahead_is_symbol("=")) {
      std::string name = tokens_.next().text;
      tokens_.next();
      arguments.named.emplace_back(std::move(name), expression());
    } else {
      if (arguments.spread || arguments.spread_named || !arguments.named.empty()) {
        tokens_.error("positional argument after a named one");
      }
      arguments.positional.push_back(expression());
    }
  }
  tokens_.expect_symbol(")");
  return arguments;
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  const int line = tokens_.line();
  auto arguments = call_arguments();
  const int deepest = std::max(height(callee), height(arguments));
  return make(line, deepest, CallExpr{std::move(callee), std::move(arguments)});
}

ExprPtr ExpressionParser::filters(ExprPtr input, bool first_is_bare) {
  while (first_is_bare || tokens_.skip_symbol("|")) {
    first_is_bare = false;
    const int line = tokens_.line();
    std::string name = tokens_.expect_name();
    const Filter filter = find_filter(name);
    if (!filter && conditional_depth == 0) tokens_.error("no filter named '" + name + "'");
    Arguments arguments;
    if (tokens_.at_symbol("(")) arguments = call_arguments();
    const int deepest = std::max(height(input), height(arguments));
    input = make(line, deepest, FilterExpr{std::move(input), std::move(name), filter, std::move(arguments)});
  }
  return input;
}

ExprPtr ExpressionParser::test(ExprPtr input) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  std::string name = tokens_.expect_name();
  const Test test = find_test(name);
  if (!test && conditional_depth == 0) tokens_.error("no test named '" + name + "'");
  Arguments arguments;
  const auto kind = tokens_.current().kind;
  if (tokens_.at_symbol("(")) {
    arguments = call_arguments();
  } else if (kind == Token::Kind::string || kind == Token::Kind::integer || kind == Token::Kind::floating ||
             tokens_.at_symbol("[") || tokens_.at_symbol("{") ||
             (kind == Token::Kind::name && !tokens_.at_name("else") && !tokens_.at_name("or") &&
              !tokens_.at_name("and"))) {
    if (tokens_.at_name("is")) tokens_.error("tests cannot be chained with is");
    arguments.positional.push_back(postfix(primary()));
  }
  const int deepest = std::max(height(input), height(arguments));
  auto node = make(line, deepest, TestExpr{std::move(input), std::move(name), test, std::move(arguments)});
  return negated ? make(line, deepest + 1, NotExpr{std::move(node)}) : std::move(node);
}

Target ExpressionParser::simple_target() {
  const Guard guard(nesting_, tokens_);
  Target target;
  if (tokens_.skip_symbol("(")) {
    target = this->target(false);
    tokens_.expect_symbol(")");
    return target;
  }
  target.name = tokens_.expect_name();
  for (const auto* word : {"true", "false", "none", "True", "False", "None"}) {
    if (target.name == word) tokens_.error("cannot assign to " + target.name);
  }
  return target;
}

Target ExpressionParser::target(bool with_attribute) {
  if (with_attribute && tokens_.ahead_is_symbol(".")) {
    Target target;
    target.name = tokens_.expect_name();
    tokens_.next();
    target.attribute = tokens_.expect_name();
    return target;
  }
  Target tuple;
  tuple.items.push_back(simple_target());
  while (tokens_.skip_symbol(",")) {
    tuple.is_tuple = true;
    if (!tokens_.at(Token::Kind::name) && !tokens_.at_symbol("(")) break;
    if (tokens_.at_name("in")) break;
    tuple.items.push_back(simple_target());
  }
  if (!tuple.is_tuple) {
    Target only = std::move(tuple.items.front());
    return only;
  }
  return tuple;
}

}  // namespace model::text::jinja
