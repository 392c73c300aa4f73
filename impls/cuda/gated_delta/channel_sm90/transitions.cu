// The first launch of cuda/channel_sm90 where sequences are in pieces (work_item.cuh): the states
// that pieces leave where they start from zeros, and the pieces' transitions.
#include "cuda/gated_delta/channel_sm90/channel_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

void enqueue_transitions(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream) {
  launch_by_type<Work::transitions>(launch, token_dtype, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
