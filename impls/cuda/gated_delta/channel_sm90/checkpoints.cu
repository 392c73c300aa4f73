// cuda/channel_sm90 with states inside the call: the kernel of kernel.cu, whose work items are done from checkpoint to
// checkpoint (work_item.cuh).
//
// Bound by: what kernel.cu is, and a chunk that is not whole for each checkpoint that is no multiple of 16 tokens.
//
// Reached, H200, 32/32 heads, 4x8192 bfloat16 tokens, anywhere in them: .580 ms with 1 checkpoint, .587 with 4, .604
// with 16, .574 without, when six auxiliary warps made chunks (data/measured/h200-2026-11-27). Sequences are never cut
// into pieces: 12/12 heads, 1x8192, took .568 with 4 checkpoints, and take .185 in pieces, without (log.md).
#include "cuda/gated_delta/channel_sm90/channel_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

void enqueue_checkpoints(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream) {
  launch_by_type<Work::checkpoints>(launch, token_dtype, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
