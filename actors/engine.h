#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/generate_request.h"
#include "actors/response_sink.h"
#include "model/arch/known_answer.h"
#include "model/arch/model_config.h"
#include "model/plan/serve_plan.h"
#include "model/repetition/token_traits.h"

namespace actors {

/// What http/ knows of everything behind it, without a CAF header. Every member may be called from the I/O
/// threads and returns at once.
class Engine {
 public:
  virtual ~Engine() = default;

  using Ticket = std::uint64_t;
  /// Spawns the request actor. The sink hears what becomes of it.
  virtual Ticket submit(std::shared_ptr<const GenerateRequest> request,
                        std::unique_ptr<ResponseSink> sink) = 0;
  /// The client of a ticket left: its pages are free within one step. Unknown and finished tickets are
  /// ignored.
  virtual void client_gone(Ticket ticket) = 0;
  /// The connection's buffer is full / has drained: the request's sequences pause and resume.
  virtual void pause(Ticket ticket) = 0;
  virtual void resume(Ticket ticket) = 0;

  /// Renders and encodes on the encoder's thread; `done` is called once, from another thread, unless
  /// `unwanted` became true before: with an error when the encoder dies of it, too. Refused (overloaded, at
  /// once) when too many texts wait.
  struct Encoded {
    std::string text;
    std::vector<model::TokenId> ids;
  };
  virtual void encode(std::shared_ptr<const Prompt> prompt, std::shared_ptr<const std::atomic<bool>> unwanted,
                      std::function<void(model::Result<Encoded, model::RequestError>)> done) = 0;
};

/// The process as probes see it. One atomic word (plus an immutable reason), written by the health actor
/// alone, read without asking anybody.
enum class ProcessState : std::uint8_t { starting, ready, draining, failing, exited };
struct HealthView {
  ProcessState state = ProcessState::starting;
  std::string stage;      ///< while starting: "loading weights", "canary"
  double progress = 0.0;  ///< of the stage
  std::string reason;     ///< while failing
};
/// To a request that cannot be taken in this state.
model::RequestError refusal(const HealthView& view);

class HealthWord {
 public:
  HealthView view() const;
  // Writers: the health actor (and, for stage progress, the thread that loads).
  void set_stage(std::string stage);
  void set_progress(double fraction);
  void set_ready();
  void set_draining();
  void set_failing(std::string reason);  ///< the first reason stays
  void set_exited();
  ProcessState state() const { return state_.load(std::memory_order_acquire); }

 private:
  std::atomic<ProcessState> state_{ProcessState::starting};
  std::atomic<double> progress_{0.0};
  // Readers follow a pointer to a text that is never changed and lives as long as the word; there are few (a
  // stage each, one reason).
  std::atomic<const std::string*> stage_{nullptr};
  std::atomic<const std::string*> reason_{nullptr};
  std::mutex writers_;
  std::vector<std::unique_ptr<const std::string>> texts_;
};

/// Where the model runs, for /version, metrics and the log.
struct BackendInfo {
  std::string name = "cpu";
  std::string device;
  std::string compute_capability;  ///< of a GPU: "9.0"
  std::string libraries;           ///< of a GPU: versions of what it is driven with
};

/// --content-loop-watchdog and what belongs to it.
struct RepetitionWatchdog {
  bool on = false;  ///< else only requests that ask for it are watched, and nothing is rolled back
  std::int32_t max_rollbacks = 2;
  std::int32_t max_points = 4;  ///< of one sequence
};

/// What is served: fixed once the config, tokenizer and template were read. Shared by actors (encode, decode)
/// and http (validation, /v1/models).
struct ServedModel {
  std::vector<std::string> names;  ///< the first is the id, the rest aliases
  std::int64_t created = 0;        ///< unix seconds
  model::ModelConfig config;
  model::GenerationDefaults generation;
  model::ServePlan plan;
  BackendInfo backend;
  std::optional<model::KnownAnswer> known_answer;                  ///< what the canary has to say
  std::vector<model::TokenId> stop_tokens;                         ///< end a generation unless ignore_eos
  std::shared_ptr<const model::text::Tokenizer> tokenizer;         ///< null: token ids only
  std::shared_ptr<const model::text::ChatTemplate> chat_template;  ///< null: none
  RepetitionWatchdog watchdog;
  std::shared_ptr<const model::repetition::TokenTraits> token_traits;  ///< null: without a tokenizer
};

}  // namespace actors
