// The kernel between prepare and the chain where sequences are split: it looks at the gates for
// pieces that are far. Where any is, it makes what the chain needs to start at every piece at once:
// the state Z that a piece leaves where it begins with zeros, and its transition M, so that
// S_out = S_in M + Z (find_item.cuh). Where none is, it leaves at once.
//
// A work item is one piece, value head and one of Z and M; blocks are persistent, two math
// warpgroups and one that loads, as in the chain without Q, P and output. M is the state that a
// start from the identity gives with V = 0.
//
// Bound by: the three dependent products of a chunk. Reached: 1.15 to 1.17 us a chunk; 2.5 us for
// the launch where it leaves at once. How that was measured: log.md.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/gated_delta/fused_sm90/chain_loads.cuh"
#include "cuda/gated_delta/fused_sm90/find_item.cuh"
#include "cuda/gated_delta/fused_sm90/launches.h"
#include "cuda/gated_delta/fused_sm90/math.cuh"
#include "cuda/gated_delta/fused_sm90/state.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

// A transition is made in the place of a state, one row of it where a state has one column of V.
static_assert(kValueDim == kKeyDim);

/// A math warpgroup: 64 columns of V of every work item.
template <typename Token>
__device__ __forceinline__ void pieces_math_role(uint32_t sm, const PiecesParams& a, int wg,
                                                 int t) {
  using Layout = ChainLayout<2>;
  const int w = t >> 5, l = t & 31, q = l & 3;
  const bool leader = t == 0, warp_leader = l == 0;
  float S[64], nv[32];  // nv: SK, then V'
  uint32_t sb[32], xa[16];
#pragma unroll
  for (int i = 0; i < 32; i++) nv[i] = 0.f;
  RingCursor<typename Layout::Keys> key;
  RingCursor<typename Layout::Values> value;
  RingCursor<typename Layout::Records> record;  // not in step with V: transitions have none

  for (int number = 0;; number++) {
    make_zero_state(S);
    const WorkItem item = follow_item<Layout>(sm, number);
    if (item.length < 0) break;
    const int panel = item.panel + wg;
    if (item.pool_row < 0) {  // padding has no pieces
      __syncwarp();  // else the compiler takes all that follows for divergent: no uniform registers
      continue;
    }
    if (item.start == from_pool && a.p.pool.read) {
      load_pool_state<StateDims::any>(S, a.p.pool, item.pool_row, item.head, panel * kPanel, w, l);
    } else if (item.start == from_unit) {
      for_state_elements(w, l,
                         [&](int i, int v, int k) { S[i] = panel * kPanel + v == k ? 1.f : 0.f; });
    }

    const bool has_values = item.start != from_unit;
#pragma unroll 1
    for (int left = item.length; left > 0; left -= kChunk) {  // whole chunks
      const uint32_t K = key.buffer(sm), V = value.buffer(sm) + wg * Layout::kPanelBytes,
                     T = record.buffer(sm), F = T + RecordBuffer::kFactors;
      const auto factors = [&](uint32_t which) { return FactorsInMemory{F + which + 8 * q}; };

      // SK = S K^T; under it x = beta V
      key.await_full(sm);
      pack_state<Token>(sb, S);
      record.await_full(sm);
      scale_state(S, F);
      wgmma::hold(sb);
      wgmma::registers_ready();
      multiply_state<Token>(nv, sb, K);
      float x[32] = {};
      if (has_values) {
        value.await_full(sm);
        load_values(xa, V, w, l);
        scale_values<Token>(x, xa, Factors(factors(kFactorBeta)));
      }
      const Factors key_factors(factors(kFactorKey));
      const bool adds_to_x = forgets(load_shared<float>(F + kFactorGammaEnd));
      wgmma::made_before_wait(left < 0, x, key_factors.value);
      wgmma::wait<0>();
      wgmma::hold(nv);
      wgmma::hold(sb);
      if (has_values) {
        __syncwarp();
        if (warp_leader) value.release(sm);
        value.advance();
      }

      // x -= beta gamma SK, V' = (x +) T x
      subtract_from(x, nv, key_factors);
      pack_operand<Token>(xa, nv);
      wgmma::hold(nv);
      wgmma::hold(xa);
      wgmma::registers_ready();
      multiply_triangle<Token>(nv, xa, T, adds_to_x);
      const Factors update_factors(factors(kFactorUpdate));
      wgmma::made_before_wait(left < 0, update_factors.value);
      wgmma::wait<0>();
      wgmma::hold(nv);
      wgmma::hold(xa);

      // S += V'^T K
      pack_scaled<Token>(xa, nv, update_factors);
      wgmma::hold(xa);
      wgmma::registers_ready();
      update_state<Token>(S, xa, K);
      wgmma::wait<0>();
      wgmma::hold(S);
      wgmma::hold(xa);
      __syncwarp();
      if (warp_leader) key.release(sm);
      record.release(sm);  // every reader, as it reads
      key.advance();
      record.advance();
    }

    if (has_values) {
      store_piece_state(S, a.work.piece_states + head_state_offset(a, item.piece_slot, item.head),
                        panel * kPanel, w, l);
    } else {
      store_transition(S, a.work.transitions + transition_offset(a, item.piece_slot, item.head),
                       panel, w, l);
    }
  }
  if (leader) bulk_wait<0>();  // nothing was stored so: keeps the code as it was measured
}

template <typename Token>
__global__ void __launch_bounds__(ChainLayout<2>::kThreads, 1)
    pieces_kernel(const __grid_constant__ CUtensorMap query_map,
                  const __grid_constant__ CUtensorMap key_map,
                  const __grid_constant__ CUtensorMap value_map,
                  const __grid_constant__ CUtensorMap output_map, const PiecesParams a) {
  using Layout = ChainLayout<2>;
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  const uint32_t sm = aligned_shared_address(raw);
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  constexpr int kItemWarp = Layout::kWarps - 1;

  // Every block finds for itself whether there is anything to do. One chain waits for this kernel's
  // end; of two, the first must not start before what prepare has made is there (find_item.cuh).
  if (!a.two_chains) launch_dependents();
  if (threadIdx.x == 0) store_shared(sm + Layout::kIsFar, 0);
  __syncthreads();
  if (any_piece_is_far<Layout::kThreads>(a)) store_shared(sm + Layout::kIsFar, 1);
  wait_for_prerequisites();
  launch_dependents();
  __syncthreads();
  const int is_far = load_shared<int>(sm + Layout::kIsFar);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    store_release(a.work.decision, is_far ? some_far : all_near);
  if (is_far == 0) return;

  FoundItem first{};
  int number = -1;
  if (warp == kItemWarp) {
    first = find_item<1>(a, number, lane);
  } else {
    prepare_block<Layout>(sm, warp, lane, &query_map, &key_map, &value_map, &output_map);
  }
  __syncthreads();
  const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), t = threadIdx.x % 128;
  if (wg < Layout::kMathWarpgroups) {
    registers_increase<216>();
    pieces_math_role<Token>(sm, a, wg, t);
  } else {
    registers_decrease<72>();
    if (t == 32 * key_query_warp) {
      key_query_role<Layout>(sm, &query_map, &key_map, a);
    } else if (t == 32 * value_warp) {
      value_role<Layout, false>(sm, &value_map, &output_map, a.rows);
    } else if (t == 32 * record_warp) {
      record_role<Layout>(sm, a);
    } else if (warp == kItemWarp) {
      item_role<Layout>(sm, a, first, number, lane);
    }
  }
}

namespace {

template <typename Token>
void enqueue_pieces(const PiecesLaunch& launch, cudaStream_t stream) {
  using Layout = ChainLayout<2>;
  launch_overlapping(pieces_kernel<Token>, launch.blocks, Layout::kThreads, Layout::kBytes, stream,
                     launch.query, launch.key, launch.value, launch.output, launch.params);
}

}  // namespace

PiecesLaunch pieces_launch(const LaunchArgs& args) {
  const Choice& choice = args.choice;
  PiecesLaunch launch{.params = {},
                      .query = args.maps.query,
                      .key = args.maps.key,
                      .value = args.maps.value,
                      .output = args.maps.output,
                      .blocks = 0};
  PiecesParams& params = launch.params;
  params.p = args.operands;
  params.rows = args.rows;
  params.chunks_per_piece = choice.far.chunks_per_piece;
  params.first_pieces_beside = choice.far.first_pieces_beside;
  params.two_chains = choice.two_chains();
  params.items = static_cast<int>((args.shape.slices() + 1) * piece_heads(args.shape, choice.far));
  params.near_chunks = choice.near.chunks_per_piece;
  params.near_piece_heads = static_cast<int>(piece_heads(args.shape, choice.near));
  params.work = args.work;
  launch.blocks = persistent_blocks(std::max(1, params.items), args.multiprocessors);
  return launch;
}

void enqueue(const PiecesLaunch& launch, DType token_dtype, cudaStream_t stream) {
  token_dtype == DType::bfloat16 ? enqueue_pieces<__nv_bfloat16>(launch, stream)
                                 : enqueue_pieces<__half>(launch, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
