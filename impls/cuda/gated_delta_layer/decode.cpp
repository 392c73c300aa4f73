// cuda/decode of gated_delta_layer: cuda/direct of causal_conv1d, then cuda/decode of gated_delta.
//
// Of few tokens a sequence the steps are short, and what lies between them counts: the end of one, where blocks become
// few, and the start of the next. On compute capability 9.0 the recurrence's blocks, and those of the norm, come while
// the kernel before drains, ask for what it does not write (states; z) and wait for it before they read anything else
// and before they write. Every block waits, so that a kernel has ended only when all before it have: the next call's
// first kernel is launched as any other and waits for the last one alone.
#include "composed/chain_implementation.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_rms_norm_rows_behind();
const Implementation& gated_delta_decode_behind();

const Implementation& gated_delta_layer_decode() {
  static const ChainImplementation implementation(
      gated_delta_layer_chain(),
      {.steps = {&causal_conv1d_direct(), &gated_delta_decode_behind(),
                 &gated_rms_norm_rows_behind()},
       .main_step = 1,
       .hand_on = ChainMembers::HandOn::float32,
       .examples = {
           "gated_delta_layer:heads=1/2,dim=64,seq=5x1,h0=normal,dtype=bf16,layout=vk",
           "gated_delta_layer:heads=1/2,dim=64,seq=3+1,dtype=f32,gate=logits,gated_norm=1"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
