#include "actors/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <string_view>

#include "actors/metrics/metric_names.h"

namespace actors {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = prometheus::Labels;
namespace names = metric_names;

const Buckets kFirstTokenBuckets{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                 1.0,   2.5,   5.0,  7.5,  10,   20,   40,   80,  160,  640};
const Buckets kInterTokenBuckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                 0.3,   0.4,    0.5,   0.75, 1.0,   2.5,  5.0,   10,  20,   40};
const Buckets kRequestBuckets{0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10, 15,
                              20,  30,  40,  50, 60,  120, 240, 480, 960};
const Buckets kStepBuckets{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                           0.25,   0.5,   1,      2.5,   5,    10,    30};
const Buckets kOverheadBuckets{0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005,
                               0.001,   0.0025,   0.005,   0.01,   0.05};

constexpr std::array kReasons{model::FinishReason::stop,       model::FinishReason::length,
                              model::FinishReason::tool_calls, model::FinishReason::timeout,
                              model::FinishReason::error,      model::FinishReason::cancelled};
constexpr std::array<const char*, 3> kStepKinds{"prefill", "decode", "mixed"};
constexpr std::array<const char*, 2> kRowResults{"hit", "miss"};
constexpr std::array<const char*, 5> kFaultKinds{"step_error", "device_lost", "no_progress", "actor_death",
                                                 "canary"};

/// The first is the rollback that was done, the others are the reasons of one that was not, in their order.
constexpr std::array<const char*, 7> kRollbackOutcomes{
    "done", "disabled", "cap_reached", "no_boundary", "no_snapshot", "no_aux_snapshot", "already_sent"};

std::size_t rollback_outcome(std::optional<DeclineReason> declined) {
  return declined ? 1 + static_cast<std::size_t>(*declined) : 0;
}

std::size_t step_kind(const model::StepStats& stats) {
  if (stats.decode_rows == 0) return 0;
  return stats.prefill_rows == 0 ? 1 : 2;
}

}  // namespace

struct Metrics::Series {
  Series(const std::string& model_name, const BackendInfo& backend) : model{{"model_name", model_name}} {
    prometheus::BuildGauge()
        .Name(names::kBackendInfo)
        .Help("Where the model runs; always 1.")
        .Register(registry)
        .Add(with_model({{"backend", backend.name},
                         {"device", backend.device},
                         {"compute_capability", backend.compute_capability},
                         {"libraries", backend.libraries}}))
        .Set(1.0);
    for (std::size_t i = 0; i < kReasons.size(); ++i) {
      ended[i] = &counter(names::kRequestSuccess, "Choices that ended, by reason; abort: the client left.",
                          {{"finished_reason", std::string(model::to_string(kReasons[i]))}});
    }
    for (std::size_t i = 0; i < kStepKinds.size(); ++i) {
      steps[i] =
          &histogram(names::kStepSeconds, "Device time of a step.", kStepBuckets, {{"kind", kStepKinds[i]}});
    }
    for (std::size_t i = 0; i < kRollbackOutcomes.size(); ++i) {
      rollbacks[i] = &counter(names::kRollbacks, "What became of answers that began to repeat themselves.",
                              {{"outcome", kRollbackOutcomes[i]}});
    }
    for (std::size_t i = 0; i < kFaultKinds.size(); ++i) {
      faults[i] = &counter(names::kFaults, "Faults, by kind.", {{"kind", kFaultKinds[i]}});
    }
    for (std::size_t i = 0; i < kRowResults.size(); ++i) {
      ple_rows[i] =
          &counter(names::kPleRows, "N-gram rows of tables that stay in their files, by the cache's answer.",
                   {{"result", kRowResults[i]}});
    }
  }

  Labels with_model(Labels labels) const {
    labels.insert(model.begin(), model.end());
    return labels;
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(model);
  }
  prometheus::Counter& counter(const char* name, const char* help, Labels labels = {}) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(
        with_model(std::move(labels)));
  }
  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets,
                                   Labels labels = {}) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
        with_model(std::move(labels)), buckets);
  }

  Labels model;
  prometheus::Registry registry;
  prometheus::Gauge& running =
      gauge(names::kRequestsRunning, "Sequences that are being decoded or prefilled.");
  prometheus::Gauge& waiting = gauge(names::kRequestsWaiting, "Sequences in the queue.");
  prometheus::Gauge& kv_usage = gauge(names::kKvCacheUsage, "KV pages in use; 1 is all of them.");
  prometheus::Gauge& health =
      gauge(names::kHealthState, "0 starting, 1 ready, 2 draining, 3 failing, 4 exited.");
  prometheus::Histogram& first_token =
      histogram(names::kTimeToFirstToken, "From a request's arrival to its first token.", kFirstTokenBuckets);
  prometheus::Histogram& inter_token =
      histogram(names::kInterToken, "Between tokens of a choice.", kInterTokenBuckets);
  prometheus::Histogram& request =
      histogram(names::kRequestLatency, "From a request's arrival to its end.", kRequestBuckets);
  prometheus::Histogram& overhead =
      histogram(names::kStepOverhead, "From one plan to the next answer, less the device's own time.",
                kOverheadBuckets);
  prometheus::Counter& prompt_tokens = counter(names::kPromptTokens, "Prompt tokens of admitted requests.");
  /// Shapes are the weights' and appear as they are refused.
  prometheus::Family<prometheus::Counter>& gemm_fallbacks =
      prometheus::BuildCounter()
          .Name(names::kGemmFallbacks)
          .Help(
              "Matrix products that took a slower path because a library refused them, by N x K and result.")
          .Register(registry);
  prometheus::Counter& generated_tokens = counter(names::kGenerationTokens, "Tokens handed to clients.");
  prometheus::Counter& repetition_hits =
      counter(names::kWatchdogHits, "Loops that a watchdog found, by guard.", {{"guard", "repetition"}});
  std::array<prometheus::Counter*, kReasons.size()> ended{};
  std::array<prometheus::Counter*, kRollbackOutcomes.size()> rollbacks{};
  std::array<prometheus::Histogram*, kStepKinds.size()> steps{};
  std::array<prometheus::Counter*, kFaultKinds.size()> faults{};
  std::array<prometheus::Counter*, kRowResults.size()> ple_rows{};
  prometheus::Gauge& ple_pinned =
      gauge(names::kPlePinned, "Slots of n-gram row caches that the last step pinned.");
};

Metrics::Metrics(const std::string& model_name, const BackendInfo& backend)
    : series_(std::make_unique<Series>(model_name, backend)) {}
Metrics::~Metrics() = default;

void Metrics::set_load(int running, int waiting, double kv_usage) {
  series_->running.Set(running);
  series_->waiting.Set(waiting);
  series_->kv_usage.Set(kv_usage);
}

void Metrics::set_health(ProcessState state) { series_->health.Set(static_cast<double>(state)); }

void Metrics::observe_first_token(double seconds) { series_->first_token.Observe(seconds); }

void Metrics::observe_inter_token(double seconds, int tokens) {
  for (int i = 0; i < tokens; ++i) series_->inter_token.Observe(seconds / tokens);
}

void Metrics::observe_request(double seconds) { series_->request.Observe(seconds); }

void Metrics::count_prompt_tokens(int tokens) { series_->prompt_tokens.Increment(tokens); }

void Metrics::count_generated_tokens(int tokens) { series_->generated_tokens.Increment(tokens); }

void Metrics::count_watchdog_hit() { series_->repetition_hits.Increment(); }

void Metrics::count_rollback(std::optional<DeclineReason> declined) {
  series_->rollbacks[rollback_outcome(declined)]->Increment();
}

void Metrics::count_end(model::FinishReason reason) {
  for (std::size_t i = 0; i < kReasons.size(); ++i) {
    if (kReasons[i] == reason) series_->ended[i]->Increment();
  }
}

void Metrics::observe_step(const model::StepStats& stats) {
  series_->steps[step_kind(stats)]->Observe(stats.seconds);
  for (const auto& of_shape : stats.fallbacks) {
    series_->gemm_fallbacks.Add(series_->with_model({{"shape", of_shape.shape}}))
        .Increment(static_cast<double>(of_shape.count));
  }
  series_->ple_rows[0]->Increment(static_cast<double>(stats.ple_hits));
  series_->ple_rows[1]->Increment(static_cast<double>(stats.ple_misses));
  series_->ple_pinned.Set(static_cast<double>(stats.ple_pinned));
}

void Metrics::observe_step_overhead(double seconds) { series_->overhead.Observe(seconds); }

void Metrics::count_fault(FaultKind kind) { series_->faults[static_cast<std::size_t>(kind)]->Increment(); }

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(series_->registry.Collect());
}

}  // namespace actors
