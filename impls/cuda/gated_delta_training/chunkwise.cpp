// cuda/chunkwise of gated_delta_training: cuda/chunkwise of gated_delta, then cuda/chunkwise of
// gated_delta_backward.
#include "composed/training_implementation.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_chunkwise();
const Implementation& gated_delta_backward_chunkwise();

const Implementation& gated_delta_training_chunkwise() {
  static const TrainingImplementation implementation(
      {.forward = gated_delta_chunkwise(),
       .backward = gated_delta_backward_chunkwise(),
       .examples = {
           "gated_delta_training:heads=1/2,dim=64x24,seq=17+3,dtype=f32,h0=normal,chunk=16",
           "gated_delta_training:heads=1/"
           "2,dim=64x24,seq=9+0+2,dtype=bf16,gate=logits,beta=logit,norm=1,slots=padding"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
