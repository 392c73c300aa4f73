#include "cuda/gated_delta_verify/chunkwise_kernel.cuh"

namespace gdn::GDN_CUDA_TARGET {

ChunkwiseKernel chunkwise_kernel_f16(const Problem& problem) {
  return chunkwise_kernel_of<__half>(problem);
}

}  // namespace gdn::GDN_CUDA_TARGET
