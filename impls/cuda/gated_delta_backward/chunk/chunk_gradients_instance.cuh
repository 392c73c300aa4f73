// Definitions behind chunk_gradients.cuh; included by the instantiating translation units only.
#pragma once

#include <algorithm>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/chunk/stage_gates.cuh"
#include "cuda/gated_delta_backward/chunk/chunk_gradients.cuh"
#include "cuda/gated_delta_backward/chunk/stage_chains.cuh"
#include "cuda/gated_delta_backward/chunk/stage_gradients.cuh"
#include "cuda/gated_delta_backward/chunk/stage_prepare.cuh"
#include "cuda/gated_delta_backward/chunk/stage_states.cuh"
#include "cuda/gated_delta_backward/chunk/stage_tiles.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

template <int C>
void configure_chunk_gradients(const ChunkGradientsLaunch&) {
  allow_shared_memory(backward_prepare_kernel<C>, sizeof(PrepareShared<C>));
  allow_shared_memory(backward_gradients_kernel<C>, sizeof(GradientShared<C>));
}

template <int C>
void enqueue_chunk_gradients(const ChunkGradientsLaunch& launch, cudaStream_t stream) {
  const GatedDeltaParams& p = launch.params.forward;
  const ChunkGradients& w = launch.chunks;
  const auto blocks = [](std::int64_t count) { return grid_blocks(count, "cuda/chunkwise"); };
  constexpr int kWarps = kGateThreads / 32;
  const std::int64_t chunk_heads = w.forward.max_chunks * p.num_value_heads;
  const std::int64_t tokens = launch.parts.tokens;

  enqueue_chunk_map(p, w.forward.map, C, stream);
  if (tokens > 0) {
    if (p.normalize_qk) {
      const std::int64_t rows = tokens * p.num_key_heads;
      with_element_type(launch.params.token_dtype, [&](auto element) {
        launch_kernel(norms_kernel<decltype(element), false>, blocks((rows + kWarps - 1) / kWarps),
                      kGateThreads, 0, stream, p, w.forward);
      });
    }
    launch_kernel(gates_kernel<C>, blocks((chunk_heads + kWarps - 1) / kWarps), kGateThreads, 0,
                  stream, p, w.forward);
    launch_kernel(backward_tiles_kernel<C>, blocks(chunk_heads), kTileThreads, 0, stream,
                  launch.params, w);
    launch_kernel(backward_prepare_kernel<C>, blocks(chunk_heads), 32 * kPrepareWarps,
                  sizeof(PrepareShared<C>), stream, launch.params, w);
  }
  const std::int64_t value_blocks = blocks_of_16(p.value_head_dim);
  const int columns_bytes = chain_shared_bytes<C>(16 * blocks_of_16(p.key_head_dim));
  launch_kernel(backward_chains_kernel<C>,
                blocks(2 * value_blocks * p.num_sequences * p.num_value_heads), kChainThreads,
                columns_bytes, stream, launch.params, w);
  if (tokens == 0) return;
  for (int head = 0; head < p.num_value_heads; head += w.heads.count) {
    ChunkGradients group = w;
    group.heads = {head, std::min(w.heads.count, p.num_value_heads - head)};
    const std::int64_t group_chunks = w.forward.max_chunks * group.heads.count;
    if (w.tile_chunks > 1) {
      launch_kernel(backward_states_kernel<C>, blocks(2 * value_blocks * group_chunks),
                    kChainThreads, columns_bytes, stream, launch.params, group);
    }
    launch_kernel(backward_gradients_kernel<C>, blocks(group_chunks), kGradientThreads,
                  sizeof(GradientShared<C>), stream, launch.params, group, launch.parts);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET

#define GDN_INSTANTIATE_CHUNK_GRADIENTS(C)                                             \
  namespace gdn::GDN_CUDA_TARGET {                                                     \
  template void configure_chunk_gradients<C>(const ChunkGradientsLaunch&);             \
  template void enqueue_chunk_gradients<C>(const ChunkGradientsLaunch&, cudaStream_t); \
  }
