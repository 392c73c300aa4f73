// hip/recurrent of gated_delta_training: hip/recurrent of gated_delta, then hip/recurrent of
// gated_delta_backward. HIP has no kernel that copies rows of a pool, so that no final state is wanted.
#include "composed/training_implementation.h"

namespace gdn::hip {

const Implementation& gated_delta_recurrent();
const Implementation& gated_delta_backward_recurrent();

const Implementation& gated_delta_training_recurrent() {
  static const TrainingImplementation implementation(
      {.forward = gated_delta_recurrent(),
       .backward = gated_delta_backward_recurrent(),
       .copies_rows = false,
       .examples = {"gated_delta_training:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal,ht=0",
                    "gated_delta_training:heads=1/"
                    "2,dim=64,seq=4+2,dtype=bf16,gate=logits,beta=logit,norm=1,ht=0"}});
  return implementation;
}

}  // namespace gdn::hip
