#include "cuda/gated_delta_backward/chunk/chunk_gradients_instance.cuh"

GDN_INSTANTIATE_CHUNK_GRADIENTS(64)
