#include "cuda/gated_delta/chunk/fused_instance.cuh"

GDN_INSTANTIATE_FUSED(float, 16, false)
GDN_INSTANTIATE_FUSED(float, 32, false)
