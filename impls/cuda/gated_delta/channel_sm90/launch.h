// The launches of channel_sm90's kernels.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cuda/gated_delta/channel_sm90/params.cuh"
#include "cuda/target.h"
#include "interface/dtype.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

struct ChannelLaunch {
  ChannelParams params;
  CUtensorMap query, key, gate, value, output;  ///< gate: of use unless they are read
  unsigned int blocks = 0;
};
/// Sequences whole.
void enqueue(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream);
/// The same of a call with checkpoints.
void enqueue_checkpoints(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream);

/// Sequences in pieces, in this order. `launch` differs in its blocks alone.
void enqueue_transitions(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream);
void enqueue_chain(const ChannelParams& params, cudaStream_t stream);
void enqueue_pieces(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
