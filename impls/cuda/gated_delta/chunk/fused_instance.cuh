// Definitions behind fused_launch.cuh; included by the instantiating translation units only.
#pragma once

#include <type_traits>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/chunk/fused_kernel.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Calls function(blocks) with the number of 16-row blocks of S, an integral constant, that the
/// kernel for Dk has registers for.
template <typename Function>
void with_key_blocks(int key_head_dim, Function&& function) {
  if (key_head_dim > 128) {
    function(std::integral_constant<int, 16>{});
  } else {
    function(std::integral_constant<int, 8>{});
  }
}

template <typename Element, int C, bool kCheckpoints>
int fused_shared_bytes(int key_head_dim, const FusedSplit& split) {
  int bytes = 0;
  with_key_blocks(key_head_dim, [&](auto blocks) {
    bytes = fused_layout<Element, C, blocks, kCheckpoints>(split).bytes;
  });
  return bytes;
}

template <typename Element, int C, bool kCheckpoints>
void configure_fused(int key_head_dim, const FusedSplit& split) {
  with_key_blocks(key_head_dim, [&](auto blocks) {
    allow_shared_memory(
        fused_kernel<Element, C, blocks, kCheckpoints>,
        static_cast<std::size_t>(fused_layout<Element, C, blocks, kCheckpoints>(split).bytes));
  });
}

template <typename Element, int C, bool kCheckpoints>
void enqueue_fused(const GatedDeltaParams& p, const FusedSplit& split, cudaStream_t stream) {
  const std::int64_t tiles =
      (blocks_of_16(p.value_head_dim) + split.value_warps - 1) / split.value_warps;
  const unsigned int count =
      grid_blocks(std::int64_t{p.num_sequences} * p.num_value_heads * tiles, "cuda/fused");
  with_key_blocks(p.key_head_dim, [&](auto blocks) {
    const FusedLayout layout = fused_layout<Element, C, blocks, kCheckpoints>(split);
    launch_kernel(fused_kernel<Element, C, blocks, kCheckpoints>, count,
                  32 * (split.value_warps + split.preparing_warps), layout.bytes, stream, p, split,
                  layout);
  });
}

}  // namespace gdn::GDN_CUDA_TARGET

#define GDN_INSTANTIATE_FUSED(Element, C, kCheckpoints)                                   \
  namespace gdn::GDN_CUDA_TARGET {                                                        \
  template int fused_shared_bytes<Element, C, kCheckpoints>(int, const FusedSplit&);      \
  template void configure_fused<Element, C, kCheckpoints>(int, const FusedSplit&);        \
  template void enqueue_fused<Element, C, kCheckpoints>(const GatedDeltaParams&,          \
                                                        const FusedSplit&, cudaStream_t); \
  }
