#include "cuda/gated_delta_verify/chunkwise_kernel.cuh"

namespace gdn::GDN_CUDA_TARGET {

ChunkwiseKernel chunkwise_kernel_bf16(const Problem& problem) {
  return chunkwise_kernel_of<__nv_bfloat16>(problem);
}

}  // namespace gdn::GDN_CUDA_TARGET
