#include "actors/encoder/encoder_actor.h"

#include <utility>

namespace actors {

EncoderHandle::behavior_type encoder_actor(EncoderHandle::pointer, std::shared_ptr<ActorDrill> drill) {
  return {[drill = std::move(drill)](const EncodeJob& job) {
    die_if_ordered(drill, Role::encoder);
    job.run();
  }};
}

}  // namespace actors
