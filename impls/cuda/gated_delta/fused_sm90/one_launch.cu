// The one-launch kernel of fused_sm90, for work items that fill most of the device, where it is
// expected to take less time than prepare and chain: no records in memory. A block takes whole
// (sequence, value head) work items, longest first; with checkpoints an item is the part of a sequence up to
// the next one, and starts from the state that the part before it left in registers. Four warpgroups:
//
//   two of math (chain_math.cuh), 64 columns of V each;
//   first auxiliary:  K K^T -> L, Q K^T -> P, and the factors of the record;
//   second auxiliary: L^-1 -> T. Its last two warps, with few blocks or none to merge, also
//     feed the block (one_launch_feed.cuh): warp 2 takes the work items, says which chunks will
//     come and brings their gates; warp 3 scans the gates a chunk ahead of its own inverse.
//
// The math warpgroups' leaders load K and Q three chunks ahead, and V one, each its own columns
// into the buffer that O has just left.
//
// Records are the chain's, in shared memory: two stages that the auxiliary warpgroups fill where
// the chain kernel's loads would. T, P and factors come from the same steps as the prepare kernel's
// (chunk_sm90/{gate_factors,triangles,inverse}.cuh, record_factors.cuh) and have the same bits.
//
// Bound by: latency, of the auxiliary warps' steps beside wgmma and of V from memory. Their code is
// kept straight: 16 warps in three roles outgrow the instruction cache, and jumps miss it.
// Reached: 2.6 to 2.7 us a chunk. How that was measured: log.md.
#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/chunk_sm90/inverse.cuh"
#include "cuda/gated_delta/chunk_sm90/lengths.cuh"
#include "cuda/gated_delta/fused_sm90/chain_math.cuh"
#include "cuda/gated_delta/fused_sm90/fused_sm90.h"
#include "cuda/gated_delta/fused_sm90/launches.h"
#include "cuda/gated_delta/fused_sm90/one_launch_feed.cuh"
#include "cuda/gated_delta/fused_sm90/one_launch_layout.cuh"
#include "cuda/gated_delta/fused_sm90/record_factors.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace fused_sm90 {

// ---- first auxiliary warpgroup: its steps of a chunk

/// Rows of K and Q past the sequence's end are zeros from here on.
__device__ __forceinline__ void zero_tiles_past_end(uint32_t K, uint32_t Q, int valid, int t) {
  using Layout = OneLaunchLayout;
  zero_rows(K, valid, t);
  zero_rows(K + Layout::kPanelBytes, valid, t);
  zero_rows(Q, valid, t);
  zero_rows(Q + Layout::kPanelBytes, valid, t);
  fence_async_proxy();
  named_barrier_sync(first_auxiliary_barrier, 128);
}

/// This warp's largest |k|^2, for all four to read once each has arrived.
__device__ __forceinline__ void publish_key_square(uint32_t sm, uint32_t squares,
                                                   const float (&kk)[32], int w, int l) {
  const uint32_t own = largest_key_square(kk, w);
  if (l == 0) {
    store_shared(squares + 4 * w, own);
    mbarrier_arrive(sm + OneLaunchLayout::kSquaresFull);
  }
}

/// L in float16 to its tile, and the diagonal blocks.
__device__ __forceinline__ void store_lower_tile(uint32_t L, uint32_t gates, const float (&kk)[32],
                                                 RowPair beta, RowPair rows, const int& w,
                                                 const int& l) {
  const uint32_t diagonal = L + OneLaunchLayout::kDiagonal + LowerTile::kDiagonalBytes * w;
  for_lower_blocks(
      gates, w, l, [&](int jb, const float2(&f)[2]) { store_lower(L, kk, jb, rows, f, w, l); },
      [&](int jb, const float(&m)[2][4]) { store_lower_diagonal(diagonal, kk, jb, beta, m, l); });
}

/// Again, in two parts. The low parts' one tile is read until the chunk before is merged.
__device__ __forceinline__ void store_lower_tile_parts(
    uint32_t sm, uint32_t L, uint32_t gates, const float (&kk)[32], RowPair rows,
    const RingCursor<OneLaunchLayout::Lowers>& lower, const int& w, const int& l) {
  using Layout = OneLaunchLayout;
  const int other = lower.index ^ 1;
  mbarrier_wait(sm + Layout::kLowerEmpty + 8 * other,
                lower.round_parity ^ static_cast<uint32_t>(lower.index == 0));
  for_lower_blocks(
      gates, w, l,
      [&](int jb, const float2(&f)[2]) {
        store_lower_parts(L, sm + Layout::kLowParts, kk, jb, rows, f, w, l);
      },
      [](int, const float(&)[2][4]) {});
}

/// P to its triangle of the record.
template <typename Token>
__device__ __forceinline__ void store_p_triangle(uint32_t P, uint32_t gates, const float (&qk)[32],
                                                 RowPair scale, const int& w, const int& l) {
  const RowPair rows = load_rows(gates + GateLayout::kFromBlock, w, l) * scale;
  const uint32_t p_at = slice_lane(P, w, l, false);
  for_lower_blocks(
      gates, w, l,
      [&](int jb, const float2(&f)[2]) {
        store_p<Token>(p_at + kSliceBytes * jb, qk, jb, rows, f);
      },
      [&](int jb, const float(&m)[2][4]) {
        store_p_diagonal<Token>(p_at + kSliceBytes * jb, qk, jb, scale, m, l);
      });
}

/// L, P and factors of every chunk.
template <typename Token, bool Normalize>
__device__ __forceinline__ void first_auxiliary_role(uint32_t sm, const OneLaunchParams& a, int t) {
  using Layout = OneLaunchLayout;
  const int w = __shfl_sync(~0u, t >> 5, 0);
  RingCursor<Layout::Keys> key;
  RingCursor<Layout::Queries> query;
  RingCursor<Layout::Records> record;
  RingCursor<Layout::Gates> gate;
  RingCursor<Layout::Lowers> lower;
  for (int number = 0;; number++) {
    const WorkItem item = follow_item<Layout>(sm, number);
    if (item.length < 0) break;
#pragma unroll 1
    for (int left = item.length; left > 0; left -= kChunk) {
      int l = t & 31;
      // lane addresses are made anew for each chunk: hoisted, they spill
      asm volatile("" : "+r"(l));
      const int valid = min(left, kChunk);
      const uint32_t K = key.buffer(sm), Q = query.buffer(sm), T = record.buffer(sm),
                     L = lower.buffer(sm), gates = gate.buffer(sm),
                     lengths = sm + Layout::kInverseLength + lower.index * Layout::kLengths,
                     squares = sm + Layout::kKeySquares + lower.index * 16;
      const uint64_t key_tile = wgmma::k_major_128(K), query_tile = wgmma::k_major_128(Q);
      float x[32];  // K K^T, then Q K^T [64 x 64], rows 16w + l/4 (+8)

      // K K^T; under it the inverse lengths of the queries
      key.await_full(sm);
      if (valid < kChunk) [[unlikely]] {
        query.await_full(sm);
        zero_tiles_past_end(K, Q, valid, t);
      }
      multiply_tiles<Token>(x, key_tile, key_tile);
      if constexpr (Normalize) {
        query.await_full(sm);
        store_inverse_lengths<Token>(Q, lengths + 256, valid, w, l);
        asm volatile("" : "+r"(l));  // lane addresses again
      }
      gate.await_full(sm);
      lower.await_empty(sm);
      wgmma::wait<0>();
      wgmma::hold(x);
      if constexpr (Normalize) {
        store_inverse_key_lengths(x, lengths, valid, w, l);
        named_barrier_sync(first_auxiliary_barrier, 128);  // lengths of all rows
        scale_columns(x, lengths, l);
      } else {
        publish_key_square(sm, squares, x, w, l);
      }

      // L: in float16 at once, and once the longest key is known perhaps in two parts
      {
        RowPair beta = load_rows(gates + GateLayout::kBeta, w, l);
        if constexpr (Normalize) beta = beta * load_rows(lengths, w, l);
        const RowPair rows = load_rows(gates + GateLayout::kFromBlock, w, l) * beta;
        store_lower_tile(L, gates, x, beta, rows, w, l);
        float largest = 1.f;  // |k|^2
        if constexpr (!Normalize) {
          mbarrier_wait(sm + Layout::kSquaresFull, lower.index);
          largest = largest_key_square(squares);
        }
        const bool parts = !(largest_step(gates, largest) <= kFloat16Limit);
        if (parts) [[unlikely]]
          store_lower_tile_parts(sm, L, gates, x, rows, lower, w, l);
        if (t == 0) {
          store_shared(L + Layout::kParts, static_cast<int>(parts));
          store_shared(L + Layout::kForgets, static_cast<int>(forgets(gamma_end(gates))));
        }
      }
      mbarrier_arrive(lower.full(sm));  // every lane, for its own writes

      // Q K^T; under it the factors
      query.await_full(sm);
      multiply_tiles<Token>(x, query_tile, key_tile);
      record.await_empty(sm);
      store_factors<Normalize>(T + RecordBuffer::kFactors, gates, lengths, a.p.scale, t);
      mbarrier_arrive(sm + Layout::kFactorsFull + 8 * record.index);
      wgmma::wait<0>();
      wgmma::hold(x);
      if (l == 0) {
        key.release(sm);
        query.release(sm);
      }

      // P
      RowPair scale{a.p.scale, a.p.scale};
      if constexpr (Normalize) {
        scale_columns(x, lengths, l);
        scale = scale * load_rows(lengths + 256, w, l);
      }
      store_p_triangle<Token>(T + RecordBuffer::kP, gates, x, scale, w, l);
      fence_async_proxy();
      mbarrier_arrive(record.full(sm));
      gate.release(sm);
      key.advance();
      query.advance();
      record.advance();
      gate.advance();
      lower.advance();
    }
  }
}

// ---- second auxiliary warpgroup

/// The feed starts, with what is needed first: gates, K and Q of chunk 0, then the state.
template <typename Token, GateForm Form, bool kCheckpoints>
__device__ __forceinline__ void start_feed(uint32_t sm, const CUtensorMap* query_map,
                                           const CUtensorMap* key_map, const OneLaunchParams& a,
                                           int t) {
  using Layout = OneLaunchLayout;
  const int w = __shfl_sync(~0u, t >> 5, 0), l = t & 31;
  if (t == 32 * placing_warp) {
    store_shared(sm + Layout::kNext, make_int4(0, 0, 0, 0));
    if constexpr (kCheckpoints) store_shared(sm + Layout::kGoesOn, make_int4(-1, 0, 0, 0));
#pragma unroll 1
    for (int n = 0; n < Layout::kPlaceAhead; n++) publish_place<false, kCheckpoints>(sm, a, n);
  }
  named_barrier_sync(second_auxiliary_barrier, 128);
  if (w == scanning_warp) {
    fetch_gates<Token, Form>(sm, a, 0, l);
    fetch_gates<Token, Form>(sm, a, 1, l);
    wait_own_copies();
    scan_fetched_gates<Token, Form>(sm, a, 0, l);
  } else if (t == 32 * placing_warp) {
#pragma unroll 1
    for (int n = 0; n < Layout::kPlaceAhead; n++) {
      const int4 place = load_place(sm, n);
      const auto stage = static_cast<uint32_t>(n);
      if (place.x >= 0) {
        load_key(sm, key_map, a, place, {stage, 0});
        load_query(sm, query_map, a, place, {stage, 0});
      }
      if (n == 0) announce_items(sm);
    }
  }
  named_barrier_sync(second_auxiliary_barrier, 128);
}

/// Before chunk n of all work items (buffers and parities are made of n): the place of n + 3, the
/// gates of n + 2, the scan of n + 1.
template <typename Token, GateForm Form, bool kCheckpoints>
__device__ __forceinline__ void feed_ahead(uint32_t sm, const OneLaunchParams& a, int n, int w,
                                           int l) {
  using Layout = OneLaunchLayout;
  if (w == placing_warp) {
    fetch_gates<Token, Form>(sm, a, n + Layout::kFetchAhead, l);
    if (l == 0) publish_place<true, kCheckpoints>(sm, a, n + Layout::kPlaceAhead);
    __syncwarp();
  } else if (w == scanning_warp) {
    scan_fetched_gates<Token, Form>(sm, a, n + Layout::kScanAhead, l);
  }
}

/// The second: T of every chunk; and the block's feed.
template <typename Token, GateForm Form, bool kCheckpoints>
__device__ __forceinline__ void second_auxiliary_role(uint32_t sm, const CUtensorMap* query_map,
                                                      const CUtensorMap* key_map,
                                                      const OneLaunchParams& a, int t) {
  using Layout = OneLaunchLayout;
  start_feed<Token, Form, kCheckpoints>(sm, query_map, key_map, a, t);
  // Every diagonal block is inverted, and the buffers that the merge reads and writes are there.
  const auto meet = [&](int n, int w) {
    if (w == placing_warp) wait_own_copies();  // gates
    named_barrier_sync(second_auxiliary_barrier, 128);
    mbarrier_wait(sm + Layout::kRecordEmpty + 8 * (n % Layout::kRecordStages),
                  ring_parity(n, Layout::kRecordStages) ^ 1);
  };
  const auto hand_on = [&](int n) {
    fence_async_proxy();
    mbarrier_arrive(sm + Layout::kLowerEmpty + 8 * (n % Layout::kLowerStages));
    mbarrier_arrive(sm + Layout::kRecordFull + 8 * (n % Layout::kRecordStages));
  };
  const auto lower_tile = [&](int n) {
    return sm + Layout::kLower + (n % Layout::kLowerStages) * Layout::kLowerStage;
  };
  const auto diagonal = [&](int n, int w) {
    return lower_tile(n) + Layout::kDiagonal + LowerTile::kDiagonalBytes * w;
  };
  const auto column_of_t = [&](int n, int w, int l) {
    const uint32_t T = sm + Layout::kRecord + (n % Layout::kRecordStages) * RecordBuffer::kBytes;
    return slice_lane(T + kSliceBytes * w, w, l, true);
  };
  const auto kept_of = [](uint32_t L, int l) {
    return diagonal_kept(load_shared<int>(L + Layout::kForgets) != 0, l);
  };
#pragma unroll 1
  for (int chunk = 0;;) {
    // Chunks in float16. One in two parts leaves this loop: its code is not jumped over in each
    // round, jumps miss the instruction cache.
#pragma unroll 1
    for (;; chunk++) {
      asm volatile("" : "+r"(t));  // addresses of lane and warp are made anew: hoisted, they spill
      const int l = t & 31, w = __shfl_sync(~0u, t >> 5, 0);
      feed_ahead<Token, Form, kCheckpoints>(sm, a, chunk, w, l);
      if (load_place(sm, chunk).x < 0) return;
      mbarrier_wait(sm + Layout::kLowerFull + 8 * (chunk % Layout::kLowerStages),
                    ring_parity(chunk, Layout::kLowerStages));
      const uint32_t L = lower_tile(chunk), own_block = w * LowerTile::block(1, 1);
      if (__shfl_sync(~0u, load_shared<int>(L + Layout::kParts), 0) != 0) break;
      invert_diagonal(L + own_block, diagonal(chunk, w), l);
      meet(chunk, w);
      asm volatile("" : "+r"(chunk));  // likewise
      merge_column<Token>(tile_lane(L, l) + own_block, column_of_t(chunk, w, l), kept_of(L, l), w);
      hand_on(chunk);
    }
    const int l = t & 31, w = __shfl_sync(~0u, t >> 5, 0);
    const uint32_t L = lower_tile(chunk), low = sm + Layout::kLowParts,
                   own_block = w * LowerTile::block(1, 1);
    invert_diagonal_parts(L + own_block, low + own_block, diagonal(chunk, w), l);
    meet(chunk, w);
    merge_column_parts<Token>(tile_lane(L, l) + own_block, tile_lane(low, l) + own_block,
                              column_of_t(chunk, w, l), kept_of(L, l), w);
    hand_on(chunk);
    chunk++;
  }
}

// ---- the kernel

/// Every thread: the triangles' other halves are zero and stay so.
__device__ __forceinline__ void zero_records(uint32_t sm) {
  using Layout = OneLaunchLayout;
  for (uint32_t i = threadIdx.x; i < Layout::kRecordStages * RecordBuffer::kBytes / 16;
       i += Layout::kThreads)
    store_shared(sm + Layout::kRecord + 16 * i, make_uint4(0, 0, 0, 0));
}

/// One thread: every mbarrier of the block, with the arrivals that complete its phase.
__device__ __forceinline__ void init_barriers(uint32_t sm) {
  using Layout = OneLaunchLayout;
  constexpr int kMath = Layout::kMathThreads, kAuxiliary = Layout::kAuxiliaryThreads;
  const auto init = [&](uint32_t barriers, int stages, int arrivals) {
    for (int i = 0; i < stages; i++) mbarrier_init(barriers + 8 * i, arrivals);
  };
  init(sm + Layout::kKeyFull, Layout::kKeyStages, 1);  // a copy
  init(sm + Layout::kKeyEmpty, Layout::kKeyStages, Layout::kTileReaders);
  init(sm + Layout::kQueryFull, Layout::kQueryStages, 1);
  init(sm + Layout::kQueryEmpty, Layout::kQueryStages, Layout::kTileReaders);
  init(sm + Layout::kValueFull, Layout::kValueStages, 2);  // a copy of each half
  init(sm + Layout::kRecordFull, Layout::kRecordStages,
       2 * kAuxiliary);  // P of one, T of the other
  init(sm + Layout::kFactorsFull, Layout::kRecordStages, kAuxiliary);
  init(sm + Layout::kRecordEmpty, Layout::kRecordStages, kMath);
  init(sm + Layout::kGateFull, Layout::kGateStages, 32);
  init(sm + Layout::kGateEmpty, Layout::kGateStages, kAuxiliary);
  init(sm + Layout::kLowerFull, Layout::kLowerStages, kAuxiliary);
  init(sm + Layout::kLowerEmpty, Layout::kLowerStages, kAuxiliary);
  init(sm + Layout::kSquaresFull, 1, kAuxiliary / 32);
  init(sm + Layout::kItemFull, Layout::kItemSlots, 1);
  init(sm + Layout::kItemEmpty, Layout::kItemSlots, Layout::kItemReaders);
  fence_mbarrier_init();
}

template <typename Token, bool Normalize, GateForm Form, typename Layout = OneLaunchLayout>
__global__ void __launch_bounds__(OneLaunchLayout::kThreads, 1)
    one_launch_kernel(const __grid_constant__ CUtensorMap query_map,
                      const __grid_constant__ CUtensorMap key_map,
                      const __grid_constant__ CUtensorMap value_map,
                      const __grid_constant__ CUtensorMap output_map, const OneLaunchParams a) {
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  const uint32_t sm = aligned_shared_address(raw);
  zero_records(sm);
  if (threadIdx.x == Layout::kThreads - 32) {  // not of the warps that order the sequences
    prefetch_tensor_map(&key_map);
    prefetch_tensor_map(&query_map);
    prefetch_tensor_map(&value_map);
    prefetch_tensor_map(&output_map);
    init_barriers(sm);
  }
  fence_async_proxy();
  order_sequences(sm, a);  // ends with a barrier
  if constexpr (Layout::kCheckpoints) zero_absent_checkpoints(sm, a);
  const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), t = threadIdx.x % 128;
  if (wg < Layout::kMathWarpgroups) {
    registers_increase<192>();
    chain_math_role<Layout, Token>(sm, &output_map, a, wg, t,
                                   MathLoads{sm, &query_map, &key_map, &value_map, a, wg});
  } else {
    registers_decrease<64>();
    if (wg == first_auxiliary) {
      first_auxiliary_role<Token, Normalize>(sm, a, t);
    } else {
      second_auxiliary_role<Token, Form, Layout::kCheckpoints>(sm, &query_map, &key_map, a, t);
    }
  }
}

namespace {

template <typename Token, GateForm Form, typename Layout>
void enqueue_one_launch(const OneLaunch& launch, cudaStream_t stream) {
  const auto kernel = launch.params.p.normalize_qk ? one_launch_kernel<Token, true, Form, Layout>
                                                   : one_launch_kernel<Token, false, Form, Layout>;
  allow_shared_memory(kernel, OneLaunchLayout::kBytes);
  launch_kernel(kernel, launch.blocks, OneLaunchLayout::kThreads, OneLaunchLayout::kBytes, stream,
                launch.query, launch.key, launch.value, launch.output, launch.params);
}

}  // namespace

OneLaunch one_launch(const LaunchArgs& args, int* next_item) {
  OneLaunch launch{.params = {},
                   .query = args.maps.query,
                   .key = args.maps.key,
                   .value = args.maps.value_panel,
                   .output = args.maps.output,
                   .blocks = 0};
  OneLaunchParams& params = launch.params;
  params.p = args.operands;
  params.rows = args.rows;
  params.items =
      static_cast<int>(grid_blocks(args.shape.sequences() * args.shape.value_heads, args.name));
  params.next_item = next_item;
  launch.blocks = persistent_blocks(params.items, args.multiprocessors);
  return launch;
}

void enqueue(const OneLaunch& launch, DType token_dtype, cudaStream_t stream) {
  const auto enqueue_with = [&](auto token) {
    using Token = decltype(token);
    const GateForm gates = gate_form(launch.params.p.gates, token_dtype);
    if (launch.params.p.checkpoints.count > 0) {
      return gates == GateForm::as_they_are
                 ? enqueue_one_launch<Token, GateForm::as_they_are, CheckpointsLayout>(launch,
                                                                                       stream)
                 : enqueue_one_launch<Token, GateForm::any, CheckpointsLayout>(launch, stream);
    }
    with_gate_form(gates, [&](auto form) {
      enqueue_one_launch<Token, decltype(form)::value, OneLaunchLayout>(launch, stream);
    });
  };
  token_dtype == DType::bfloat16 ? enqueue_with(__nv_bfloat16{}) : enqueue_with(__half{});
}

}  // namespace fused_sm90

const Implementation& gated_delta_fused_sm90_one_launch() {
  return fused_sm90::implementation(fused_sm90::Form::one_launch);
}

}  // namespace gdn::GDN_CUDA_TARGET
