// hip/recurrent of gated_delta_training: hip/recurrent of gated_delta, then hip/recurrent of
// gated_delta_backward.
#include "composed/training_implementation.h"

namespace gdn::hip {

const Implementation& gated_delta_recurrent();
const Implementation& gated_delta_backward_recurrent();

const Implementation& gated_delta_training_recurrent() {
  static const TrainingImplementation implementation(
      {.forward = gated_delta_recurrent(),
       .backward = gated_delta_backward_recurrent(),
       .examples = {
           "gated_delta_training:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
           "gated_delta_training:heads=1/"
           "2,dim=64,seq=4+2,dtype=bf16,state=bf16,slots=padding,gate=logits,beta=logit,norm=1"}});
  return implementation;
}

}  // namespace gdn::hip
