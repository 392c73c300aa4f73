// The kernel of channel_sm90 and its launch, for any Work. Each Work is compiled in a file of its
// own: kernel.cu, transitions.cu, pieces.cu, checkpoints.cu.
#pragma once

#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/channel_sm90/auxiliary.cuh"
#include "cuda/gated_delta/channel_sm90/copies.cuh"
#include "cuda/gated_delta/channel_sm90/forgetting.cuh"
#include "cuda/gated_delta/channel_sm90/launch.h"
#include "cuda/gated_delta/channel_sm90/math.cuh"
#include "cuda/gated_delta/channel_sm90/piece_math.cuh"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// One thread.
__device__ __forceinline__ void init_barriers(uint32_t sm) {
  const auto init = [&](uint32_t barriers, int stages, int arrivals) {
    for (int i = 0; i < stages; i++) mbarrier_init(barriers + 8 * i, arrivals);
  };
  init(sm + Layout::kLoaded, Layout::kSlots, 1);  // copies
  // Every lane arrives, for its own writes and reads.
  init(sm + Layout::kReady, Layout::kSlots, 32);  // the slot's auxiliary warp
  init(sm + Layout::kEmpty, Layout::kSlots, 32 * Layout::kMathWarps);
  init(sm + Layout::kValueFull, Layout::kValueSlots, 1);
  init(sm + Layout::kOutputFull, Layout::kValueSlots, 32 * Layout::kMathWarps);
  fence_mbarrier_init();
}

template <Work kWork, typename Token, bool Normalize, GateForm Form>
__global__ void __launch_bounds__(Layout::kThreads, 1)
    channel_kernel(const __grid_constant__ CUtensorMap query_map,
                   const __grid_constant__ CUtensorMap key_map,
                   const __grid_constant__ CUtensorMap gate_map,
                   const __grid_constant__ CUtensorMap value_map,
                   const __grid_constant__ CUtensorMap output_map, const ChannelParams a) {
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  const uint32_t sm = shared_address(
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023}));
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0),
            lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == Layout::kThreads - 32) {
    prefetch_tensor_map(&key_map);
    prefetch_tensor_map(&query_map);
    prefetch_tensor_map(&value_map);
    prefetch_tensor_map(&output_map);
    init_barriers(sm);
  }
  if constexpr (kWork == Work::pieces) wait_for_prerequisites();
  if constexpr (takes_sequences(kWork)) {
    order_sequences(sm, a);  // ends with a barrier
  } else {
    number_pieces(sm, a);  // likewise
    if constexpr (kWork == Work::transitions) find_early_chunks<Token>(sm, a, warp, lane);
  }
  if (warp < Layout::kMathWarps) {
    registers_increase<160>();
    const int panel = warp / 4, t = static_cast<int>(threadIdx.x) % 128;
    if constexpr (kWork == Work::transitions) {
      piece_math_role<Token>(sm, a, panel, t);
    } else {
      math_role<Token, kWork>(sm, a, panel, t);
    }
  } else {
    registers_decrease<96>();
    if (warp < Layout::kFeedingWarp) {
      auxiliary_role<kWork, Token, Normalize, Form>(sm, a, warp - Layout::kMathWarps, lane);
    } else {
      const FeedingMaps maps = {&query_map, &key_map, &gate_map, &value_map, &output_map};
      feeding_role<kWork, Form>(sm, maps, a, lane);
    }
  }
}

template <Work kWork, typename Token, bool Normalize, GateForm Form>
void launch(const ChannelLaunch& launch, cudaStream_t stream) {
  const auto kernel = channel_kernel<kWork, Token, Normalize, Form>;
  const auto enqueue_by = [&](const auto& start) {
    start(kernel, launch.blocks, Layout::kThreads, Layout::kBytes, stream, launch.query, launch.key,
          launch.gate, launch.value, launch.output, launch.params);
  };
  if constexpr (kWork == Work::pieces) {
    enqueue_by([](const auto&... arguments) { launch_overlapping(arguments...); });
  } else {
    allow_shared_memory(kernel, Layout::kBytes);
    enqueue_by([](const auto&... arguments) { launch_kernel(arguments...); });
  }
}
template <Work kWork, typename Token, bool Normalize>
void launch_by_gates(const ChannelLaunch& of, cudaStream_t stream) {
  switch (of.params.gate_form) {
    case GateForm::log_decays:
      return launch<kWork, Token, Normalize, GateForm::log_decays>(of, stream);
    case GateForm::floats:
      return launch<kWork, Token, Normalize, GateForm::floats>(of, stream);
    case GateForm::halves:
      return launch<kWork, Token, Normalize, GateForm::halves>(of, stream);
    case GateForm::read:
      return launch<kWork, Token, Normalize, GateForm::read>(of, stream);
  }
}
template <Work kWork, typename Token>
void launch_by_norm(const ChannelLaunch& of, cudaStream_t stream) {
  of.params.p.normalize_qk ? launch_by_gates<kWork, Token, true>(of, stream)
                           : launch_by_gates<kWork, Token, false>(of, stream);
}

template <Work kWork>
void launch_by_type(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream) {
  token_dtype == DType::bfloat16 ? launch_by_norm<kWork, __nv_bfloat16>(launch, stream)
                                 : launch_by_norm<kWork, __half>(launch, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
