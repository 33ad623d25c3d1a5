#include "model/text/jinja/parser.h"

#include "model/text/jinja/expression_parser.h"

namespace model::text::jinja {
namespace {

constexpr int kMaxBlocks = 100;  // of block tags inside one another

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Body run() { return body({}); }

 private:
  using Ends = std::initializer_list<std::string_view>;

  /// Statements up to a tag named in `ends`, whose name is then the current token; without ends up to the end
  /// of the template.
  Body body(Ends ends) {
    if (++blocks_ > kMaxBlocks) tokens_.error("block tags nested deeper than " + std::to_string(kMaxBlocks));
    Body statements;
    while (!tokens_.at(Token::Kind::end)) {
      const int line = tokens_.line();
      if (tokens_.at(Token::Kind::text)) {
        statements.push_back({line, TextStmt{Value(Text::own(tokens_.next().text))}});
      } else if (tokens_.at(Token::Kind::print_begin)) {
        tokens_.next();
        statements.push_back({line, PrintStmt{expressions_.tuple()}});
        tokens_.expect(Token::Kind::print_end);
      } else {
        tokens_.expect(Token::Kind::tag_begin);
        for (const auto end : ends) {
          if (tokens_.at_name(end)) {
            --blocks_;
            return statements;
          }
        }
        statements.push_back(statement());
        tokens_.expect(Token::Kind::tag_end);
      }
    }
    if (ends.size() > 0) tokens_.unexpected("'" + std::string(*ends.begin()) + "'");
    --blocks_;
    return statements;
  }

  /// The rest of an opening tag, what follows, and the name that ends it.
  Body block(Ends ends) {
    tokens_.skip_symbol(":");
    tokens_.expect(Token::Kind::tag_end);
    return body(ends);
  }
  Body block_to(std::string_view end) {
    Body statements = block({end});
    tokens_.next();
    return statements;
  }

  Stmt statement() {
    const int line = tokens_.line();
    const std::string tag = tokens_.expect_name();
    if (tag == "if") return {line, if_tag()};
    if (tag == "for") return {line, for_tag()};
    if (tag == "set") return set_tag(line);
    if (tag == "macro") return {line, macro_tag()};
    if (tag == "call") return {line, call_tag()};
    if (tag == "filter") {
      auto filter = expressions_.filters(nullptr, true);
      return {line, FilterBlockStmt{std::move(filter), block_to("endfilter")}};
    }
    if (tag == "with") return {line, with_tag()};
    if (tag == "generation") return {line, WithStmt{{}, block_to("endgeneration")}};
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) tokens_.error("'" + tag + "' outside of a loop");
      if (tag == "break") return {line, BreakStmt{}};
      return {line, ContinueStmt{}};
    }
    for (const auto* other : {"include", "import", "from", "extends", "block"}) {
      if (tag == other) tokens_.error("tag '" + tag + "' is not supported: a chat template is one file");
    }
    tokens_.error("unknown tag '" + tag + "'");
  }

  IfStmt if_tag() {
    ++expressions_.conditional_depth;
    IfStmt statement;
    while (true) {
      auto condition = expressions_.tuple(false);
      statement.branches.emplace_back(std::move(condition), block({"elif", "else", "endif"}));
      const std::string end = tokens_.next().text;
      if (end == "elif") continue;
      if (end == "else") statement.otherwise = block_to("endif");
      break;
    }
    --expressions_.conditional_depth;
    return statement;
  }

  ForStmt for_tag() {
    ForStmt statement;
    statement.target = expressions_.target(false);
    if (statement.target.name == "loop") tokens_.error("cannot assign to loop in a for");
    if (!tokens_.skip_name("in")) tokens_.unexpected("'in'");
    statement.iterable = expressions_.tuple(false);
    if (tokens_.skip_name("if")) statement.condition = expressions_.expression();
    if (tokens_.at_name("recursive")) tokens_.error("recursive loops are not supported");
    ++loops_;
    statement.body = block({"endfor", "else"});
    --loops_;
    if (tokens_.next().text == "else") statement.otherwise = block_to("endfor");
    return statement;
  }

  Stmt set_tag(int line) {
    Target target = expressions_.target(true);
    if (tokens_.skip_symbol("=")) return {line, SetStmt{std::move(target), expressions_.tuple()}};
    auto filter = tokens_.at_symbol("|") ? expressions_.filters(nullptr) : nullptr;
    return {line, SetBlockStmt{std::move(target), std::move(filter), block_to("endset")}};
  }

  WithStmt with_tag() {
    WithStmt statement;
    while (!tokens_.at(Token::Kind::tag_end)) {
      if (!statement.bindings.empty()) tokens_.expect_symbol(",");
      Target target = expressions_.simple_target();
      tokens_.expect_symbol("=");
      statement.bindings.emplace_back(std::move(target), expressions_.expression());
    }
    statement.body = block_to("endwith");
    return statement;
  }

  void signature(MacroSpec& macro) {
    tokens_.expect_symbol("(");
    while (!tokens_.at_symbol(")")) {
      if (!macro.parameters.empty()) tokens_.expect_symbol(",");
      macro.parameters.push_back(tokens_.expect_name());
      if (tokens_.skip_symbol("=")) {
        macro.defaults.push_back(expressions_.expression());
      } else if (!macro.defaults.empty()) {
        tokens_.error("parameter without a default after one with a default");
      }
    }
    tokens_.expect_symbol(")");
  }

  /// A macro's body, with the note of which implicit arguments it reads; a macro around it is taken to read
  /// them too.
  void macro_body(MacroSpec& macro, std::string_view end) {
    const auto outer = std::exchange(expressions_.uses, {});
    const int loops = std::exchange(loops_, 0);
    macro.body = block_to(end);
    loops_ = loops;
    const auto uses = expressions_.uses;
    macro.uses_caller = uses.caller;
    macro.uses_varargs = uses.varargs;
    macro.uses_kwargs = uses.kwargs;
    expressions_.uses = {outer.caller || uses.caller, outer.varargs || uses.varargs,
                         outer.kwargs || uses.kwargs};
  }

  MacroStmt macro_tag() {
    auto macro = std::make_unique<MacroSpec>();
    macro->name = tokens_.expect_name();
    signature(*macro);
    macro_body(*macro, "endmacro");
    return {std::move(macro)};
  }

  CallBlockStmt call_tag() {
    auto caller = std::make_unique<MacroSpec>();
    caller->name = "caller";
    if (tokens_.at_symbol("(")) signature(*caller);
    auto call = expressions_.expression();
    if (!std::holds_alternative<CallExpr>(call->node)) tokens_.error("expected a call");
    macro_body(*caller, "endcall");
    return {std::move(caller), std::move(call)};
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int blocks_ = 0;
  int loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) { return Parser(source).run(); }

}  // namespace model::text::jinja
