#include "cuda/gated_delta_ring/chunkwise_kernel.cuh"

namespace gdn::GDN_CUDA_TARGET {

ChunkwiseRingKernel chunkwise_ring_kernel_bf16(const Problem& problem) {
  return chunkwise_ring_kernel_of<__nv_bfloat16>(problem);
}

}  // namespace gdn::GDN_CUDA_TARGET
