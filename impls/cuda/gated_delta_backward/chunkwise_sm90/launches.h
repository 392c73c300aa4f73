// The kernels of chunkwise_sm90 as the plan launches them, each defined in the file of its name.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "cuda/gated_delta_backward/chunkwise_sm90/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

/// The arrays of tokens as the copy engine sees them: [tokens, heads, 128] as {64, tokens, 2 panels, heads}, 128-byte
/// swizzled, in boxes of 64 tokens of both panels, or of one where the name says so.
struct TensorMaps {
  CUtensorMap query, key, value, d_output, d_value;
  CUtensorMap value_panel, d_output_panel, d_value_panel;
  CUtensorMap output_panel;  // of a training step only
};

struct Launch {
  KernelParams params;
  TensorMaps maps;
  std::int64_t chunk_slots = 0;
  int multiprocessors = 1;
  int halves = 1;  ///< blocks of the chains that share one head's V
  /// A training step: the chains forwards are its forward call and come first, alone.
  bool is_step = false;
  std::string name;  ///< of the implementation, for errors
};

void enqueue_prepare(const Launch& launch, cudaStream_t stream);
void enqueue_chains(const Launch& launch, cudaStream_t stream);
void enqueue_gradients(const Launch& launch, cudaStream_t stream);
/// d_beta of what enqueue_gradients() cannot divide by.
void enqueue_small_betas(const Launch& launch, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
