// cuda/chunkwise_sm90_recomputed of gated_delta_training: cuda/fused_sm90 of gated_delta, then cuda/chunkwise_sm90 of
// gated_delta_backward, which makes the states again. Between the two calls nothing need be kept but their arguments.
#include "composed/training_implementation.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_fused_sm90_planned();
const Implementation& gated_delta_backward_chunkwise_sm90();

const Implementation& gated_delta_training_chunkwise_sm90_recomputed() {
  static const TrainingImplementation implementation(
      {.name = "cuda/chunkwise_sm90_recomputed",
       .forward = gated_delta_fused_sm90_planned(),
       .backward = gated_delta_backward_chunkwise_sm90(),
       .examples = {
           "gated_delta_training:heads=1/1,dim=128,seq=9+3,dtype=bf16,h0=normal",
           "gated_delta_training:heads=1/2,dim=128,seq=9+0+2,dtype=bf16,slots=padding,norm=1"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
