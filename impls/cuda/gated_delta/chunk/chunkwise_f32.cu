#include "cuda/gated_delta/chunk/chunkwise_instance.cuh"

GDN_INSTANTIATE_CHUNKWISE(float, 16)
GDN_INSTANTIATE_CHUNKWISE(float, 32)
GDN_INSTANTIATE_CHUNKWISE(float, 64)
GDN_INSTANTIATE_CHUNKWISE(float, 128)
