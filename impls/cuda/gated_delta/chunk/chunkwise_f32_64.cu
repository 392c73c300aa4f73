#include "cuda/gated_delta/chunk/chunkwise_instance.cuh"

GDN_INSTANTIATE_CHUNKWISE(float, 64)
