#include "actors/gpu_stream/gpu_stream_actor.h"

#include <utility>

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

void fail_load(Self self, std::vector<std::string> problems) {
  self->send(self->state.settings.health, LoadFailed{std::move(problems)});
}

void load(Self self) {
  auto& shell = self->state;
  auto loaded = shell.settings.factory(*shell.settings.word);
  if (!loaded.ok()) return fail_load(self, std::move(loaded).error().problems);
  shell.executor = *std::move(loaded);
  shell.settings.probe->attach(shell.executor.get());

  shell.settings.word->set_stage("warm-up");
  auto warm = execute(shell, warm_up_plan());
  if (!warm.ok()) return lose(self, std::move(warm).error());
  for (const auto& outcome : warm->outcomes) {
    if (!outcome.done.ok()) return fail_load(self, {"warm-up: " + outcome.done.error().what});
  }
  self->send(shell.settings.scheduler, AttachGpuStream{caf::actor_cast<GpuStreamHandle>(self)});
  self->send(shell.settings.health, EngineUp{});
}

}  // namespace

GpuStreamShell::~GpuStreamShell() {
  if (settings.probe != nullptr) settings.probe->detach();
}

model::StepPlan warm_up_plan() {
  model::StepPlan plan;  // number 0; the scheduler's begin at 1
  plan.resets = {0};
  model::Feed feed;  // sequence 0, which is nobody's
  feed.slot = 0;
  feed.form = model::Form::prefill;
  feed.known = {0};
  feed.new_pages = {0};
  feed.logits = {0, 1};
  feed.prompt_tokens = 1;
  model::SamplingParams greedy;
  greedy.temperature = 0.0F;
  feed.sampling = std::make_shared<const model::SamplingParams>(greedy);
  plan.feeds = {feed};
  return plan;
}

GpuStreamSelf::behavior_type gpu_stream_actor(Self self, GpuStreamSettings settings) {
  self->state.settings = std::move(settings);
  self->send(self, LoadEngine{});
  return {
      [self](const ExecutePlan& message) {
        if (self->state.executor == nullptr) return;  // lost: everybody was told
        auto result = execute(self->state, *message.plan);
        if (!result.ok()) return lose(self, std::move(result).error());
        self->send(self->state.settings.scheduler,
                   StepDone{std::make_shared<const model::StepResult>(*std::move(result))});
      },
      [self](const LoadEngine&) { load(self); },
  };
}

}  // namespace actors
