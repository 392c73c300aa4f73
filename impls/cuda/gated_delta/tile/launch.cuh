// Launching kernels of state tiles (state_tile.cuh): which problems they are for, and which tile of which
// head of which sequence a block has.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda/divisor.h"
#include "cuda/element.cuh"
#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/state_tile.cuh"
#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET {

/// Dk that kernels are compiled for.
using TileKeyDims = std::integer_sequence<int, 64, 96, 128, 192, 256>;

/// Where a block is.
struct TilePlace {
  int sequence;
  int head;
  int key_head;
  int first_value;
};

/// Block b has tile b % tiles of value head (b / tiles) % Hv of sequence b / tiles / Hv.
struct TileGrid {
  Divisor tiles;                     ///< of a head
  Divisor value_heads;               ///< Hv
  Divisor value_heads_per_key_head;  ///< Hv / Hk

#ifdef __CUDACC__
  __device__ __forceinline__ TilePlace place(int block_values) const {
    return place(block_values, blockIdx.x);
  }
  __device__ __forceinline__ TilePlace place(int block_values, std::uint32_t block) const {
    const std::uint32_t heads = tiles.divide(block);
    const std::uint32_t head = value_heads.remainder(heads);
    return {static_cast<int>(value_heads.divide(heads)), static_cast<int>(head),
            static_cast<int>(value_heads_per_key_head.divide(head)),
            static_cast<int>(tiles.remainder(block)) * block_values};
  }
  /// The place's sequence, made anew from the block's number: no register holds it, or the row that was
  /// read, until the state is stored.
  __device__ __forceinline__ int sequence_again() const {
    auto block = static_cast<std::uint32_t>(blockIdx.x);
    asm volatile("" : "+r"(block));
    return static_cast<int>(value_heads.divide(tiles.divide(block)));
  }
#endif  // __CUDACC__
};

#ifdef __CUDACC__

/// The state dtype, layout and Dk that a kernel is compiled for.
template <typename State_, StateLayout kLayout_, int kKeyDim_>
struct TileCase {
  using Shape = TileShape<State_, kLayout_, kKeyDim_, TileUse::pass>;
  using DraftShape = TileShape<State_, kLayout_, kKeyDim_, TileUse::drafts>;
};

/// function(TileCase) of the problem, which supports_tiles().
template <typename Result, typename Function>
Result with_tile_case(const Problem& problem, Function function) {
  const auto with_layout = [&]<int... kDims>(auto state, auto layout,
                                             std::integer_sequence<int, kDims...>) {
    Result result{};
    ((problem.key_head_dim == kDims
          ? void(result = function(TileCase<decltype(state), decltype(layout)::value, kDims>{}))
          : void()),
     ...);
    return result;
  };
  return with_element_type(problem.state_dtype, [&](auto state) {
    return problem.state_layout == StateLayout::kv
               ? with_layout(state, std::integral_constant<StateLayout, StateLayout::kv>{},
                             TileKeyDims{})
               : with_layout(state, std::integral_constant<StateLayout, StateLayout::vk>{},
                             TileKeyDims{});
  });
}

#endif  // __CUDACC__

/// Of a problem, for tiles of `block_values` values; its blocks are checked by grid_blocks().
inline TileGrid tile_grid(const Problem& problem, int block_values) {
  return {Divisor((problem.value_head_dim + block_values - 1) / block_values),
          Divisor(problem.num_value_heads), Divisor(problem.value_heads_per_key_head())};
}
inline std::int64_t tile_blocks(const Problem& problem, int block_values) {
  return problem.num_sequences() * problem.num_value_heads *
         ((problem.value_head_dim + block_values - 1) / block_values);
}

Support supports_tiles(const Problem& problem);

/// Whether the states are more than the L2 holds of a GPU that this is for (50 MB on an H200). Then
/// lines that have been read are written back later if they are the last to leave: 3 % less time
/// (float32, 128 and 512 sequences of 16/32 heads), against up to 10 % more with 16 sequences.
bool outgrows_l2(const Problem& problem);

/// What require_tile_alignment() asks for.
Alignment tile_alignment();
/// Throws Error(bad_input) unless tokens and pool are aligned to the 16 bytes that threads move.
void require_tile_alignment(const GatedDeltaParams& params, const Problem& problem);

}  // namespace gdn::GDN_CUDA_TARGET
