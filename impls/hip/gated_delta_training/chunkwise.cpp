// hip/chunkwise of gated_delta_training: hip/chunkwise of gated_delta, then hip/chunkwise of
// gated_delta_backward.
#include "composed/training_implementation.h"

namespace gdn::hip {

const Implementation& gated_delta_chunkwise();
const Implementation& gated_delta_backward_chunkwise();

const Implementation& gated_delta_training_chunkwise() {
  static const TrainingImplementation implementation(
      {.forward = gated_delta_chunkwise(),
       .backward = gated_delta_backward_chunkwise(),
       .examples = {
           "gated_delta_training:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
           "gated_delta_training:heads=1/"
           "2,dim=64x24,seq=9+0+2,dtype=bf16,gate=logits,beta=logit,norm=1,slots=padding"}});
  return implementation;
}

}  // namespace gdn::hip
