// Definitions behind chunkwise_launch.cuh; included by the instantiating translation units only.
#pragma once

#include <algorithm>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/chunk/chunkwise_launch.cuh"
#include "cuda/gated_delta/chunk/stage_additive.cuh"
#include "cuda/gated_delta/chunk/stage_gates.cuh"
#include "cuda/gated_delta/chunk/stage_inverse.cuh"
#include "cuda/gated_delta/chunk/stage_outputs.cuh"
#include "cuda/gated_delta/chunk/stage_states.cuh"
#include "cuda/gated_delta/chunk/stage_wu.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

template <typename Element, int C>
int states_shared_bytes(const ChunkwiseLaunch& launch) {
  const int key_head_dim = launch.params.key_head_dim;
  return std::max(
      launch.state_stages * state_stage<Element, C>(key_head_dim, launch.state_warps).bytes,
      state_exchange_bytes(key_head_dim, launch.state_warps));
}

template <typename Element, int C>
int chunkwise_shared_bytes(const ChunkwiseLaunch& launch) {
  return std::max(
      {static_cast<int>(sizeof(InverseShared<Element, C>)),
       static_cast<int>(sizeof(WuShared<Element, C>)), states_shared_bytes<Element, C>(launch),
       outputs_layout<Element, C>(launch.params.key_head_dim, launch.params.value_head_dim).bytes});
}

/// Calls function(kernel) with the state pass that has registers for Dk. The additive one, which
/// has fewer products, has no version of its own for Dk up to 64.
template <typename Element, int C, typename Function>
void with_states_kernel(const GatedDeltaParams& p, Function&& function) {
  if (p.additive_update) {
    function(p.key_head_dim > 128 ? states_kernel<Element, C, 16, true, false>
                                  : states_kernel<Element, C, 8, true, false>);
  } else if (p.key_head_dim > 128) {
    function(states_kernel<Element, C, 16, false, false>);
  } else if (p.key_head_dim > 64) {
    function(states_kernel<Element, C, 8, false, false>);
  } else {
    function(states_kernel<Element, C, 4, false, false>);
  }
}

template <typename Element, int C, typename StatesKernel>
void enqueue_states(const ChunkwiseLaunch& launch, StatesKernel* kernel, cudaStream_t stream) {
  const GatedDeltaParams& p = launch.params;
  const std::int64_t tiles =
      (blocks_of_16(p.value_head_dim) + launch.state_warps - 1) / launch.state_warps;
  launch_kernel(kernel,
                grid_blocks(std::int64_t{launch.tokens.num_sequences} * p.num_value_heads * tiles,
                            "cuda/chunkwise"),
                32 * (launch.state_warps + kLoadingWarps), states_shared_bytes<Element, C>(launch),
                stream, p, launch.workspace, launch.state_stages);
}

template <typename Element, int C>
auto* outputs_kernel_of(const GatedDeltaParams& p) {
  return p.steps > 1 ? outputs_kernel<Element, C, true> : outputs_kernel<Element, C, false>;
}

template <typename Element, int C>
void configure_chunkwise(const ChunkwiseLaunch& launch) {
  const auto allow = [](auto* kernel, int bytes) {
    allow_shared_memory(kernel, static_cast<std::size_t>(bytes));
  };
  allow(inverse_kernel<Element, C>, sizeof(InverseShared<Element, C>));
  allow(wu_kernel<Element, C>, sizeof(WuShared<Element, C>));
  allow(additive_kernel<Element, C>, sizeof(AdditiveShared<Element, C>));
  if (launch.params.checkpoints.count == 0) {
    with_states_kernel<Element, C>(launch.params, [&](auto* kernel) {
      allow(kernel, states_shared_bytes<Element, C>(launch));
    });
  } else if constexpr (C == kChunkOfCheckpoints) {
    configure_checkpoint_states<Element>(launch);
  }
  allow(outputs_kernel_of<Element, C>(launch.params),
        outputs_layout<Element, C>(launch.params.key_head_dim, launch.params.value_head_dim).bytes);
}

template <typename Element, int C>
void enqueue_chunkwise(const ChunkwiseLaunch& launch, cudaStream_t stream) {
  const GatedDeltaParams& p = launch.params;
  const ChunkwiseWorkspace& w = launch.workspace;
  const auto blocks = [](std::int64_t count) { return grid_blocks(count, "cuda/chunkwise"); };
  constexpr int kWarps = kGateThreads / 32;
  const auto states = [&] {
    if constexpr (C == kChunkOfCheckpoints) {
      if (p.checkpoints.count > 0) return enqueue_checkpoint_states<Element>(launch, stream);
    }
    with_states_kernel<Element, C>(
        p, [&](auto* kernel) { enqueue_states<Element, C>(launch, kernel, stream); });
  };
  if (p.checkpoints.count > 0 && launch.tokens.num_sequences > 0) {
    enqueue_checkpoint_segments(launch.tokens, launch.segments, stream);
    if (launch.token_capacity == 0) return states();  // zeros
  }
  if (w.max_chunks == 0 || launch.token_capacity == 0) return;
  const std::int64_t chunk_heads = w.max_chunks * p.num_value_heads;
  const bool many_steps = p.steps > 1;

  if (many_steps) {
    enqueue_step_rows(launch.tokens, launch.rows, sizeof(Element), launch.token_capacity, stream);
  }
  enqueue_chunk_map(p, w.map, C, stream);
  if (p.normalize_qk) {
    const auto norm_warps = launch.token_capacity * p.steps * p.num_key_heads;
    launch_kernel(many_steps ? norms_kernel<Element, true> : norms_kernel<Element, false>,
                  blocks((norm_warps + kWarps - 1) / kWarps), kGateThreads, 0, stream, p, w);
  }
  launch_kernel(gates_kernel<C>, blocks((chunk_heads + kWarps - 1) / kWarps), kGateThreads, 0,
                stream, p, w);
  const int value_slabs = wu_slabs(p.value_head_dim);
  if (p.additive_update) {
    launch_kernel(additive_kernel<Element, C>, blocks(chunk_heads * value_slabs), kWuThreads,
                  sizeof(AdditiveShared<Element, C>), stream, p, w);
  } else {
    launch_kernel(inverse_kernel<Element, C>, blocks(chunk_heads), 2 * C,
                  sizeof(InverseShared<Element, C>), stream, p, w);
    const int slabs = value_slabs + wu_slabs(p.key_head_dim);
    launch_kernel(wu_kernel<Element, C>, blocks(chunk_heads * slabs), kWuThreads,
                  sizeof(WuShared<Element, C>), stream, p, w);
  }
  states();
  launch_kernel(outputs_kernel_of<Element, C>(p), blocks(chunk_heads), kOutputThreads<C>,
                outputs_layout<Element, C>(p.key_head_dim, p.value_head_dim).bytes, stream, p, w);
}

}  // namespace gdn::GDN_CUDA_TARGET

#define GDN_INSTANTIATE_CHUNKWISE(Element, C)                                        \
  namespace gdn::GDN_CUDA_TARGET {                                                   \
  template int chunkwise_shared_bytes<Element, C>(const ChunkwiseLaunch&);           \
  template void configure_chunkwise<Element, C>(const ChunkwiseLaunch&);             \
  template void enqueue_chunkwise<Element, C>(const ChunkwiseLaunch&, cudaStream_t); \
  }
