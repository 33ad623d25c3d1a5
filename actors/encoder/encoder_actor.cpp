#include "actors/encoder/encoder_actor.h"

namespace actors {

EncoderHandle::behavior_type encoder_actor(EncoderHandle::pointer) {
  return {[](const EncodeJob& job) { job.run(); }};
}

}  // namespace actors
