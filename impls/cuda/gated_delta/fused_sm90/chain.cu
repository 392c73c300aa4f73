// Last kernel of fused_sm90 where there are two launches or more: the dependent chain over the
// chunks of a sequence. A work item is one (sequence or piece, value head), or one half of its V
// columns; blocks are persistent. One or two math warpgroups own 64 columns of V each and hold the
// state in registers (chain_math.cuh). One further warpgroup finds the work items (find_item.cuh)
// and loads K and Q, V, and the records (chain_loads.cuh). The thread that loads V also stores O,
// which the math leaves in V's place.
//
// Tokens past the end of a sequence: K and V rows are zeroed in shared memory before their first
// use (the update multiplies every row), T, P and factors carry zeros there, and O rows are not
// stored.
//
// Bound by: the dependent products of a chunk where there are few heads, the traffic of the records
// and the clock that the tensor cores hold under load where there are many. Reached: 1.85 us a
// chunk with all of V in a block, 1.15 us with half, 3.5 to 3.9 TB/s with many heads. How that was
// measured: log.md.
#include <cuda_runtime.h>

#include "cuda/gated_delta/fused_sm90/chain_loads.cuh"
#include "cuda/gated_delta/fused_sm90/chain_math.cuh"
#include "cuda/gated_delta/fused_sm90/find_item.cuh"
#include "cuda/gated_delta/fused_sm90/launches.h"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

template <typename Token, int MathWarpgroups>
__global__ void __launch_bounds__(ChainLayout<MathWarpgroups>::kThreads, 1)
    chain_kernel(const __grid_constant__ CUtensorMap query_map,
                 const __grid_constant__ CUtensorMap key_map,
                 const __grid_constant__ CUtensorMap value_map,
                 const __grid_constant__ CUtensorMap output_map, const ChainParams a) {
  using Layout = ChainLayout<MathWarpgroups>;
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  const uint32_t sm = aligned_shared_address(raw);
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  constexpr int kItemWarp = Layout::kWarps - 1;
  if (a.serves == Serves::near_gates) launch_dependents();  // the chain for far gates
  FoundItem first{};
  int number = -1;
  if (warp == kItemWarp) {
    if (a.serves == Serves::any_gates || serves_this_run(a)) {
      first = find_item<2 / MathWarpgroups>(a, number, lane);
    } else {
      first.item = no_item();
    }
  } else {
    prepare_block<Layout>(sm, warp, lane, &query_map, &key_map, &value_map, &output_map);
  }
  __syncthreads();
  const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), t = threadIdx.x % 128;
  if (wg < MathWarpgroups) {
    if constexpr (MathWarpgroups == 2) registers_increase<224>();
    chain_math_role<Layout, Token>(sm, &output_map, a, wg, t);
  } else {
    if constexpr (MathWarpgroups == 2) registers_decrease<56>();
    if (t == 32 * key_query_warp) {
      key_query_role<Layout>(sm, &query_map, &key_map, a);
    } else if (t == 32 * value_warp) {
      value_role<Layout, true>(sm, &value_map, &output_map, a.rows);
    } else if (t == 32 * record_warp) {
      record_role<Layout>(sm, a);
    } else if (warp == kItemWarp) {
      item_role<Layout>(sm, a, first, number, lane);
    }
  }
}

namespace {

template <typename Token, int MathWarpgroups>
void enqueue_chain(const ChainLaunch& launch, cudaStream_t stream) {
  using Layout = ChainLayout<MathWarpgroups>;
  launch_overlapping(chain_kernel<Token, MathWarpgroups>, launch.blocks, Layout::kThreads,
                     Layout::kBytes, stream, launch.query, launch.key, launch.value, launch.output,
                     launch.params);
}

template <typename Token>
void enqueue_chain(const ChainLaunch& launch, cudaStream_t stream) {
  launch.halves == 1 ? enqueue_chain<Token, 2>(launch, stream)
                     : enqueue_chain<Token, 1>(launch, stream);
}

}  // namespace

ChainLaunch chain_launch(const LaunchArgs& args, const ChainDivision& division, Serves serves) {
  const ChainItems items = chain_items(args.shape, division, args.costs);
  ChainLaunch launch{.params = {},
                     .query = args.maps.query,
                     .key = args.maps.key,
                     .value = division.halves == 1 ? args.maps.value : args.maps.value_panel,
                     .output = args.maps.output,
                     .halves = division.halves,
                     .blocks = 0};
  ChainParams& params = launch.params;
  params.p = args.operands;
  params.rows = args.rows;
  params.chunks_per_piece = division.chunks_per_piece;
  params.items = static_cast<int>(grid_blocks(items.items, args.name));
  params.serves = serves;
  params.first_pieces_beside = division.first_pieces_beside;
  params.items_by_arrival = items.by_arrival;
  params.work = args.work;
  launch.blocks = persistent_blocks(params.items, args.multiprocessors);
  return launch;
}

void enqueue(const ChainLaunch& launch, DType token_dtype, cudaStream_t stream) {
  token_dtype == DType::bfloat16 ? enqueue_chain<__nv_bfloat16>(launch, stream)
                                 : enqueue_chain<__half>(launch, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
