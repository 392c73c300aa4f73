// cuda/fused_sm90 of gated_delta_layer: cuda/direct of causal_conv1d into the token dtype, then
// cuda/fused_sm90 of gated_delta, whose tensor cores take that.
#include "cuda/target.h"
#include "gated_delta_layer/two_pass.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_fused_sm90_planned();

const Implementation& gated_delta_layer_fused_sm90() {
  static const TwoPassLayer implementation(causal_conv1d_direct(), gated_delta_fused_sm90_planned(),
                                           Between::token_dtype);
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
