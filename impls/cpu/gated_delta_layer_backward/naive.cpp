// cpu/naive of gated_delta_layer_backward: the steps' cpu/naive, the convolution's cpu/direct.
#include "composed/layer_backward_implementation.h"

namespace gdn::cpu {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_naive();
const Implementation& gated_rms_norm_backward_naive();
const Implementation& gated_delta_backward_naive();
const Implementation& causal_conv1d_backward_direct();

const Implementation& gated_delta_layer_backward_naive() {
  static const LayerBackwardImplementation implementation(
      {.convolution = causal_conv1d_direct(),
       .recurrence = gated_delta_naive(),
       .norm_gradients = gated_rms_norm_backward_naive(),
       .recurrence_gradients = gated_delta_backward_naive(),
       .convolution_gradients = causal_conv1d_backward_direct(),
       .examples = {
           "gated_delta_layer_backward:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
           "gated_delta_layer_backward:heads=1/"
           "2,dim=16,seq=9+0+2,dtype=bf16,gate=logits,beta=logit,gated_norm=1,slots=padding",
           "gated_delta_layer_backward:heads=1/2,dim=16,seq=9+2,dtype=f32,ht=0,window=none"}});
  return implementation;
}

}  // namespace gdn::cpu
