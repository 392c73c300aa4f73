// cuda/decode of gated_delta_layer: cuda/direct of causal_conv1d, then cuda/decode of gated_delta.
#include "composed/chain_implementation.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_rms_norm_rows();
const Implementation& gated_delta_decode();

const Implementation& gated_delta_layer_decode() {
  static const ChainImplementation implementation(
      gated_delta_layer_chain(),
      {.steps = {&causal_conv1d_direct(), &gated_delta_decode(), &gated_rms_norm_rows()},
       .main_step = 1,
       .hand_on = ChainMembers::HandOn::float32,
       .examples = {
           "gated_delta_layer:heads=1/2,dim=64,seq=5x1,h0=normal,dtype=bf16,layout=vk",
           "gated_delta_layer:heads=1/2,dim=64,seq=3+1,dtype=f32,gate=logits,gated_norm=1"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
