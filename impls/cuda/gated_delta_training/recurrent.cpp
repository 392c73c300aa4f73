// cuda/recurrent of gated_delta_training: cuda/recurrent of gated_delta, then cuda/recurrent of
// gated_delta_backward.
#include "composed/training_implementation.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_recurrent();
const Implementation& gated_delta_backward_recurrent();

const Implementation& gated_delta_training_recurrent() {
  static const TrainingImplementation implementation(
      {.forward = gated_delta_recurrent(),
       .backward = gated_delta_backward_recurrent(),
       .examples = {"gated_delta_training:heads=1/2,dim=64x8,seq=9+3,dtype=f32,h0=normal",
                    "gated_delta_training:heads=1/"
                    "2,dim=64,seq=9+0+2,dtype=bf16,gate=logits,beta=logit,norm=1,slots=padding"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
