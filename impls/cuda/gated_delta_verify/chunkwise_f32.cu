#include "cuda/gated_delta_verify/chunkwise_kernel.cuh"

namespace gdn::GDN_CUDA_TARGET {

ChunkwiseKernel chunkwise_kernel_f32(const Problem& problem) {
  return chunkwise_kernel_of<float>(problem);
}

}  // namespace gdn::GDN_CUDA_TARGET
