#pragma once

#include <memory>
#include <string>

#include "actors/engine.h"
#include "http/exchange.h"

namespace http {

/// POST /tokenize, /detokenize, /apply-template: text work without the device. Encoding and rendering go the
/// way of a request's prompt, so what is shown here is what a request would feed.
class TextRoute {
 public:
  TextRoute(std::shared_ptr<const actors::ServedModel> served, actors::Engine& engine,
            std::string default_template_kwargs)
      : served_(std::move(served)),
        engine_(engine),
        default_template_kwargs_(std::move(default_template_kwargs)) {}

  void tokenize(const Request& request, const std::shared_ptr<Exchange>& exchange) const;
  void detokenize(const Request& request, const std::shared_ptr<Exchange>& exchange) const;
  void apply_template(const Request& request, const std::shared_ptr<Exchange>& exchange) const;

 private:
  std::shared_ptr<const actors::ServedModel> served_;
  actors::Engine& engine_;
  std::string default_template_kwargs_;
};

}  // namespace http
