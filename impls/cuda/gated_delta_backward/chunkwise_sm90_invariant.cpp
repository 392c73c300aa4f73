// cuda/chunkwise_sm90_invariant of gated_delta_backward: cuda/chunkwise_sm90 without cutting sequences, so that the
// gradients of a sequence have the same bits alone and in any batch. What that costs where there are few heads:
// chunkwise_sm90/log.md.
#include "cuda/gated_delta_backward/chunkwise_sm90/form.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_backward_chunkwise_sm90_invariant() {
  return backward_sm90::implementation(backward_sm90::Form::invariant);
}

}  // namespace gdn::GDN_CUDA_TARGET
