// cuda/chunkwise_sm90 of gated_delta_layer_backward: the recurrence's gradients by cuda/chunkwise_sm90,
// what the norm's need of the recurrence by cuda/fused_sm90, the convolution by cuda/direct, the norm's
// gradients by cuda/rows.
#include "composed/layer_backward_implementation.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_fused_sm90_planned();
const Implementation& gated_rms_norm_backward_rows();
const Implementation& gated_delta_backward_chunkwise_sm90();
const Implementation& causal_conv1d_backward_direct();

const Implementation& gated_delta_layer_backward_chunkwise_sm90() {
  static const LayerBackwardImplementation implementation(
      {.convolution = causal_conv1d_direct(),
       .recurrence = gated_delta_fused_sm90_planned(),
       .norm_gradients = gated_rms_norm_backward_rows(),
       .recurrence_gradients = gated_delta_backward_chunkwise_sm90(),
       .convolution_gradients = causal_conv1d_backward_direct(),
       .examples = {"gated_delta_layer_backward:heads=1/1,dim=128,seq=9+3,dtype=bf16,h0=normal",
                    "gated_delta_layer_backward:heads=1/"
                    "2,dim=128,seq=9+0+70,dtype=bf16,slots=padding,gated_norm=1"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
