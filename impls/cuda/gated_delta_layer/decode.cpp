// cuda/decode of gated_delta_layer: cuda/direct of causal_conv1d, then cuda/decode of gated_delta.
//
// Of few tokens a sequence the steps are short, and what lies between them counts: the end of one, where blocks become
// few, and the start of the next. On compute capability 9.0 the recurrence's blocks, and those of the norm, come while
// the kernel before drains, ask for what it does not write (states; z) and wait for it before they read anything else
// and before they write. Every block waits, so that a kernel has ended only when all before it have: the next call's
// first kernel is launched as any other and waits for the last one alone.
//
// Reached, H200, `gdnbench sweep`, cold L2, 16/32 heads of 128, bfloat16 tokens, states in vk, gates and betas as
// logits, ms, launched one behind the other and overlapping:
//
//     sequences                   1              16             64             128
//     float32 states              .0115 .0091    .0296 .0273    .0795 .0774    .1471 .1600
//     the same, with the norm     .0149 .0110    .0330 .0290    .0834 .0797    .1515 .1629
//
// The first of each pair is of a build in which the convolution of short sequences did not write float32 yet. With that
// alone 128 sequences take .1444, and .1474 with the norm, which overlaps all the same.
//
//     sequences                   80             96             256
//     float32 states              .0960 .0937    .1124 .1105    .2830 .3119
//     bfloat16 states             .0634 .0587    .0728 .0694    .1712 .1651
//
// So float32 states of more than 96 such sequences are launched one behind the other (gains_by_overlap in
// gated_delta/decode.cu). 512 sequences were not timed.
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
