#include "cuda/gated_delta/chunk/chunkwise_instance.cuh"

GDN_INSTANTIATE_CHUNKWISE(__half, 16)
GDN_INSTANTIATE_CHUNKWISE(__half, 32)
GDN_INSTANTIATE_CHUNKWISE(__half, 64)
GDN_INSTANTIATE_CHUNKWISE(__half, 128)
