// The kernel of cuda/chunkwise of gated_delta_ring: that of gated_delta_verify, whose records go to the ring, and whose
// products with the state are joined by those with the records that the ring holds (ring_records.cuh).
#pragma once

#include <type_traits>
#include <utility>

#include "cuda/gated_delta_ring/chunkwise_launch.h"
#include "cuda/gated_delta_ring/ring_records.cuh"
#include "cuda/gated_delta_verify/chunkwise_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// Of a block: by keys a warp's values of a key are half a line of the cache.
template <typename Shape>
constexpr int kRingWarps = Shape::kByKeys ? 2 : 1;
constexpr int kRingRegisters = 40;  ///< beside those of a draft without a ring

template <typename Shape, int kChunk>
__global__ void __launch_bounds__(32 * kRingWarps<Shape>,
                                  Shape::warps(kChunk, kRingRegisters) / kRingWarps<Shape>)
    chunkwise_ring_kernel(const GatedDeltaParams p, const RingOptions options) {
  const TilePlace place = options.grid.place(options.block_values);
  run_chunkwise_drafts<Shape, kChunk, kRingWarps<Shape>, RingRecords<Shape>>(
      p, place, options.block_values, [&](const SequenceSpan& span) {
        return RingRecords<Shape>(p, options.ring, place, span.row);
      });
}

/// The kernel of a state of this type, by layout, Dk and the longest sequence that is planned.
template <typename State>
ChunkwiseRingKernel chunkwise_ring_kernel_of(const Problem& problem) {
  const auto with_shape = [&](auto shape) -> ChunkwiseRingKernel {
    using Shape = decltype(shape);
    constexpr int kWarps = kRingWarps<Shape>;
    const bool few = problem.sequences.longest() <= 4;
    return {few ? chunkwise_ring_kernel<Shape, 4> : chunkwise_ring_kernel<Shape, 16>, few ? 4 : 16,
            values_of_block<Shape>(problem, kWarps, few ? 4 : 16), 32 * kWarps};
  };
  const auto with_dim = [&]<int... kDims>(auto layout, std::integer_sequence<int, kDims...>) {
    ChunkwiseRingKernel kernel;
    ((problem.key_head_dim == kDims
          ? void(kernel = with_shape(OperandShape<State, decltype(layout)::value, kDims>{}))
          : void()),
     ...);
    return kernel;
  };
  return problem.state_layout == StateLayout::kv
             ? with_dim(std::integral_constant<StateLayout, StateLayout::kv>{}, TileKeyDims{})
             : with_dim(std::integral_constant<StateLayout, StateLayout::vk>{}, TileKeyDims{});
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
