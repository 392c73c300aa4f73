// cuda/fused_sm90 of gated_delta_layer: cuda/direct of causal_conv1d into the token dtype, then
// cuda/fused_sm90 of gated_delta, whose tensor cores take that. In front of the one-launch kernel the
// convolution, which has every channel of a head in a warp, divides queries and keys by their lengths as it
// writes them: it takes 0.04 ms more for it at 4x8192, 16/32 heads, where that kernel, whose auxiliary warps
// everything waits for, takes 0.08 (H200). In front of the prepare kernel, which takes 0.015, it does not.

#include "cuda/gated_delta/fused_sm90/fused_sm90.h"

#include "composed/chain_implementation.h"
#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/target.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& causal_conv1d_direct_normalizing();
const Implementation& gated_rms_norm_rows();
const Implementation& gated_delta_fused_sm90_planned();

const Implementation& gated_delta_layer_fused_sm90() {
  static const ChainImplementation implementation(
      gated_delta_layer_chain(),
      {.steps = {&causal_conv1d_direct(), &gated_delta_fused_sm90_planned(),
                 &gated_rms_norm_rows()},
       .main_step = 1,
       .hand_on = ChainMembers::HandOn::token_dtype,
       .ahead = {{.step = 0,
                  .implementation = &causal_conv1d_direct_normalizing(),
                  .of_step = 1,
                  .pays =
                      [](const Problem& convolution, const Problem& recurrence,
                         const DeviceInfo& device) {
                        return can_normalize_heads(convolution) && recurrence.total_tokens() > 0 &&
                               fused_sm90::runs_in_one_launch(recurrence, device.multiprocessors);
                      },
                  .rest =
                      [](Problem recurrence) {
                        recurrence.normalize_qk = false;
                        return recurrence;
                      }}},
       .examples = {
           "gated_delta_layer:heads=1/2,dim=128,seq=70+3,h0=normal,dtype=bf16",
           "gated_delta_layer:heads=1/2,dim=128,seq=20+3,dtype=f16,gate=logits,gated_norm=1"}});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
