// cuda/chunkwise of gated_delta_layer_backward: the recurrence and its gradients by cuda/chunkwise, the
// convolution by cuda/direct, the norm's gradients by cuda/rows.
#include "composed/layer_backward_implementation.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_chunkwise();
const Implementation& gated_rms_norm_backward_rows();
const Implementation& gated_delta_backward_chunkwise();
const Implementation& causal_conv1d_backward_direct();

const Implementation& gated_delta_layer_backward_chunkwise() {
  static const LayerBackwardImplementation implementation(
      {.convolution = causal_conv1d_direct(),
       .recurrence = gated_delta_chunkwise(),
       .norm_gradients = gated_rms_norm_backward_rows(),
       .recurrence_gradients = gated_delta_backward_chunkwise(),
       .convolution_gradients = causal_conv1d_backward_direct(),
       .examples = {
           "gated_delta_layer_backward:heads=1/2,dim=64x24,seq=17+3,dtype=f32,h0=normal,chunk=16",
           "gated_delta_layer_backward:heads=1/"
           "2,dim=64x24,seq=9+0+2,dtype=bf16,gate=logits,beta=logit,gated_norm=1,slots=padding"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
