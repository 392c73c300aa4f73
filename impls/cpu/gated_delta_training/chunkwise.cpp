// cpu/chunkwise of gated_delta_training: cpu/chunkwise of gated_delta, then cpu/chunkwise of
// gated_delta_backward.
#include "composed/training_implementation.h"

namespace gdn::cpu {

const Implementation& gated_delta_chunkwise();
const Implementation& gated_delta_backward_chunkwise();

const Implementation& gated_delta_training_chunkwise() {
  static const TrainingImplementation implementation(
      {.forward = gated_delta_chunkwise(),
       .backward = gated_delta_backward_chunkwise(),
       .examples = {
           "gated_delta_training:heads=1/2,dim=16x24,seq=70+3,dtype=f32,h0=normal",
           "gated_delta_training:heads=1/"
           "2,dim=32,seq=40+0+2,dtype=bf16,gate=logits,beta=logit,norm=1,slots=padding,chunk=16",
           "gated_delta_training:heads=1/2,dim=16,seq=9+2,dtype=f32,h0=normal,ht=0"}});
  return implementation;
}

}  // namespace gdn::cpu
