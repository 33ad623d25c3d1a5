#pragma once

#include <string>
#include <utility>

namespace model::text::jinja {

/// Why a template cannot be parsed or rendered. It is thrown, because an expression fails from hundreds of
/// places deep inside an evaluation, and never leaves this folder: Template::parse and Template::render catch
/// it and return it as a value.
struct Failure {
  std::string what;
  int line = 0;  ///< of the template's source; 0 while unknown
  bool raised =
      false;  ///< by the template itself with raise_exception: `what` is its author's message, word for word
};

[[noreturn]] inline void fail(std::string what) { throw Failure{std::move(what)}; }

}  // namespace model::text::jinja
