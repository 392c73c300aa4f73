// cuda/chunkwise_two_level of gated_delta_backward: cuda/chunkwise that keeps the states of every 256 tokens alone, and
// makes those of the chunks between again, from the rows that the chains left, for one group of value heads after the
// other (chunk/stage_states.cuh). The two levels are those of tiled flash linear attention (Beck et al. 2025): states
// between tiles, chunks inside. Gradients have the bits of cuda/chunkwise.
//
// Bound by: what bounds cuda/chunkwise, and the steps of the chains made once more.
//
// Reached, H200, 16/32 heads of 128, 4x8192 bfloat16 tokens, cold L2: chunks of 64 29.5 ms and 4.1 GB of workspace, of 16
// 43.7 and 4.9; cuda/chunkwise 24.3 and 5.4, 32.4 and 11.9 (data/measured/h200-2026-11-28).
#include "cuda/gated_delta_backward/chunk/form.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_backward_chunkwise_two_level() {
  return chunk_gradients::implementation(chunk_gradients::Form::two_level);
}

}  // namespace gdn::GDN_CUDA_TARGET
