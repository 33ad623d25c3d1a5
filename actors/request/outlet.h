#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/metrics/registry.h"
#include "actors/response_sink.h"

namespace actors {

/// A request's way to its client, and what its sink is promised: start comes first, one caller at a time,
/// nothing of a choice after its end, nothing at all after the last word. Texts come straight from the
/// sequence actors' threads, for a message to the request actor and its waking would cost more than all the
/// rest of a token's way. Everything else is said by the request actor, which owns the outlet.
class Outlet {
 public:
  using Clock = std::chrono::steady_clock;
  Outlet(std::shared_ptr<ResponseSink> sink, std::shared_ptr<Metrics> metrics, Clock::time_point submitted)
      : sink_(std::move(sink)), metrics_(std::move(metrics)), submitted_(submitted) {}

  /// A sequence actor's word. Held until start.
  void delta(ChoiceDelta delta);

  // The request actor's.
  void start(const ResponseStart& start);
  void end_choice(const ChoiceEnd& end);
  void engine_error(const model::EngineError& error);
  void finish(const Usage& usage);
  void fail(const model::RequestError& error);
  /// Nothing more is heard, and the sink goes. Idempotent.
  void close();

 private:
  struct Choice {
    std::optional<Clock::time_point> last_token;
    bool ended = false;
  };
  Choice& choice(std::int32_t index);
  void say(const ChoiceDelta& delta);
  void measure(Choice& choice, const ChoiceDelta& delta);

  std::mutex mutex_;  // of all that follows; held while the sink is told, which never blocks nor answers back
  std::shared_ptr<ResponseSink> sink_;  // null: closed
  std::shared_ptr<Metrics> metrics_;
  Clock::time_point submitted_;
  bool started_ = false;
  bool first_token_seen_ = false;
  std::vector<Choice> choices_;  // by index
  std::vector<ChoiceDelta> held_;
};

}  // namespace actors
