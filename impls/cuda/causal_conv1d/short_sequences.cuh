// The convolution of sequences of a token or two, as a server decodes them. short_sequences.cu says how it works.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Whether these kernels take them: sequences of at most 16 tokens, two on average, 16-bit tokens with channels fastest,
/// four taps, ordinary windows, which are read; windows and outputs in float32 or the tokens' type. Their arrays are
/// aligned.
bool has_short_sequences(const AddingConvParams& params);

/// One launch of a problem that has_short_sequences(). The bits are those of the convolution in tiles.
void enqueue_short_sequences(const OrdinaryConvParams& params, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET
