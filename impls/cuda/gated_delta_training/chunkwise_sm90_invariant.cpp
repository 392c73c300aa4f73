// cuda/chunkwise_sm90_invariant of gated_delta_training: cuda/chunkwise_sm90 without cutting sequences, so that what is
// made of a sequence has the same bits alone and in any batch.
#include "cuda/gated_delta_training/chunkwise_sm90.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_training_chunkwise_sm90_invariant() {
  return training_sm90(backward_sm90::Form::invariant);
}

}  // namespace gdn::GDN_CUDA_TARGET
