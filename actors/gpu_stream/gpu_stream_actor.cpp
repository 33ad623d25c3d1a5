#include "actors/gpu_stream/gpu_stream_actor.h"

#include <numeric>
#include <utility>
#include <variant>

namespace actors {
namespace {

using Self = GpuStreamSelf::stateful_pointer<GpuStreamShell>;

/// Everybody is told first: giving up a lost device's memory may take for ever.
void lose(Self self, model::FatalError error) {
  auto& shell = self->state;
  self->send<caf::message_priority::high>(shell.settings.health, EngineLost{error});
  self->send<caf::message_priority::high>(shell.settings.scheduler, EngineLost{std::move(error)});
  shell.settings.probe->detach();
  shell.executor.reset();
}

model::Result<model::StepResult, model::FatalError> execute(GpuStreamShell& shell,
                                                            const model::StepPlan& plan) {
  shell.settings.probe->plan_started();
  auto result = shell.executor->step(plan);
  shell.settings.probe->plan_done();
  return result;
}

CanaryOutcome run(GpuStreamShell& shell, const CanaryPlace& place, model::StepNumber number) {
  return run_canary(shell.settings.canary, place, number,
                    [&shell](const model::StepPlan& plan) { return execute(shell, plan); });
}

void fail_load(Self self, std::vector<std::string> problems) {
  self->send(self->state.settings.health, LoadFailed{std::move(problems)});
}

void load(Self self) {
  auto& shell = self->state;
  auto loaded = shell.settings.factory(*shell.settings.word);
  if (!loaded.ok()) return fail_load(self, std::move(loaded).error().problems);
  shell.executor = *std::move(loaded);
  shell.settings.probe->attach(shell.executor.get());

  shell.settings.word->set_stage("canary");
  CanaryPlace place;  // nobody has anything yet
  place.pages.resize(static_cast<std::size_t>(shell.settings.canary.num_pages()));
  std::iota(place.pages.begin(), place.pages.end(), 0);
  auto said = run(shell, place, model::kStartupStep);
  if (auto* fatal = std::get_if<model::FatalError>(&said)) return lose(self, std::move(*fatal));
  if (auto* wrong = std::get_if<CanaryWrong>(&said)) return fail_load(self, {"canary: " + wrong->what});
  shell.first_tokens = std::get<std::vector<model::TokenId>>(std::move(said));
  self->send(shell.settings.scheduler, AttachGpuStream{caf::actor_cast<GpuStreamHandle>(self)});
  self->send(shell.settings.health, EngineUp{});
}

void end_canary(Self self, CanaryEnded::Outcome outcome, std::string what) {
  self->send(self->state.settings.health, CanaryEnded{outcome, what});
  self->send(self->state.settings.scheduler, CanaryEnded{outcome, std::move(what)});
}

void run_again(Self self, const CanaryPlace& place) {
  auto& shell = self->state;
  if (shell.executor == nullptr) return;  // lost: everybody was told
  auto said = run(shell, place, model::kIdleCanaryStep);
  if (auto* fatal = std::get_if<model::FatalError>(&said)) return lose(self, std::move(*fatal));
  if (auto* wrong = std::get_if<CanaryWrong>(&said))
    return end_canary(self, CanaryEnded::Outcome::failed, std::move(wrong->what));
  if (std::get<std::vector<model::TokenId>>(said) != shell.first_tokens)
    return end_canary(self, CanaryEnded::Outcome::failed, "other tokens than when the process began");
  end_canary(self, CanaryEnded::Outcome::passed, "");
}

void execute_plan(Self self, const model::StepPlan& plan) {
  auto& shell = self->state;
  if (shell.executor == nullptr) return;  // lost: everybody was told
  if (shell.settings.drill != nullptr) shell.settings.drill->step_begins();
  die_if_ordered(shell.settings.drill, Role::gpu_stream);
  auto result = execute(shell, plan);
  if (!result.ok()) return lose(self, std::move(result).error());
  self->send(shell.settings.scheduler,
             StepDone{std::make_shared<const model::StepResult>(*std::move(result))});
}

}  // namespace

GpuStreamShell::~GpuStreamShell() {
  if (settings.probe != nullptr) settings.probe->detach();
}

GpuStreamSelf::behavior_type gpu_stream_actor(Self self, GpuStreamSettings settings) {
  self->state.settings = std::move(settings);
  self->send(self, LoadEngine{});
  return {
      [self](const ExecutePlan& message) { execute_plan(self, *message.plan); },
      [self](const RunCanary& message) { run_again(self, message.place); },
      [self](const LoadEngine&) { load(self); },
  };
}

}  // namespace actors
