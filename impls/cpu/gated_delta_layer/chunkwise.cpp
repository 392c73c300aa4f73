// cpu/chunkwise of gated_delta_layer: cpu/direct of causal_conv1d, then cpu/chunkwise of
// gated_delta.
#include "composed/chain_implementation.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn::cpu {

const Implementation& causal_conv1d_direct();
const Implementation& gated_rms_norm_naive();
const Implementation& gated_delta_chunkwise();

const Implementation& gated_delta_layer_chunkwise() {
  static const ChainImplementation implementation(
      gated_delta_layer_chain(),
      {.steps = {&causal_conv1d_direct(), &gated_delta_chunkwise(), &gated_rms_norm_naive()},
       .main_step = 1,
       .hand_on = ChainMembers::HandOn::float32,
       .examples = {
           "gated_delta_layer:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
           "gated_delta_layer:heads=1/2,dim=64,seq=20+3,dtype=bf16,gate=logits,gated_norm=1"}});
  return implementation;
}

}  // namespace gdn::cpu
