// hip/recurrent of gated_delta_layer_backward: the recurrence and its gradients by hip/recurrent, the convolution
// by hip/direct, the norm's gradients by hip/rows.
#include "composed/layer_backward_implementation.h"

namespace gdn::hip {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_recurrent();
const Implementation& gated_rms_norm_backward_rows();
const Implementation& gated_delta_backward_recurrent();
const Implementation& causal_conv1d_backward_direct();

const Implementation& gated_delta_layer_backward_recurrent() {
  static const LayerBackwardImplementation implementation(
      {.convolution = causal_conv1d_direct(),
       .recurrence = gated_delta_recurrent(),
       .norm_gradients = gated_rms_norm_backward_rows(),
       .recurrence_gradients = gated_delta_backward_recurrent(),
       .convolution_gradients = causal_conv1d_backward_direct(),
       .examples = {"gated_delta_layer_backward:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
                    "gated_delta_layer_backward:heads=1/"
                    "2,dim=64,seq=4+2,dtype=bf16,state=bf16,slots=padding,gate=logits,beta=logit,"
                    "gated_norm=1"}});
  return implementation;
}

}  // namespace gdn::hip
