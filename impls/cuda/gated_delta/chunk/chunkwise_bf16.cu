#include "cuda/gated_delta/chunk/chunkwise_instance.cuh"

GDN_INSTANTIATE_CHUNKWISE(__nv_bfloat16, 16)
GDN_INSTANTIATE_CHUNKWISE(__nv_bfloat16, 32)
GDN_INSTANTIATE_CHUNKWISE(__nv_bfloat16, 64)
GDN_INSTANTIATE_CHUNKWISE(__nv_bfloat16, 128)
