#include "http/service.h"

#include <utility>

#include "http/generate_route.h"
#include "http/health_route.h"
#include "http/info_route.h"
#include "http/openai/error_body.h"
#include "http/text_route.h"

namespace http {
namespace {

using openai::api_error;
using openai::error_response;

constexpr const char* kUnservedRoutes[] = {
    "/v1/embeddings",      "/v1/responses",    "/v1/responses/*",   "/v1/messages",       "/v1/messages/*",
    "/v1/audio/*",         "/v1/images/*",     "/v1/moderations",   "/v1/files",          "/v1/files/*",
    "/v1/uploads",         "/v1/uploads/*",    "/v1/batches",       "/v1/batches/*",      "/v1/fine_tuning/*",
    "/v1/assistants",      "/v1/assistants/*", "/v1/threads",       "/v1/threads/*",      "/v1/vector_stores",
    "/v1/vector_stores/*", "/v1/realtime",     "/v1/realtime/*",    "/v1/rerank",         "/v1/score",
    "/v1/videos",          "/v1/videos/*",     "/v1/conversations", "/v1/conversations/*"};

/// Adds fields to whatever is answered and tells the log how it ended.
class ObservedExchange final : public Exchange {
 public:
  using Log = std::function<void(int status)>;
  ObservedExchange(std::shared_ptr<Exchange> inner, std::vector<Header> headers, Log log)
      : inner_(std::move(inner)), headers_(std::move(headers)), log_(std::move(log)) {}
  ~ObservedExchange() override {
    if (log_) log_(status_);
  }

  void respond(Response response) override {
    add_headers(response);
    inner_->respond(std::move(response));
  }
  void open_stream(Response head) override {
    add_headers(head);
    inner_->open_stream(std::move(head));
  }
  void send(std::string_view bytes) override { inner_->send(bytes); }
  void close_stream() override { inner_->close_stream(); }
  void watch(Flow flow) override { inner_->watch(std::move(flow)); }

 private:
  void add_headers(Response& response) {
    status_ = response.status;
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  }

  std::shared_ptr<Exchange> inner_;
  std::vector<Header> headers_;
  Log log_;
  int status_ = 0;
};

/// Takes as long for a wrong key as for a right one of its length.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return difference == 0;
}

bool has_key(const Request& request, const std::vector<std::string>& keys) {
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view given = request.header("authorization");
  if (given.size() > kBearer.size() && same_ignoring_case(given.substr(0, kBearer.size()), kBearer)) {
    given.remove_prefix(kBearer.size());
  } else {
    given = request.header("x-api-key");
  }
  bool known = false;
  for (const std::string& key : keys) known = same_secret(given, key) || known;
  return known;
}

class Front {
 public:
  Front(ServiceParts parts, ServiceOptions options) : parts_(std::move(parts)), options_(std::move(options)) {
    add_routes();
  }

  void serve(const std::shared_ptr<const Request>& request, std::shared_ptr<Exchange> exchange) const {
    exchange = observed(request, std::move(exchange));
    const auto match = router_.match(request->method, request->path);
    if (const auto* handler = std::get_if<const Handler*>(&match)) return (**handler)(request, exchange);
    if (const auto* options = std::get_if<Router::Options>(&match))
      return exchange->respond(preflight(*request, options->allow));
    if (const auto* wrong = std::get_if<Router::WrongMethod>(&match)) {
      Response response = error_response({405, "This route is served by " + wrong->allow + '.',
                                          "invalid_request_error", "", "method_not_allowed"});
      response.headers.push_back({"Allow", wrong->allow});
      return exchange->respond(std::move(response));
    }
    if (request->method == "OPTIONS" && request->path == "*")
      return exchange->respond(preflight(*request, "GET, HEAD, POST, OPTIONS"));
    exchange->respond(
        error_response({404, "There is no such route.", "invalid_request_error", "", "not_found"}));
  }

 private:
  void add(const char* method, const char* path, Needs needs, Handler handler) {
    router_.add(method, path,
                [this, needs, handler = std::move(handler)](const auto& request, const auto& exchange) {
                  if (needs != Needs::nothing && !options_.api_keys.empty() &&
                      !has_key(*request, options_.api_keys)) {
                    return exchange->respond(
                        error_response({401, "A valid API key is needed: Authorization: Bearer KEY.",
                                        "invalid_request_error", "", "invalid_api_key"}));
                  }
                  if (const auto refused = refusal(parts_.health->view(), needs))
                    return exchange->respond(error_response(api_error(*refused)));
                  handler(request, exchange);
                });
  }

  void add_routes() {
    const auto generate = std::make_shared<GenerateRoute>(parts_.served, *parts_.engine, options_);
    add("POST", "/v1/chat/completions", Needs::engine,
        [generate](const auto& request, const auto& exchange) { generate->chat(*request, exchange); });
    add("POST", "/v1/completions", Needs::engine,
        [generate](const auto& request, const auto& exchange) { generate->completions(*request, exchange); });

    const auto text =
        std::make_shared<TextRoute>(parts_.served, *parts_.engine, options_.default_template_kwargs);
    add("POST", "/tokenize", Needs::model,
        [text](const auto& request, const auto& exchange) { text->tokenize(*request, exchange); });
    add("POST", "/detokenize", Needs::model,
        [text](const auto& request, const auto& exchange) { text->detokenize(*request, exchange); });
    add("POST", "/apply-template", Needs::model,
        [text](const auto& request, const auto& exchange) { text->apply_template(*request, exchange); });

    const auto served = parts_.served;
    add("GET", "/v1/models", Needs::model,
        [served](const auto&, const auto& exchange) { exchange->respond(list_models(*served)); });
    add("GET", "/v1/models/*", Needs::model, [served](const auto& request, const auto& exchange) {
      exchange->respond(show_model(*served, request->path.substr(std::string_view("/v1/models/").size())));
    });
    add("GET", "/serve-plan", Needs::nothing, [served](const auto&, const auto& exchange) {
      exchange->respond({200, to_json(served->plan)});
    });
    add("GET", "/version", Needs::nothing, [json = options_.version_json](const auto&, const auto& exchange) {
      exchange->respond({200, json});
    });
    add("GET", "/metrics", Needs::nothing,
        [metrics = parts_.metrics_text](const auto&, const auto& exchange) {
          exchange->respond({200, metrics(), "text/plain; version=0.0.4; charset=utf-8"});
        });

    const auto* health = parts_.health;
    add("GET", "/health", Needs::nothing,
        [health](const auto&, const auto& exchange) { exchange->respond(health_response(health->view())); });
    add("GET", "/livez", Needs::nothing, [health](const auto&, const auto& exchange) {
      exchange->respond(liveness_response(health->view()));
    });
    add("GET", "/readyz", Needs::nothing,
        [health](const auto&, const auto& exchange) { exchange->respond(health_response(health->view())); });

    for (const char* path : kUnservedRoutes) {
      for (const char* method : {"POST", "GET", "DELETE"}) {
        add(method, path, Needs::model, [](const auto&, const auto& exchange) {
          exchange->respond(error_response({501, "This server does not serve this route of the API.",
                                            "invalid_request_error", "", "not_implemented"}));
        });
      }
    }
  }

  std::shared_ptr<Exchange> observed(const std::shared_ptr<const Request>& request,
                                     std::shared_ptr<Exchange> exchange) const {
    std::vector<Header> headers;
    if (!options_.cors_origin.empty()) {
      headers.push_back({"Access-Control-Allow-Origin", options_.cors_origin});
      headers.push_back(
          {"Access-Control-Expose-Headers", "x-request-id, x-atlas-max-tokens-clamped, Retry-After"});
      if (options_.cors_origin != "*") headers.push_back({"Vary", "Origin"});
    }
    ObservedExchange::Log log;
    if (parts_.log) {
      log = [write = parts_.log, request, began = std::chrono::steady_clock::now()](int status) {
        write(*request, status,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
      };
    }
    if (headers.empty() && !log) return exchange;
    return std::make_shared<ObservedExchange>(std::move(exchange), std::move(headers), std::move(log));
  }

  Response preflight(const Request& request, const std::string& allow) const {
    Response response{204, "", ""};
    response.headers.push_back({"Allow", allow});
    if (options_.cors_origin.empty()) return response;
    response.headers.push_back({"Access-Control-Allow-Methods", allow});
    const std::string wanted(request.header("access-control-request-headers"));
    response.headers.push_back({"Access-Control-Allow-Headers",
                                wanted.empty() ? "content-type, authorization, x-request-id" : wanted});
    response.headers.push_back({"Access-Control-Max-Age", "600"});
    return response;
  }

  ServiceParts parts_;
  ServiceOptions options_;
  Router router_;
};

}  // namespace

std::optional<model::RequestError> refusal(const actors::HealthView& view, Needs needs) {
  using actors::ProcessState;
  if (needs == Needs::nothing || view.state == ProcessState::ready) return std::nullopt;
  if (needs == Needs::model && view.state == ProcessState::draining) return std::nullopt;
  return actors::refusal(view);
}

Service make_service(ServiceParts parts, ServiceOptions options) {
  const auto front = std::make_shared<Front>(std::move(parts), std::move(options));
  return [front](std::shared_ptr<const Request> request, std::shared_ptr<Exchange> exchange) {
    front->serve(request, std::move(exchange));
  };
}

}  // namespace http
