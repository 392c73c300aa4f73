#include "cuda/gated_delta/chunk/fused_instance.cuh"

GDN_INSTANTIATE_FUSED(__nv_bfloat16, 16)
GDN_INSTANTIATE_FUSED(__nv_bfloat16, 32)
GDN_INSTANTIATE_FUSED(__nv_bfloat16, 64)
