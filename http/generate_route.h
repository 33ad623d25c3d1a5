#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>

#include "actors/engine.h"
#include "http/exchange.h"
#include "http/openai/generate_fields.h"

namespace http {

struct ServiceOptions;

/// POST /v1/chat/completions and /v1/completions: parse, hand over, listen for a client that leaves. Any
/// thread.
class GenerateRoute {
 public:
  GenerateRoute(std::shared_ptr<const actors::ServedModel> served, actors::Engine& engine,
                const ServiceOptions& options);

  void chat(const Request& request, const std::shared_ptr<Exchange>& exchange);
  void completions(const Request& request, const std::shared_ptr<Exchange>& exchange);

 private:
  enum class Api { chat, completions };
  std::uint64_t random();
  openai::RequestContext context_of(const Request& request);
  void answer(model::Result<openai::ParsedRequest, model::RequestError> parsed, Api api,
              const std::shared_ptr<Exchange>& exchange);

  std::shared_ptr<const actors::ServedModel> served_;
  actors::Engine& engine_;
  openai::RequestContext context_;
  std::mutex random_mutex_;
  std::mt19937_64 random_;
};

}  // namespace http
