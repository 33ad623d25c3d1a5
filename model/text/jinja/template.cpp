#include "model/text/jinja/template.h"

#include <new>

#include "model/text/jinja/interpreter.h"

namespace model::text::jinja {

Result<std::shared_ptr<const Template>, Failure> Template::parse(std::string_view source) try {
  auto parsed = std::make_shared<Template>();
  parsed->body_ = jinja::parse(source);
  return std::shared_ptr<const Template>(std::move(parsed));
} catch (Failure& failure) {
  return std::move(failure);
}

Result<Text, Failure> Template::render(const std::function<Variables(Runtime&)>& variables, Limits limits,
                                       std::time_t now) const try {
  Runtime runtime(limits, now);
  const Variables outermost = variables(runtime);
  auto scope = std::make_shared<Scope>();
  for (const auto& [name, value] : outermost) scope->set(name, value);
  runtime.keep(scope);
  Builder out(runtime);
  Interpreter(runtime, out).run(body_, scope);
  return out.take();
} catch (Failure& failure) {
  return std::move(failure);
} catch (const std::bad_alloc&) {
  return Failure{"the template needs more memory than there is"};
}

}  // namespace model::text::jinja
