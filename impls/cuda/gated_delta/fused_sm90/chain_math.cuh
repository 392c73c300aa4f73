// The math warpgroups' role of the chain kernel and of the one-launch kernel: the dependent chain
// over the chunks of a work item, with the state in registers (math.cuh has the arithmetic).
//
// Its steps take small values by const reference where a copy makes the compiler order the
// instructions of a chunk in another way.
#pragma once

#include "cuda/gated_delta/fused_sm90/math.cuh"
#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/gated_delta/fused_sm90/state.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

struct NoLoads {};  ///< other threads of the block load

/// One warpgroup: the state [Dv, Dk] of the first piece that forgets what was before it, of those
/// before this one; once it is there, if a first piece hands it on.
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

/// One warpgroup: S <- M S + state. M arrives by the key ring, a tile at a time: high parts of rows
/// 0 to 63 and 64 to 127, then low ones. The arrays are the caller's: S in two parts as an operand,
/// and the state, which arrives under the products.
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

/// One warpgroup: the state that a work item starts from; S is zeros before.
template <typename Layout, typename Params>
__device__ __forceinline__ void load_start_state(float (&S)[64], uint32_t sm, const Params& a,
                                                 const WorkItem& item, int panel,
                                                 RingCursor<typename Layout::Keys>& key, int w,
                                                 int l) {
  const StatePool& pool = a.p.pool;
  if (item.start == from_pool && pool.read) {
    load_pool_state(S, pool, item.pool_row, item.head, panel * kPanel, w, l);
  } else if constexpr (!Layout::kWholeSequences) {
    if (item.start == from_saved) {
      load_piece_state(S, a.work.saved_states + head_state_offset(a, item.sequence, item.head),
                       panel * kPanel, w, l);
    } else if (item.start == from_pieces || item.start == from_first) {
      const int64_t each = static_cast<int64_t>(a.p.num_value_heads) * kStateElements;
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

/// One warpgroup: zeros to the rows of K and V that are not this sequence's. Those of K are zero
/// when the record is there where the block makes its records itself.
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

/// One warp: rows of O of the item's last, incomplete chunk, of the warp's own columns, from the
/// panel to memory. A box of the copy engine would reach into the next sequence.
template <typename Token>
__device__ __forceinline__ void store_last_rows(uint32_t panel, Token* rows, int64_t stride,
                                                int left, int t) {
#pragma unroll 1
  for (int i = t % 32; i < left * 2; i += 32) {
    const int byte = own_byte(t, i);
    *reinterpret_cast<uint4*>(rows + (i >> 1) * stride + byte / 2) =
        load_shared<uint4>(panel + swizzle_128(i >> 1, byte));
  }
}

/// One warpgroup: zeros to 64 columns of the outputs of padding.
template <typename Token>
__device__ __forceinline__ void store_padding(Token* rows, int64_t stride, int tokens, int t) {
  for (int i = t; i < tokens * 8; i += 128)
    *reinterpret_cast<uint4*>(rows + (i >> 3) * stride + (i & 7) * 8) = make_uint4(0, 0, 0, 0);
  __syncwarp();  // else the compiler takes all that follows for divergent: no uniform registers
}

/// One warpgroup: the state after a work item to where later pieces or the caller find it.
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
  if (a.p.pool.write && (item.flags & ends_sequence))
    store_pool_state(S, a.p.pool, item.pool_row, item.head, panel * kPanel, w, l);
}

/// How arithmetic is kept under the products before a wait: made_before_wait takes each array by
/// itself where two warpgroups share the tensor cores, and all in one branch where one has them
/// (measured: log.md).
template <typename Layout>
inline constexpr bool kEachByItself = Layout::kMathWarpgroups == 2;

/// d = beta (V - gamma d), d = SK once `products_done` has waited for it; `factors(which)`: of the
/// chunk; x: the caller's array for beta V. Where registers allow it, all that does not need SK is
/// made before the wait.
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

/// Once V' is there: o += P V' and S += V'^T K, both on their way. `ov`, `uv`: their operands.
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

/// One math warpgroup. Layout: where the block's operands come from (ChainLayout, or that of the
/// one-launch kernel). LoadAhead: what the leader loads, begin(item) before the block's first chunk
/// and in every chunk, by its stages, value() under the first products, when the V buffer of the
/// chunk before is free, key() under the second and query() at the end.
template <typename Layout, typename Token, typename Params, typename LoadAhead = NoLoads>
__device__ __forceinline__ void chain_math_role(uint32_t sm, const CUtensorMap* output_map,
                                                const Params& a, int wg, int t,
                                                LoadAhead load_ahead = {}) {
  constexpr int kMathWarpgroups = Layout::kMathWarpgroups;
  const int w = t >> 5, l = t & 31, q = l & 3;
  const bool leader = t == 0, warp_leader = l == 0;
  float S[64], o[32], nv[32];  // nv: SK, then V'; o: QS, then O
  uint32_t sb[32], xa[16], va[16];
#pragma unroll
  for (int i = 0; i < 32; i++) o[i] = nv[i] = 0.f;
  RingCursor<typename Layout::Keys> key;
  RingCursor<typename Layout::Queries> query;
  RingCursor<typename Layout::Values> value;

  for (int number = 0;; number++) {
    make_zero_state(S);
    WorkItem item = follow_item<Layout>(sm, number);
    if (item.length < 0) break;
    if constexpr (Layout::kWholeSequences) {  // as they all are
      item.panel = 0;
      item.start = from_pool;
      item.flags = ends_sequence;
    }
    if constexpr (Layout::kMathLoads) {
      if (number == 0 && leader) load_ahead.begin(item);
      __syncwarp();
    }
    const int panel = item.panel + wg;
    const int64_t out_stride = static_cast<int64_t>(a.p.num_value_heads) * kValueDim;
    const auto out_at = [&](int token) {  // made where it is used: registers are scarce
      return static_cast<Token*>(a.p.output) + token * out_stride + item.head * kValueDim +
             panel * kPanel;
    };
    if (!Layout::kWholeSequences && item.pool_row < 0) {  // padding: outputs are zeros
      store_padding(out_at(item.token0), out_stride, item.length, t);
      continue;
    }
    load_start_state<Layout>(S, sm, a, item, panel, key, w, l);

    int left = item.length;
#pragma unroll 1
    for (int token = item.token0; left > 0; token += kChunk, left -= kChunk) {
      const auto record = ring_at<typename Layout::Records>(value);  // in step with V
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

      // under them: V of the next chunk is asked for, x = beta V
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

      // x = beta (V - gamma SK)
      subtract_from_values<Layout, Token>(x, nv, xa, factors, never, state_products_done);

      // V' = (x +) T x; under it O and the state are scaled
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

      // O = gamma QS + P V' and S <- gamma_C S + V'^T K
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

      // O to the place of V, under the update
      wgmma::wait<1>();
      wgmma::hold(o);
      wgmma::hold(va);
      store_outputs<Token>(V, o, w, l);
      fence_async_proxy();
      if constexpr (Layout::kMathLoads) {  // and from there to memory
        named_barrier_sync(first_math_barrier + wg, 128);
        if (left >= kChunk && leader) {
          tensor_store(output_map, V, 0, token, panel, item.head);
          bulk_commit();
        }
      }
      if (left < kChunk) [[unlikely]] {
        __syncwarp();
        store_last_rows(V, out_at(token), out_stride, left, t);
      }
      if constexpr (!Layout::kMathLoads) {  // value_role stores it
        __syncwarp();
        if (warp_leader) value.release(sm);
      }
      wgmma::wait<0>();
      wgmma::hold(S);
      wgmma::hold(xa);

      __syncwarp();  // every lane has read the record
      if (warp_leader) key.release(sm);
      record.release(sm);  // every reader
      if constexpr (Layout::kMathLoads) {
        if (leader) load_ahead.query(key, query);
        __syncwarp();
      }
      key.advance();
      query.advance();
      value.advance();
    }

    named_barrier_sync(first_math_barrier + wg, 128);  // one launch: ordinary reads of O are done
    store_end_state<Layout>(S, a, item, panel, wg, leader, w, l);
  }
  // one launch: the last O is on its way; the chain has stored none here, but ptxas spills without
  if (leader) bulk_wait<0>();
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
