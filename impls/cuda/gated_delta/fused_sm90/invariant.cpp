// cuda/fused_sm90_invariant: cuda/fused_sm90 without splitting sequences, so that a sequence has
// the same bits alone and in any batch. What that costs where there are few heads: log.md.
#include "cuda/gated_delta/fused_sm90/fused_sm90.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_fused_sm90_invariant() {
  return fused_sm90::implementation(fused_sm90::Form::invariant);
}

}  // namespace gdn::GDN_CUDA_TARGET
