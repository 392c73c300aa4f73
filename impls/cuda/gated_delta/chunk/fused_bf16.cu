#include "cuda/gated_delta/chunk/fused_instance.cuh"

GDN_INSTANTIATE_FUSED(__nv_bfloat16, 16, false)
GDN_INSTANTIATE_FUSED(__nv_bfloat16, 32, false)
GDN_INSTANTIATE_FUSED(__nv_bfloat16, 64, false)
