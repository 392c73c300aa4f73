// The last launch of cuda/channel_sm90 where sequences are in pieces (work_item.cuh): outputs and
// final states, from the states at the pieces' starts.
#include "cuda/gated_delta/channel_sm90/channel_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

void enqueue_pieces(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream) {
  launch_by_type<Work::pieces>(launch, token_dtype, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
