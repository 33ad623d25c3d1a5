#pragma once

#include <algorithm>
#include <functional>

#include "model/text/jinja/ast.h"
#include "model/text/jinja/token_stream.h"

namespace model::text::jinja {

/// Expressions, with jinja2's precedences: `if` < or < and < not < comparison < + - < ~ < * / // % < ** <
/// sign < filter.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExprPtr expression();
  ExprPtr without_condition() { return disjunction(); }
  /// One expression or, with commas, a tuple. `is_end` says where a trailing comma may be the last token.
  ExprPtr tuple(bool with_condition = true, bool in_parentheses = false);
  Arguments call_arguments();
  /// `| name(…) | …` applied to `input`; `first_is_bare`: the first filter comes without its bar.
  ExprPtr filters(ExprPtr input, bool first_is_bare = false);
  Target target(bool with_attribute);
  Target simple_target();

  /// Names of macro internals seen since the last reset, for the macro around them.
  struct Uses {
    bool caller = false, varargs = false, kwargs = false;
  };
  Uses uses;
  int conditional_depth = 0;  ///< inside how many `if`: unknown filters and tests are then no parse error

 private:
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters = true);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr number();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr object);
  ExprPtr subscript_index();
  ExprPtr call(ExprPtr callee);
  ExprPtr test(ExprPtr input);
  bool at_tuple_end() const;

  template <class Node>
  ExprPtr make(int line, int deepest, Node node);
  static int height(const ExprPtr& expression) { return expression ? expression->height : 0; }
  static int height(const Arguments& arguments);

  TokenStream& tokens_;
  int nesting_ = 0;
};

}  // namespace model::text::jinja
