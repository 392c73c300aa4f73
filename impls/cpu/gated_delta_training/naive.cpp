// cpu/naive of gated_delta_training: cpu/naive of gated_delta, then cpu/naive of gated_delta_backward.
#include "composed/training_implementation.h"

namespace gdn::cpu {

const Implementation& gated_delta_naive();
const Implementation& gated_delta_backward_naive();

const Implementation& gated_delta_training_naive() {
  static const TrainingImplementation implementation(
      {.forward = gated_delta_naive(),
       .backward = gated_delta_backward_naive(),
       .examples = {"gated_delta_training:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
                    "gated_delta_training:heads=1/"
                    "2,dim=16,seq=9+0+2,dtype=bf16,gate=logits,beta=logit,norm=1,slots=padding",
                    "gated_delta_training:heads=1/2,dim=16,seq=9+2,dtype=f32,h0=normal,ht=0"}});
  return implementation;
}

}  // namespace gdn::cpu
