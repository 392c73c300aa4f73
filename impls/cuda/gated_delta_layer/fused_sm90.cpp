// cuda/fused_sm90 of gated_delta_layer: cuda/direct of causal_conv1d into the token dtype, then
// cuda/fused_sm90 of gated_delta, whose tensor cores take that.
#include "composed/chain_implementation.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_rms_norm_rows();
const Implementation& gated_delta_fused_sm90_planned();

const Implementation& gated_delta_layer_fused_sm90() {
  static const ChainImplementation implementation(
      gated_delta_layer_chain(),
      {.steps = {&causal_conv1d_direct(), &gated_delta_fused_sm90_planned(),
                 &gated_rms_norm_rows()},
       .main_step = 1,
       .hand_on = ChainMembers::HandOn::token_dtype,
       .examples = {
           "gated_delta_layer:heads=1/2,dim=128,seq=70+3,h0=normal,dtype=bf16",
           "gated_delta_layer:heads=1/2,dim=128,seq=20+3,dtype=f16,gate=logits,gated_norm=1"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
