// The instances of cuda/fused that store states inside the call, of the chunk that problems get which ask for none.
#include "cuda/gated_delta/chunk/fused_instance.cuh"

GDN_INSTANTIATE_FUSED(float, gdn::GDN_CUDA_TARGET::kDefaultFusedChunk, true)
GDN_INSTANTIATE_FUSED(__nv_bfloat16, gdn::GDN_CUDA_TARGET::kDefaultFusedChunk, true)
GDN_INSTANTIATE_FUSED(__half, gdn::GDN_CUDA_TARGET::kDefaultFusedChunk, true)
