// The role of the math warpgroups in the chain kernel and in the one-launch kernel: they go from
// chunk to chunk of a work item, with the state in registers. Every chunk needs the state that the
// chunk before it has left. The arithmetic of each step is in math.cuh.
//
// Some steps take small values by const reference. A copy would make the compiler order the
// instructions of a chunk in another way than the one that was measured.
#pragma once

#include "cuda/gated_delta/fused_sm90/math.cuh"
#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/gated_delta/fused_sm90/state.cuh"
#include "cuda/gated_delta/fused_sm90/token_tiles.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// Blocks that take whole sequences take all of V, of 128x128 heads.
template <typename Layout>
inline constexpr StateDims kStateDims =
    Layout::kWholeSequences ? StateDims::square : StateDims::any;

struct NoLoads {};  ///< chain_math_role's LoadAhead where other threads of the block load

/// One warpgroup: where the state [Dv, Dk] lies from which the start of this piece is made: that of
/// the nearest piece before it that has forgotten what was before itself. Where that is the
/// sequence's first piece and its chain runs beside the pieces kernel, this waits until the chain
/// has handed its state on.
__device__ __forceinline__ const float* earliest_piece_state(const ChainParams& a,
                                                             const WorkItem& item, int panel,
                                                             int l) {
  if (item.start == from_first) {
    if (l == 0)
      while (load_acquire(first_state_ready(a, item.sequence, item.head, panel)) == 0) {
      }
    __syncwarp();
  }
  return a.work.piece_states + head_state_offset(a, item.piece_slot - 1 - item.combine, item.head);
}

/// One warpgroup: S <- S M + state. M arrives through the key ring, a tile at a time: first the
/// high parts of its rows 0 to 63 and 64 to 127, then the low parts. The arrays are the caller's:
/// `high` and `low` take S in two parts as the operand, and `next` takes the state, which is loaded
/// while the products run.
template <typename Layout>
__device__ __forceinline__ void apply_transition(float (&S)[64], const float* state,
                                                 uint32_t (&high)[32], uint32_t (&low)[32],
                                                 float (&next)[64], uint32_t sm, int panel,
                                                 RingCursor<typename Layout::Keys>& key, int w,
                                                 int l) {
#pragma unroll
  for (int j = 0; j < 32; j++) split_bfloat16(S[2 * j], S[2 * j + 1], high[j], low[j]);
  load_piece_state(next, state, panel * kPanel, w, l);
#pragma unroll
  for (int j = 0; j < 64; j++) S[j] = 0.f;
#pragma unroll
  for (int tile = 0; tile < 4; tile++) {
    const uint32_t M = key.buffer(sm);
    key.await_full(sm);
    wgmma::hold(S);
    wgmma::hold(high);
    wgmma::hold(low);
    wgmma::registers_ready();
#pragma unroll
    for (int step = 0; step < 4; step++) {
      const uint64_t b = wgmma::mn_major_128(M, 8192) + 128 * step;
      wgmma::multiply_rs_n128_trans<__nv_bfloat16>(S, high + 16 * (tile & 1) + 4 * step, b);
      if (tile < 2)
        wgmma::multiply_rs_n128_trans<__nv_bfloat16>(S, low + 16 * (tile & 1) + 4 * step, b);
    }
    wgmma::commit();
    wgmma::wait<0>();
    wgmma::hold(S);
    wgmma::hold(high);
    wgmma::hold(low);
    if (l == 0) key.release(sm);
    key.advance();
  }
#pragma unroll
  for (int j = 0; j < 64; j++) S[j] += next[j];
}

/// One warpgroup: S becomes the state that a work item starts from. The caller has set it to zeros,
/// and so it stays where the item starts from nothing.
template <typename Layout, typename Params>
__device__ __forceinline__ void load_start_state(float (&S)[64], uint32_t sm, const Params& a,
                                                 const WorkItem& item, int panel,
                                                 RingCursor<typename Layout::Keys>& key, int w,
                                                 int l) {
  const StatePool& pool = a.p.pool;
  if (item.start == from_pool && pool.read) {
    load_pool_state<kStateDims<Layout>>(S, pool, item.pool_row, item.head, panel * kPanel, w, l);
  } else if constexpr (!Layout::kWholeSequences) {
    if (item.start == from_saved) {
      load_piece_state(S, a.work.saved_states + head_state_offset(a, item.sequence, item.head),
                       panel * kPanel, w, l);
    } else if (item.start == from_pieces || item.start == from_first) {
      const int64_t each = head_state_offset(a, 1, 0);
      const float* state = earliest_piece_state(a, item, panel, l);
      load_piece_state(S, state, panel * kPanel, w, l);
#pragma unroll 1
      for (int i = 0; i < item.combine; i++) {
        uint32_t high[32], low[32];
        float next[64];
        state += each;
        apply_transition<Layout>(S, state, high, low, next, sm, panel, key, w, l);
      }
    }
  }
}

/// One warpgroup: zeros to the rows of K and V that are not this sequence's. In a block that makes
/// its records itself the rows of K are zero already: whoever made the record has seen to that.
template <typename Layout>
__device__ __forceinline__ void zero_past_end(uint32_t K, uint32_t V, int left, int wg, int t) {
  zero_own_columns(V, left, t);
  if constexpr (!Layout::kRecordsFromKeys) {
    if constexpr (Layout::kMathWarpgroups == 2) {
      zero_rows(K + wg * Layout::kPanelBytes, left, t);
    } else {
      zero_rows(K, left, t);
      zero_rows(K + Layout::kPanelBytes, left, t);
    }
  }
  fence_async_proxy();
  named_barrier_sync(all_math_barrier, 128 * Layout::kMathWarpgroups);
}

/// One warpgroup: stores the state after a work item, where later pieces or the caller find it.
template <typename Layout, typename Params>
__device__ __forceinline__ void store_end_state(const float (&S)[64], const Params& a,
                                                const WorkItem& item, const int& panel,
                                                const int& wg, const bool& leader, const int& w,
                                                const int& l) {
  if constexpr (!Layout::kWholeSequences) {
    if (item.flags & hands_on) {
      store_piece_state(S, a.work.piece_states + head_state_offset(a, item.piece_slot, item.head),
                        panel * kPanel, w, l);
      named_barrier_sync(first_math_barrier + wg, 128);
      if (leader) store_release(first_state_ready(a, item.sequence, item.head, panel), 1);
    }
  }
  if (a.p.pool.write && (item.flags & ends_sequence)) {
    const int64_t row = output_row(a.p, item.sequence, item.pool_row);
    if (row >= 0)
      store_pool_state<kStateDims<Layout>>(S, a.p.pool, row, item.head, panel * kPanel, w, l);
  }
}

/// How made_before_wait keeps arithmetic under the products: where two warpgroups share the tensor
/// cores it is called for each array by itself, and where one has them alone for all arrays in one
/// branch. Either was the faster in its place (log.md).
template <typename Layout>
inline constexpr bool kEachByItself = Layout::kMathWarpgroups == 2;

/// d = beta (V - gamma d). On entry d is SK, which is there only when `products_done` has waited
/// for it. `values` is V, `factors(which)` gives the chunk's factors, and x is the caller's array
/// for beta V. Where there are registers enough, all that does not need SK is made before the wait.
template <typename Layout, typename Token, typename FactorsOf, typename ProductsDone>
__device__ __forceinline__ void subtract_from_values(float (&x)[32], float (&d)[32],
                                                     const uint32_t (&values)[16],
                                                     const FactorsOf& factors, const bool& never,
                                                     const ProductsDone& products_done) {
  if constexpr (Layout::kRegistersToSpare) {
    scale_values<Token>(x, values, Factors(factors(kFactorBeta)));
    if constexpr (kEachByItself<Layout>) wgmma::made_before_wait(never, x);
    const Factors key_factors(factors(kFactorKey));
    if constexpr (kEachByItself<Layout>) {
      wgmma::made_before_wait(never, key_factors.value);
    } else {
      wgmma::made_before_wait(never, x, key_factors.value);
    }
    products_done();
    subtract_from(x, d, key_factors);
  } else {
    products_done();
    scale_values<Token>(x, values, factors(kFactorBeta));
    subtract_from(x, d, factors(kFactorKey));
  }
}

/// Waits until V' is there, in v, and starts the two products that need it: o += P V' and S += V'^T
/// (gamma_C / gamma) K. The caller waits for them. `ov` and `uv` are the caller's arrays for their
/// operands.
template <typename Token, typename AnyFactors>
__device__ __forceinline__ void output_and_update(float (&S)[64], float (&o)[32], float (&v)[32],
                                                  uint32_t (&ov)[16], uint32_t (&uv)[16],
                                                  uint32_t P, uint32_t K,
                                                  const AnyFactors& update_factors) {
  wgmma::wait<0>();
  wgmma::hold(v);
  wgmma::hold(uv);
  pack_operand<Token>(ov, v);
  wgmma::hold(ov);
  wgmma::registers_ready();
  multiply_triangle<Token>(o, ov, P, true);
  pack_scaled<Token>(uv, v, update_factors);
  wgmma::hold(uv);
  wgmma::registers_ready();
  update_state<Token>(S, uv, K);
}

/// The role of one math warpgroup, from the block's first work item to its last. Layout says where
/// the block's operands come from: it is ChainLayout, or the layout of the one-launch kernel.
///
/// LoadAhead says what the warpgroup's leader loads, where no other thread does (kMathLoads). It
/// has four functions. begin(item) is called before the block's first chunk, the other three in
/// every chunk, each when a buffer has become free: value() under the first products, since the V
/// buffer of the chunk before is free then, key() under the product with T, and query() at the
/// chunk's end.
template <typename Layout, typename Token, typename Params, typename LoadAhead = NoLoads>
__device__ __forceinline__ void chain_math_role(uint32_t sm, const CUtensorMap* output_map,
                                                const Params& a, int wg, int t,
                                                LoadAhead load_ahead = {}) {
  constexpr int kMathWarpgroups = Layout::kMathWarpgroups;
  const int w = t >> 5, l = t & 31, q = l & 3;
  const bool leader = t == 0, warp_leader = l == 0;
  float S[64], o[32], nv[32];  // nv is SK and then V', o is QS and then O
  uint32_t sb[32], xa[16], va[16];
#pragma unroll
  for (int i = 0; i < 32; i++) o[i] = nv[i] = 0.f;
  RingCursor<typename Layout::Keys> key;
  RingCursor<typename Layout::Queries> query;
  RingCursor<typename Layout::Values> value;

  for (int number = 0;; number++) {
    if constexpr (!Layout::kCheckpoints) make_zero_state(S);
    WorkItem item = follow_item<Layout>(sm, number);
    if (item.length < 0) break;
    if constexpr (Layout::kWholeSequences) {  // known of every item: the compiler may use it
      item.panel = 0;
      item.start = from_pool;
      if constexpr (!Layout::kCheckpoints) item.flags = ends_sequence;
    }
    if constexpr (Layout::kMathLoads) {
      if (number == 0 && leader) load_ahead.begin(item);
      __syncwarp();
    }
    const int panel = item.panel + wg;
    const int value_dim = Layout::kWholeSequences ? kValueDim : a.p.value_head_dim;
    const int64_t out_stride = static_cast<int64_t>(a.p.num_value_heads) * value_dim;
    const bool is_there = Layout::kWholeSequences || panel * kPanel < value_dim;
    // The address of O is made where it is used, for registers are scarce.
    const auto out_at = [&](int row) {
      return static_cast<Token*>(a.p.output) + (row >> a.rows.log2) * out_stride +
             item.head * value_dim + panel * kPanel;
    };
    if (!Layout::kWholeSequences && item.pool_row < 0) {  // padding: outputs are zeros
      store_padding(out_at(item.token0), out_stride, is_there ? item.length >> a.rows.log2 : 0, t);
      continue;
    }
    if constexpr (Layout::kCheckpoints) {
      if (!(item.flags & goes_on)) {
        make_zero_state(S);
        load_start_state<Layout>(S, sm, a, item, panel, key, w, l);
      }
    } else {
      load_start_state<Layout>(S, sm, a, item, panel, key, w, l);
    }

    int left = item.length;
#pragma unroll 1
    for (int token = item.token0; left > 0; token += kChunk, left -= kChunk) {
      const auto record = ring_at<typename Layout::Records>(value);  // its ring is in step with V's
      const uint32_t K = key.buffer(sm), Q = query.buffer(sm),
                     V = value.buffer(sm) + wg * Layout::kPanelBytes, T = record.buffer(sm),
                     F = T + RecordBuffer::kFactors;
      const auto factors = [&](uint32_t which) { return FactorsInMemory{F + which + 8 * q}; };
      const bool never = token < 0;  // for made_before_wait

      // SK = S K^T and QS = S Q^T
      key.await_full(sm);
      if (left < kChunk) [[unlikely]] {
        if constexpr (Layout::kRecordsFromKeys) record.await_full(sm);
        value.await_full(sm);
        zero_past_end<Layout>(K, V, left, wg, t);
      }
      pack_state<Token>(sb, S);
      if constexpr (kMathWarpgroups == 2) {
        if constexpr (Layout::kRecordsFromKeys) {
          mbarrier_wait(sm + Layout::kFactorsFull + 8 * record.index, record.round_parity);
        } else {
          record.await_full(sm);
        }
        scale_state(S, F);
      }
      query.await_full(sm);
      wgmma::hold(sb);
      wgmma::registers_ready();
      multiply_state<Token>(nv, sb, K);
      multiply_state<Token>(o, sb, Q);

      // While they run, V of the next chunk is asked for, and V of this one is read.
      if constexpr (Layout::kMathLoads) {
        if (leader) {
          bulk_wait_read<0>();  // the previous chunk's O has left its buffer
          load_ahead.value(key, value);
        }
        __syncwarp();
      }
      if constexpr (kMathWarpgroups == 1) record.await_full(sm);
      value.await_full(sm);
      load_values(xa, V, w, l);
      float x[32];
      const bool adds_to_x = forgets(load_shared<float>(F + kFactorGammaEnd));
      const auto state_products_done = [&]() {
        wgmma::wait<0>();
        wgmma::hold(nv);
        wgmma::hold(o);
        wgmma::hold(sb);
        if (warp_leader) query.release(sm);
      };

      // x = beta (V - gamma SK), in the place of SK.
      subtract_from_values<Layout, Token>(x, nv, xa, factors, never, state_products_done);

      // V' = T x, or x + T x. While it runs, O and the state are scaled.
      pack_operand<Token>(xa, nv);
      if constexpr (Layout::kRecordsFromKeys) record.await_full(sm);
      wgmma::hold(nv);
      wgmma::hold(xa);
      wgmma::registers_ready();
      multiply_triangle<Token>(nv, xa, T, adds_to_x);
      if constexpr (Layout::kMathLoads) {
        if (leader) load_ahead.key(key);
        __syncwarp();
      }
      if constexpr (kMathWarpgroups == 1) scale_state(S, F);
      scale(o, factors(kFactorQuery));
      wgmma::hold(o);

      // O = scale gamma QS + P V', and S <- gamma_C S + V'^T (gamma_C / gamma) K.
      const uint32_t P = T + RecordBuffer::kP;
      if constexpr (Layout::kRegistersToSpare) {
        if constexpr (kEachByItself<Layout>) wgmma::made_before_wait(never, o);
        const Factors update_factors(factors(kFactorUpdate));
        if constexpr (kEachByItself<Layout>) {
          wgmma::made_before_wait(never, update_factors.value);
        } else {
          wgmma::made_before_wait(never, S, o, update_factors.value);
        }
        output_and_update<Token>(S, o, nv, va, xa, P, K, update_factors);
      } else {
        output_and_update<Token>(S, o, nv, va, xa, P, K, factors(kFactorUpdate));
      }

      // O takes the place of V while the update runs.
      wgmma::wait<1>();
      wgmma::hold(o);
      wgmma::hold(va);
      store_outputs<Token>(V, o, w, l);
      fence_async_proxy();
      if constexpr (Layout::kMathLoads) {  // it goes from there to memory
        named_barrier_sync(first_math_barrier + wg, 128);
        if (left >= kChunk && leader) {
          store_output_tile(output_map, V, a.rows, token, panel, item.head);
          bulk_commit();
        }
      }
      if (left < kChunk) [[unlikely]] {
        __syncwarp();
        store_last_rows(V, out_at(token), out_stride, is_there ? left : 0, t, a.rows.log2);
      }
      if constexpr (!Layout::kMathLoads) {  // value_role stores O
        __syncwarp();
        if (warp_leader) value.release(sm);
      }
      wgmma::wait<0>();
      wgmma::hold(S);
      wgmma::hold(xa);

      __syncwarp();  // every lane has read K and the record
      if (warp_leader) key.release(sm);
      record.release(sm);  // every lane arrives, for all of them have read it
      if constexpr (Layout::kMathLoads) {
        if (leader) load_ahead.query(key, query);
        __syncwarp();
      }
      key.advance();
      query.advance();
      value.advance();
    }

    // In the one-launch kernel the next item's V may come only when all have read O's last rows.
    named_barrier_sync(first_math_barrier + wg, 128);
    if constexpr (Layout::kCheckpoints) {
      if (item.piece_slot >= 0)
        store_pool_state(S, a.p.checkpoints.states, item.piece_slot, item.head, panel * kPanel, w,
                         l);
    }
    store_end_state<Layout>(S, a, item, panel, wg, leader, w, l);
  }
  // In the one-launch kernel the last O is on its way. The chain has stored nothing here, so that
  // it has nothing to wait for, but without this line ptxas spills.
  if (leader) bulk_wait<0>();
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
