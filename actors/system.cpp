#include "actors/system.h"

#include <atomic>
#include <exception>
#include <utility>

#include "actors/handles.h"
#include "actors/health/fatal_watchdog.h"
#include "actors/health/health_actor.h"
#include "actors/metrics/registry.h"
#include "actors/request/prepare.h"

namespace actors {
namespace {

/// The encoder serves everybody: what one text provokes is that text's answer.
model::Result<Engine::Encoded, model::RequestError> encode_or_say_why(const ServedModel& served,
                                                                      const Prompt& prompt) {
  try {
    return encode_prompt(served, prompt);
  } catch (const std::exception& error) {
    return model::RequestError{model::RequestError::Kind::internal, error.what(), "", ""};
  }
}

/// Answers the client of a text exactly once, unless it left: when the encoder dies with its job, too.
class EncodeAnswer {
 public:
  using Done = std::function<void(model::Result<Engine::Encoded, model::RequestError>)>;
  EncodeAnswer(Done done, std::shared_ptr<const std::atomic<bool>> unwanted, const HealthWord& word)
      : done_(std::move(done)), unwanted_(std::move(unwanted)), word_(word) {}
  EncodeAnswer(const EncodeAnswer&) = delete;
  EncodeAnswer& operator=(const EncodeAnswer&) = delete;
  ~EncodeAnswer() {
    if (!done_ || *unwanted_) return;
    const auto view = word_.view();
    const bool alive = view.state == ProcessState::ready;  // it has not heard yet
    done_(alive ? model::refused_by(model::FatalError{"the encoder failed"}) : refusal(view));
  }

  bool wanted() const { return !*unwanted_; }
  void give(model::Result<Engine::Encoded, model::RequestError> encoded) {
    std::exchange(done_, nullptr)(std::move(encoded));
  }

 private:
  Done done_;
  std::shared_ptr<const std::atomic<bool>> unwanted_;
  const HealthWord& word_;
};

/// The seam to http/: turns calls from I/O threads into messages to health.
class ActorEngine final : public Engine {
 public:
  ActorEngine(std::shared_ptr<const ServedModel> served, const HealthWord& word, HealthHandle health,
              std::shared_ptr<EncodeQueue> encode_queue)
      : served_(std::move(served)),
        word_(word),
        health_(std::move(health)),
        encode_queue_(std::move(encode_queue)) {}

  Ticket submit(std::shared_ptr<const GenerateRequest> request, std::unique_ptr<ResponseSink> sink) override {
    const auto ticket = next_ticket_.fetch_add(1);
    if (const auto view = word_.view(); view.state != ProcessState::ready) {
      sink->fail(refusal(view));
      return ticket;
    }
    caf::anon_send(health_,
                   Submit{ticket, std::move(request), std::move(sink), std::chrono::steady_clock::now()});
    return ticket;
  }
  // Normal priority: these must not overtake the Submit of the same ticket. From health on they overtake.
  void client_gone(Ticket ticket) override { caf::anon_send(health_, TicketGone{ticket}); }
  void pause(Ticket ticket) override { caf::anon_send(health_, TicketPaused{ticket}); }
  void resume(Ticket ticket) override { caf::anon_send(health_, TicketResumed{ticket}); }

  void encode(std::shared_ptr<const Prompt> prompt, std::shared_ptr<const std::atomic<bool>> unwanted,
              std::function<void(model::Result<Encoded, model::RequestError>)> done) override {
    auto place = encode_queue_->enter();
    if (!place) return done(too_many_texts());
    EncodeJob job;
    auto answer = std::make_shared<EncodeAnswer>(std::move(done), std::move(unwanted), word_);
    job.run = [served = served_, prompt = std::move(prompt), answer = std::move(answer),
               place = *std::move(place)] {
      if (answer->wanted()) answer->give(encode_or_say_why(*served, *prompt));
    };
    caf::anon_send(health_, std::move(job));
  }

 private:
  std::shared_ptr<const ServedModel> served_;
  const HealthWord& word_;
  HealthHandle health_;
  std::shared_ptr<EncodeQueue> encode_queue_;
  std::atomic<Ticket> next_ticket_{1};
};

caf::actor_system_config& configure(caf::actor_system_config& config, const SystemOptions& options) {
  config.set("scheduler.policy", caf::atom("sharing"));  // an idle process sleeps; work stealing polls
  config.set("scheduler.max-threads", static_cast<std::size_t>(options.actor_threads));
  return config;
}

class ActorTree final : public System {
 public:
  ActorTree(std::shared_ptr<const ServedModel> served, const SystemOptions& options, ExecutorFactory factory,
            FatalWatchdog::OnExit on_exit)
      : metrics_(
            std::make_shared<Metrics>(served->names.empty() ? "" : served->names.front(), served->backend)),
        watchdog_(std::move(on_exit)),
        encode_queue_(std::make_shared<EncodeQueue>(options.max_queue + 1)),
        actors_(configure(config_, options)),
        health_(actors_.spawn(health_actor, HealthSettings{served, options, std::move(factory), metrics_,
                                                           &word_, &watchdog_, encode_queue_})),
        engine_(std::move(served), word_, health_, encode_queue_) {}

  ~ActorTree() override { caf::anon_send_exit(health_, caf::exit_reason::user_shutdown); }

  Engine& engine() override { return engine_; }
  const HealthWord& health() const override { return word_; }
  std::string metrics_text() const override { return metrics_->text(); }
  void drain() override { caf::anon_send<caf::message_priority::high>(health_, Drain{}); }

 private:
  // Destroyed from the bottom up: no handle may outlive the actor system, which waits for every actor to be
  // gone; what the actors point to outlives it.
  HealthWord word_;
  std::shared_ptr<Metrics> metrics_;
  FatalWatchdog watchdog_;
  std::shared_ptr<EncodeQueue> encode_queue_;
  caf::actor_system_config config_;
  caf::actor_system actors_;
  HealthHandle health_;
  ActorEngine engine_;
};

}  // namespace

std::unique_ptr<System> System::start(std::shared_ptr<const ServedModel> served, const SystemOptions& options,
                                      ExecutorFactory factory,
                                      std::function<void(int code, std::string why)> on_exit) {
  return std::make_unique<ActorTree>(std::move(served), options, std::move(factory), std::move(on_exit));
}

}  // namespace actors
