#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/jinja/failure.h"
#include "model/text/jinja/parser.h"

namespace model::text::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

/// A parsed template. Immutable; any thread. Nothing is thrown out of here.
class Template {
 public:
  static Result<std::shared_ptr<const Template>, Failure> parse(std::string_view source);
  /// `variables` fills the outermost scope with what it makes within the same accounts; it may throw Failure.
  Result<Text, Failure> render(const std::function<Variables(Runtime&)>& variables, Limits limits,
                               std::time_t now) const;

 private:
  Body body_;
};

}  // namespace model::text::jinja
