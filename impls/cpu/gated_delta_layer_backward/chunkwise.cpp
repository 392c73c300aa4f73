// cpu/chunkwise of gated_delta_layer_backward: the recurrence and its gradients by cpu/chunkwise, the
// convolution by cpu/direct, the norm's gradients by cpu/naive.
#include "composed/layer_backward_implementation.h"

namespace gdn::cpu {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_chunkwise();
const Implementation& gated_rms_norm_backward_naive();
const Implementation& gated_delta_backward_chunkwise();
const Implementation& causal_conv1d_backward_direct();

const Implementation& gated_delta_layer_backward_chunkwise() {
  static const LayerBackwardImplementation implementation(
      {.convolution = causal_conv1d_direct(),
       .recurrence = gated_delta_chunkwise(),
       .norm_gradients = gated_rms_norm_backward_naive(),
       .recurrence_gradients = gated_delta_backward_chunkwise(),
       .convolution_gradients = causal_conv1d_backward_direct(),
       .examples = {
           "gated_delta_layer_backward:heads=1/2,dim=16x24,seq=70+3,dtype=f32,h0=normal",
           "gated_delta_layer_backward:heads=1/"
           "2,dim=32,seq=40+0+2,dtype=bf16,gate=logits,beta=logit,gated_norm=1,slots=padding,"
           "chunk=16",
           "gated_delta_layer_backward:heads=1/2,dim=16,seq=9+2,dtype=f32,ht=0,window=none"}});
  return implementation;
}

}  // namespace gdn::cpu
