// cuda/fused_sm90: gated_delta forward for Hopper (sm_90a), bfloat16 or float16 tokens, in the form
// that the planner expects to take the least time.
#include "cuda/gated_delta/fused_sm90/fused_sm90.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_fused_sm90_planned() {
  return fused_sm90::implementation(fused_sm90::Form::planned);
}

}  // namespace gdn::GDN_CUDA_TARGET
