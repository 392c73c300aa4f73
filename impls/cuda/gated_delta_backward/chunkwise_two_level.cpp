// cuda/chunkwise_two_level of gated_delta_backward: cuda/chunkwise that keeps the states of every 256 tokens alone, and
// makes those of the chunks between again, from the rows that the chains left, for one group of value heads after the
// other (chunk/stage_states.cuh). The two levels are those of tiled flash linear attention (Beck et al. 2025): states
// between tiles, chunks inside. Gradients have the bits of cuda/chunkwise.
//
// Bound by: what bounds cuda/chunkwise, and the states written twice for one reading of a tile. What it saves in
// memory, and takes in time: data/measured/, "Two levels".
#include "cuda/gated_delta_backward/chunk/form.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_backward_chunkwise_two_level() {
  return chunk_gradients::implementation(chunk_gradients::Form::two_level);
}

}  // namespace gdn::GDN_CUDA_TARGET
