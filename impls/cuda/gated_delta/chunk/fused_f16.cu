#include "cuda/gated_delta/chunk/fused_instance.cuh"

GDN_INSTANTIATE_FUSED(__half, 16, false)
GDN_INSTANTIATE_FUSED(__half, 32, false)
GDN_INSTANTIATE_FUSED(__half, 64, false)
