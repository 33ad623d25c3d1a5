#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/jinja/failure.h"
#include "model/text/jinja/lexer.h"

namespace model::text::jinja {

/// The tokens of a template with a place in them; the last token is `end` and never passed.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool at(Token::Kind kind) const { return current().kind == kind; }
  bool at_name(std::string_view name) const { return is(current(), Token::Kind::name, name); }
  bool at_symbol(std::string_view symbol) const { return is(current(), Token::Kind::symbol, symbol); }
  bool ahead_is_name(std::string_view name) const { return is(ahead(), Token::Kind::name, name); }
  bool ahead_is_symbol(std::string_view symbol) const { return is(ahead(), Token::Kind::symbol, symbol); }
  bool skip_name(std::string_view name) { return at_name(name) && (next(), true); }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (next(), true); }

  std::string expect_name() {
    if (!at(Token::Kind::name)) unexpected("a name");
    return next().text;
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) unexpected("'" + std::string(symbol) + "'");
  }
  void expect(Token::Kind kind) {
    if (!at(kind)) unexpected(describe(kind));
    next();
  }

  [[noreturn]] void error(std::string what) const { throw Failure{std::move(what), line()}; }
  [[noreturn]] void unexpected(std::string_view wanted) const {
    const auto& token = current();
    const std::string got = token.text.empty() ? std::string(describe(token.kind)) : "'" + token.text + "'";
    error("expected " + std::string(wanted) + ", got " + got);
  }

 private:
  static bool is(const Token& token, Token::Kind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  static std::string_view describe(Token::Kind kind) {
    switch (kind) {
      case Token::Kind::text:
        return "text";
      case Token::Kind::print_begin:
        return "'{{'";
      case Token::Kind::print_end:
        return "'}}'";
      case Token::Kind::tag_begin:
        return "'{%'";
      case Token::Kind::tag_end:
        return "'%}'";
      case Token::Kind::name:
        return "a name";
      case Token::Kind::string:
        return "a string";
      case Token::Kind::integer:
        return "an integer";
      case Token::Kind::floating:
        return "a float";
      case Token::Kind::symbol:
        return "a symbol";
      case Token::Kind::end:
        return "the end of the template";
    }
    return "a token";
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace model::text::jinja
