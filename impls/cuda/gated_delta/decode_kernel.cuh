// The kernel of cuda/decode, and which of its instances a problem has. Those that store states inside the
// call are compiled in a file of their own, decode_checkpoints.cu, so that both files compile at once.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/sequence_walk.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/recurrence.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/overlap.cuh"
#include "cuda/target.h"
#include "interface/dtype.h"
#include "interface/implementation.h"
#include "interface/index_array.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET {

/// What a kernel takes beside the problem.
struct DecodeOptions {
  DType token_dtype;
  TileGrid grid;
  bool evict_last;           ///< how the state is loaded
  IndexArray rounding_seed;  ///< [N], or none: final states are rounded to nearest
};

/// How a problem's tiles are launched, by cuda/decode or by a kernel whose blocks have the same tiles.
struct DecodeGrid {
  DecodeOptions options;
  unsigned int blocks = 0;
  unsigned int threads = 0;
  PlanInfo info;

  /// `launch`: a DecodeLaunch, or what has its sizes.
  template <typename Launch>
  DecodeGrid(const Problem& problem, const Launch& launch, const IndexArray& rounding_seed,
             const std::string& name)
      : options{problem.token_dtype, tile_grid(problem, launch.block_values), outgrows_l2(problem),
                rounding_seed},
        blocks(grid_blocks(tile_blocks(problem, launch.block_values), name)),
        threads(static_cast<unsigned int>(launch.threads)) {
    info.launches = blocks > 0 ? 1 : 0;
    info.choice = "values=" + std::to_string(launch.block_values) +
                  " threads=" + std::to_string(launch.threads) +
                  " loads=" + (options.evict_last ? "evict_last" : "plain");
  }
};

struct DecodeLaunch {
  void (*kernel)(GatedDeltaParams, DecodeOptions) = nullptr;
  int block_values = 0;
  int threads = 0;
};

/// Of a problem with checkpoints.
DecodeLaunch decode_checkpoints_launch(const Problem& problem);

#ifdef __CUDACC__

/// Registers beside those that TileShape::blocks() counts: where a checkpoint is and what it is due after. With 8
/// a bfloat16 state of kv and 128 keys would leave room for one block of 8 warps instead of two.
template <bool kCheckpoints>
constexpr int walk_registers() {
  return kCheckpoints ? 4 : 0;
}

/// The block's tile to the row of its sequence, whose index is read anew. `kByChance`: where the problem asks for
/// it, rounded by chance.
template <bool kByChance, typename Tile>
__device__ __forceinline__ void store_final_state(const GatedDeltaParams& p,
                                                  const DecodeOptions& options, int head,
                                                  const Tile& tile) {
  const int sequence = options.grid.sequence_again();
  const std::int64_t row = p.slot_index ? p.slot_index[sequence] : sequence;
  const std::int64_t to = output_row(p, sequence, row);
  if constexpr (sizeof(typename Tile::State) == 2 && kByChance) {
    if (options.rounding_seed) {
      const auto seed = static_cast<std::uint32_t>(options.rounding_seed[sequence]);
      return tile.store_by_chance(p.pool, to, head, seed);
    }
  }
  tile.store(p.pool, to, head);
}

template <typename Case, bool kCheckpoints>
__global__ void __launch_bounds__(Case::Shape::kThreads,
                                  Case::Shape::blocks(walk_registers<kCheckpoints>()))
    decode_kernel(const GatedDeltaParams p, const DecodeOptions options) {
  using Recurrence = TileRecurrence<typename Case::Shape>;
  __shared__ typename Recurrence::Shared shared;
  const int thread = static_cast<int>(threadIdx.x);
  const TilePlace place = options.grid.place(Case::Shape::kBlockValues);

  const SequenceSpan span = sequence_span(p, place.sequence);
  typename Recurrence::Tile tile(thread, place.first_value, p.value_head_dim);
  // Before it is known whether there are tokens: without slots nothing has to be waited for first.
  if constexpr (!kCheckpoints) {
    if (!span.is_padding()) tile.load(p.pool, span.row, place.head, options.evict_last);
  }
  // The norm's blocks may come as soon as all of these are here. Nothing that a kernel before this one writes is read
  // until here, and nothing is written. Blocks without work wait, too: the norm waits for this kernel alone.
  hopper::allow_overlap();
  hopper::end_overlap();
  if constexpr (kCheckpoints) {
    const typename Recurrence::Tile nothing(thread, place.first_value, p.value_head_dim);
    store_absent_checkpoints(p, place.sequence, span, [&](std::int64_t row) {
      nothing.store_zeros(p.checkpoints.states, row, place.head);
    });
  }
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value,
                       min(place.first_value + Case::Shape::kBlockValues, p.value_head_dim), thread,
                       Case::Shape::kThreads);
    return;
  }
  if constexpr (kCheckpoints) tile.load(p.pool, span.row, place.head, options.evict_last);
  SequenceWalk<kCheckpoints> walk(p, kCheckpoints ? options.grid.sequence_again() : 0, span.length);
  Recurrence(p, options.token_dtype, place, shared, tile)
      .run_directly(span.first, span.length, [&](std::int64_t token) {
        if constexpr (kCheckpoints) {
          if (token != span.first + walk.end) return;
          walk.store(p, [&](const StatePool& states, std::int64_t row) {
            tile.store_converted(states, row, place.head);
          });
          walk.next(p);
        }
      });
  // By chance beside checkpoints it would take registers that those kernels do not have (up to 500 bytes spilled).
  store_final_state<!kCheckpoints>(p, options, place.head, tile);
}

template <bool kCheckpoints>
DecodeLaunch decode_launch(const Problem& problem) {
  return with_tile_case<DecodeLaunch>(problem, [](auto tile_case) -> DecodeLaunch {
    using Case = decltype(tile_case);
    return {decode_kernel<Case, kCheckpoints>, Case::Shape::kBlockValues, Case::Shape::kThreads};
  });
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
