#include "cuda/gated_delta/chunk/fused_instance.cuh"

GDN_INSTANTIATE_FUSED(__half, 16)
GDN_INSTANTIATE_FUSED(__half, 32)
GDN_INSTANTIATE_FUSED(__half, 64)
