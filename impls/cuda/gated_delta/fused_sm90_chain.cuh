// Second and third kernel of fused_sm90: the dependent chain over the chunks of a sequence, and the
// pieces that it starts from where sequences are split (fused_sm90_units.cuh). A work item is one
// (sequence or piece, value head), or one half of its V columns; blocks are persistent. A math
// warpgroup owns 64 columns of V: S^T [64 v x 128 k] in float32 registers, whose 16-bit copy is the
// register operand of S K^T and S Q^T. Per chunk, three drains:
//
//   SK = S K^T, QS = S Q^T | x = beta (V - gamma SK), V' = T x | O = gamma QS + P V' and
//   S <- gamma_C S + V'^T K
//
// In a chunk that forgets (fused_sm90_common.cuh) T has no diagonal, and V' = x + T x.
//
// One further warpgroup finds the work items and loads: K and Q; V; the records of T, P and gate
// factors. The thread that loads V also stores O, which the math leaves in V's place.
//
// Tokens past the end of a sequence: K and V rows are zeroed in shared memory before their first
// use (the update multiplies every row), T, P and factors carry zeros there, and O rows are not
// stored.
#pragma once

#include "cuda/gated_delta/fused_sm90_state.cuh"
#include "cuda/gated_delta/fused_sm90_units.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/shared_memory.cuh"

namespace gdn::cuda::fused_sm90 {

/// Factors of the 16 tokens that are this lane's columns of an accumulator of 64 tokens, by pairs;
/// `at`: those of the first pair.
struct FactorsInMemory {
  uint32_t at;
  __device__ __forceinline__ float2 operator[](int pair) const {
    return load_shared<float2>(at + 32 * pair);
  }
};
/// The same in registers.
struct Factors {
  float value[16];
  __device__ __forceinline__ explicit Factors(FactorsInMemory from) {
#pragma unroll
    for (int pair = 0; pair < 8; pair++) {
      const float2 two = from[pair];
      value[2 * pair] = two.x;
      value[2 * pair + 1] = two.y;
    }
  }
  __device__ __forceinline__ float2 operator[](int pair) const {
    return make_float2(value[2 * pair], value[2 * pair + 1]);
  }
};

/// x = factors v. v: a register operand [64 columns of V x 64 tokens].
template <typename Token, typename AnyFactors>
__device__ __forceinline__ void scale_values(float (&x)[32], const uint32_t (&v)[16],
                                             const AnyFactors& factors) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 f = factors[j], v0 = unpack<Token>(v[2 * j]), v1 = unpack<Token>(v[2 * j + 1]);
    x[4 * j] = f.x * v0.x;
    x[4 * j + 1] = f.y * v0.y;
    x[4 * j + 2] = f.x * v1.x;
    x[4 * j + 3] = f.y * v1.y;
  }
}
/// d = x - factors d; said as one operation, so that it is the same one in every kernel.
template <typename AnyFactors>
__device__ __forceinline__ void subtract_from(const float (&x)[32], float (&d)[32],
                                              const AnyFactors& factors) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 f = factors[j];
    d[4 * j] = fmaf(-f.x, d[4 * j], x[4 * j]);
    d[4 * j + 1] = fmaf(-f.y, d[4 * j + 1], x[4 * j + 1]);
    d[4 * j + 2] = fmaf(-f.x, d[4 * j + 2], x[4 * j + 2]);
    d[4 * j + 3] = fmaf(-f.y, d[4 * j + 3], x[4 * j + 3]);
  }
}
/// d = factors d.
template <typename AnyFactors>
__device__ __forceinline__ void scale(float (&d)[32], const AnyFactors& factors) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 f = factors[j];
    d[4 * j] *= f.x;
    d[4 * j + 1] *= f.y;
    d[4 * j + 2] *= f.x;
    d[4 * j + 3] *= f.y;
  }
}
/// The register operand of d.
template <typename Token>
__device__ __forceinline__ void pack_operand(uint32_t (&a)[16], const float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 16; i++) a[i] = pack<Token>(d[2 * i], d[2 * i + 1]);
}
/// That of factors d.
template <typename Token, typename AnyFactors>
__device__ __forceinline__ void pack_scaled(uint32_t (&a)[16], const float (&d)[32],
                                            const AnyFactors& factors) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 f = factors[j];
    a[2 * j] = pack<Token>(d[4 * j] * f.x, d[4 * j + 1] * f.y);
    a[2 * j + 1] = pack<Token>(d[4 * j + 2] * f.x, d[4 * j + 3] * f.y);
  }
}

/// S <- gamma_C S.
__device__ __forceinline__ void scale_state(float (&S)[64], uint32_t record_factors) {
  const float gamma_end = load_shared<float>(record_factors + kFactorGammaEnd);
#pragma unroll
  for (int i = 0; i < 64; i++) S[i] *= gamma_end;
  wgmma::hold(S);
}

struct NoLoads {};  ///< other threads of the block load

/// One math warpgroup. Layout: where the block's operands come from (ChainLayout, or that of the
/// one-launch kernel). Pieces: the kernel before the chain that makes piece states and transitions;
/// no Q, P or output. LoadAhead: what the leader loads, begin(item) before the block's first chunk
/// and in every chunk, by its stages, value() under the first products, when the V buffer of the
/// chunk before is free, key() under the second and query() at the end.
template <typename Layout, typename Token, bool Pieces, typename LoadAhead = NoLoads>
__device__ __forceinline__ void math_role(uint32_t sm, const CUtensorMap* output_map,
                                          const KernelArguments& a, int wg, int t,
                                          LoadAhead load_ahead = {}) {
  constexpr int MathWarpgroups = Layout::kMathWarpgroups;
  constexpr bool kMayStartFromPieces = !Pieces && !Layout::kWholeSequences;
  const int w = t >> 5, l = t & 31, q = l & 3;
  const bool leader = t == 0, warp_leader = l == 0;
  constexpr uint64_t kNextSlice = Layout::kSlice / 16;  // on a descriptor
  float S[64], o[32], nv[32];
  uint32_t sb[32], xa[16], va[16];
#pragma unroll
  for (int i = 0; i < 32; i++) o[i] = nv[i] = 0.f;
  const uint32_t v_row = (l & 7) + ((l >> 4) << 3), v_byte = w * 32 + ((l >> 3) & 1) * 16;
  RingPosition<Layout::kKeyStages> key;
  RingPosition<Layout::kQueryStages> query;
  RingPosition<Layout::kValueStages> value;
  // V and record of a chunk are in the same stage, but for pieces: transitions have no V
  static_assert(Layout::kValueStages == Layout::kRecordStages);
  RingPosition<Layout::kRecordStages> own_record;
  RingPosition<Layout::kRecordStages>& record = Pieces ? own_record : value;

  for (int unit = 0;; unit++) {
    // a state of zeros is made while the item is awaited: what follows jumps over the other states'
    // code at once, and jumps to code that is not there yet take long
#pragma unroll
    for (int i = 0; i < 64; i++) S[i] = 0.f;
    wgmma::hold(S);
    Unit u = follow_unit<Layout>(sm, unit);
    if (u.length < 0) break;
    if constexpr (Layout::kWholeSequences) {  // as they all are
      u.panel = 0;
      u.start = from_pool;
      u.flags = ends_sequence;
    }
    if constexpr (Layout::kMathLoads) {
      if (unit == 0 && leader) load_ahead.begin(u);
      __syncwarp();
    }
    const int panel = u.panel + wg;
    const int64_t out_stride = static_cast<int64_t>(a.p.num_value_heads) * kDim;
    const auto out_at = [&](int token) {  // made where it is used: registers are scarce
      return static_cast<Token*>(a.p.output) + token * out_stride + u.head * kDim + panel * 64;
    };
    if (!Layout::kWholeSequences && u.pool_row < 0) {  // padding: outputs are zeros
      if constexpr (!Pieces)
        for (int i = t; i < u.length * 8; i += 128)
          *reinterpret_cast<uint4*>(out_at(u.token0) + (i >> 3) * out_stride + (i & 7) * 8) =
              make_uint4(0, 0, 0, 0);
      __syncwarp();  // else the compiler takes all that follows for divergent: no uniform registers
      continue;
    }
    const StatePool& pool = a.p.pool;
    if (u.start == from_pool && pool.read) {
      load_pool_state(S, pool, u.pool_row, u.head, panel * 64, w, l);
    } else if (Pieces && u.start == from_unit) {
      for_state_elements(w, l,
                         [&](int i, int v, int k) { S[i] = panel * 64 + v == k ? 1.f : 0.f; });
    } else if (kMayStartFromPieces && u.start == from_saved) {
      load_piece_state(S, a.saved_states + head_state_offset(a, u.sequence, u.head), panel * 64, w,
                       l);
    } else if (kMayStartFromPieces && (u.start == from_pieces || u.start == from_first)) {
      // S = state of the first piece that forgets what was before it, then S <- M S + state, M by
      // the key ring: tiles high 0, high 1, low 0, low 1
      const int64_t each = static_cast<int64_t>(a.p.num_value_heads) * kDim * kDim;
      if (u.start == from_first) {
        if (warp_leader)
          while (load_acquire(first_state_ready(a, u.sequence, u.head, panel)) == 0) {
          }
        __syncwarp();
      }
      const float* state =
          a.piece_states + head_state_offset(a, u.piece_slot - 1 - u.combine, u.head);
      load_piece_state(S, state, panel * 64, w, l);
#pragma unroll 1
      for (int i = 0; i < u.combine; i++) {
        uint32_t low[32];
#pragma unroll
        for (int j = 0; j < 32; j++) split_bfloat16(S[2 * j], S[2 * j + 1], sb[j], low[j]);
        state += each;
        float next[64];  // arrives under the products
        load_piece_state(next, state, panel * 64, w, l);
#pragma unroll
        for (int j = 0; j < 64; j++) S[j] = 0.f;
#pragma unroll
        for (int tile = 0; tile < 4; tile++) {
          const uint32_t M = sm + Layout::kKey + key.index * Layout::kTileBytes;
          mbarrier_wait(sm + Layout::kKeyFull + 8 * key.index, key.round_parity);
          wgmma::hold(S);
          wgmma::hold(sb);
          wgmma::hold(low);
          wgmma::registers_ready();
#pragma unroll
          for (int step = 0; step < 4; step++) {
            const uint64_t b = wgmma::mn_major_128(M, 8192) + 128 * step;
            wgmma::multiply_rs_n128_trans<__nv_bfloat16>(S, sb + 16 * (tile & 1) + 4 * step, b);
            if (tile < 2)
              wgmma::multiply_rs_n128_trans<__nv_bfloat16>(S, low + 16 * (tile & 1) + 4 * step, b);
          }
          wgmma::commit();
          wgmma::wait<0>();
          wgmma::hold(S);
          wgmma::hold(sb);
          wgmma::hold(low);
          if (warp_leader) mbarrier_arrive(sm + Layout::kKeyEmpty + 8 * key.index);
          key.advance();
        }
#pragma unroll
        for (int j = 0; j < 64; j++) S[j] += next[j];
      }
    }

    if constexpr (Pieces) {
      // S <- gamma_C S + V'^T K over whole chunks; V = 0 for a transition
      const bool has_values = u.start != from_unit;
#pragma unroll 1
      for (int left = u.length; left > 0; left -= kChunk) {
        const uint32_t K = sm + Layout::kKey + key.index * Layout::kTileBytes,
                       V = sm + Layout::kValue + value.index * Layout::kValueBytes + wg * 8192,
                       T = sm + Layout::kRecord + record.index * Layout::kRecordStage,
                       F = T + Layout::kFactors;
        mbarrier_wait(sm + Layout::kKeyFull + 8 * key.index, key.round_parity);
#pragma unroll
        for (int i = 0; i < 32; i++) sb[i] = pack<Token>(S[2 * i], S[2 * i + 1]);
        mbarrier_wait(sm + Layout::kRecordFull + 8 * record.index, record.round_parity);
        const auto factors = [&](uint32_t which) { return FactorsInMemory{F + which + 8 * q}; };
        scale_state(S, F);
        wgmma::hold(sb);
        wgmma::registers_ready();
#pragma unroll
        for (int i = 0; i < 8; i++)
          wgmma::multiply_rs_n64<Token>(
              nv, sb + 4 * i, wgmma::k_major_128(K) + 2 * (i & 3) + 512 * (i >> 2), i > 0);
        wgmma::commit();
        float x[32] = {};
        if (has_values) {
          mbarrier_wait(sm + Layout::kValueFull + 8 * value.index, value.round_parity);
#pragma unroll
          for (int i = 0; i < 4; i++)
            load_matrix_x4_trans(V + swizzle_128(16 * i + v_row, v_byte), xa[4 * i], xa[4 * i + 1],
                                 xa[4 * i + 2], xa[4 * i + 3]);
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
          if (warp_leader) mbarrier_arrive(sm + Layout::kValueEmpty + 8 * value.index);
          value.advance();
        }
        subtract_from(x, nv, key_factors);
        pack_operand<Token>(xa, nv);
        wgmma::hold(nv);
        wgmma::hold(xa);
        wgmma::registers_ready();
#pragma unroll
        for (int i = 0; i < 4; i++)
          wgmma::multiply_rs_n64<Token>(nv, xa + 4 * i, wgmma::k_major_32(T) + kNextSlice * i,
                                        i > 0 || adds_to_x);
        wgmma::commit();
        const Factors update_factors(factors(kFactorUpdate));
        wgmma::made_before_wait(left < 0, update_factors.value);
        wgmma::wait<0>();
        wgmma::hold(nv);
        wgmma::hold(xa);
        pack_scaled<Token>(xa, nv, update_factors);
        wgmma::hold(xa);
        wgmma::registers_ready();
#pragma unroll
        for (int i = 0; i < 4; i++)
          wgmma::multiply_rs_n128_trans<Token>(S, xa + 4 * i,
                                               wgmma::mn_major_128(K, 8192) + 128 * i);
        wgmma::commit();
        wgmma::wait<0>();
        wgmma::hold(S);
        wgmma::hold(xa);
        __syncwarp();
        if (warp_leader) mbarrier_arrive(sm + Layout::kKeyEmpty + 8 * key.index);
        mbarrier_arrive(sm + Layout::kRecordEmpty + 8 * record.index);  // every reader, as it reads
        key.advance();
        record.advance();
      }
      if (has_values) {
        store_piece_state(S, a.piece_states + head_state_offset(a, u.piece_slot, u.head),
                          panel * 64, w, l);
      } else {
        store_transition(
            S,
            a.transitions + (static_cast<int64_t>(u.piece_slot) * a.p.num_value_heads + u.head) *
                                kTransitionBytes,
            panel, w, l);
      }
      continue;
    }

    int left = u.length;
#pragma unroll 1
    for (int token = u.token0; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t K = sm + Layout::kKey + key.index * Layout::kTileBytes,
                     Q = sm + Layout::kQuery + query.index * Layout::kTileBytes,
                     V = sm + Layout::kValue + value.index * Layout::kValueBytes + wg * 8192,
                     T = sm + Layout::kRecord + record.index * Layout::kRecordStage,
                     F = T + Layout::kFactors;
      const auto factors = [&](uint32_t which) { return FactorsInMemory{F + which + 8 * q}; };
      // for made_before_wait: each array by itself where two warpgroups share the tensor cores
      // (measured: fused_sm90.md)
      const bool never = token < 0;
      constexpr bool kEachByItself = MathWarpgroups == 2;
      mbarrier_wait(sm + Layout::kKeyFull + 8 * key.index, key.round_parity);
      if (left < kChunk) [[unlikely]] {  // zero the rows of K and V that are not this sequence's
        if constexpr (Layout::kRecordsFromKeys)  // those of K are zero when the record is there
          mbarrier_wait(sm + Layout::kRecordFull + 8 * record.index, record.round_parity);
        mbarrier_wait(sm + Layout::kValueFull + 8 * value.index, value.round_parity);
        zero_own_columns(V, left, t);
        if constexpr (!Layout::kRecordsFromKeys) {
          if constexpr (MathWarpgroups == 2) {
            zero_rows(K + wg * 8192, left, t);
          } else {
            zero_rows(K, left, t);
            zero_rows(K + 8192, left, t);
          }
        }
        fence_async_proxy();
        named_barrier_sync(5, 128 * MathWarpgroups);
      }
#pragma unroll
      for (int i = 0; i < 32; i++) sb[i] = pack<Token>(S[2 * i], S[2 * i + 1]);
      if constexpr (MathWarpgroups == 2) {
        if constexpr (Layout::kRecordsFromKeys) {
          mbarrier_wait(sm + Layout::kFactorsFull + 8 * record.index, record.round_parity);
        } else {
          mbarrier_wait(sm + Layout::kRecordFull + 8 * record.index, record.round_parity);
        }
        scale_state(S, F);
      }
      mbarrier_wait(sm + Layout::kQueryFull + 8 * query.index, query.round_parity);
      wgmma::hold(sb);
      wgmma::registers_ready();
#pragma unroll
      for (int i = 0; i < 8; i++)
        wgmma::multiply_rs_n64<Token>(nv, sb + 4 * i,
                                      wgmma::k_major_128(K) + 2 * (i & 3) + 512 * (i >> 2), i > 0);
      wgmma::commit();
#pragma unroll
      for (int i = 0; i < 8; i++)
        wgmma::multiply_rs_n64<Token>(o, sb + 4 * i,
                                      wgmma::k_major_128(Q) + 2 * (i & 3) + 512 * (i >> 2), i > 0);
      wgmma::commit();
      if constexpr (Layout::kMathLoads) {
        if (leader) {
          bulk_wait_read<0>();  // the previous chunk's O has left its buffer
          load_ahead.value(key, value);
        }
        __syncwarp();
      }
      if constexpr (MathWarpgroups == 1)
        mbarrier_wait(sm + Layout::kRecordFull + 8 * record.index, record.round_parity);
      mbarrier_wait(sm + Layout::kValueFull + 8 * value.index, value.round_parity);
#pragma unroll
      for (int i = 0; i < 4; i++)
        load_matrix_x4_trans(V + swizzle_128(16 * i + v_row, v_byte), xa[4 * i], xa[4 * i + 1],
                             xa[4 * i + 2], xa[4 * i + 3]);
      float x[32];
      const bool adds_to_x = forgets(load_shared<float>(F + kFactorGammaEnd));
      const auto products_done = [&]() {
        wgmma::wait<0>();
        wgmma::hold(nv);
        wgmma::hold(o);
        wgmma::hold(sb);
        if (warp_leader) mbarrier_arrive(sm + Layout::kQueryEmpty + 8 * query.index);
      };
      if constexpr (Layout::kRegistersToSpare) {
        scale_values<Token>(x, xa, Factors(factors(kFactorBeta)));
        if constexpr (kEachByItself) wgmma::made_before_wait(never, x);
        const Factors key_factors(factors(kFactorKey));
        if constexpr (kEachByItself) {
          wgmma::made_before_wait(never, key_factors.value);
        } else {
          wgmma::made_before_wait(never, x, key_factors.value);
        }
        products_done();
        subtract_from(x, nv, key_factors);
      } else {
        products_done();
        scale_values<Token>(x, xa, factors(kFactorBeta));
        subtract_from(x, nv, factors(kFactorKey));
      }
      pack_operand<Token>(xa, nv);
      if constexpr (Layout::kRecordsFromKeys)
        mbarrier_wait(sm + Layout::kRecordFull + 8 * record.index, record.round_parity);
      wgmma::hold(nv);
      wgmma::hold(xa);
      wgmma::registers_ready();
#pragma unroll
      for (int i = 0; i < 4; i++)
        wgmma::multiply_rs_n64<Token>(nv, xa + 4 * i, wgmma::k_major_32(T) + kNextSlice * i,
                                      i > 0 || adds_to_x);
      wgmma::commit();
      if constexpr (Layout::kMathLoads) {
        if (leader) load_ahead.key(key);
        __syncwarp();
      }
      if constexpr (MathWarpgroups == 1) scale_state(S, F);
      scale(o, factors(kFactorQuery));
      wgmma::hold(o);
      const auto update_products = [&](const auto& update_factors) {
        wgmma::wait<0>();
        wgmma::hold(nv);
        wgmma::hold(xa);
        pack_operand<Token>(va, nv);
        wgmma::hold(va);
        wgmma::registers_ready();
#pragma unroll
        for (int i = 0; i < 4; i++)
          wgmma::multiply_rs_n64<Token>(o, va + 4 * i,
                                        wgmma::k_major_32(T + Layout::kP) + kNextSlice * i, true);
        wgmma::commit();
        pack_scaled<Token>(xa, nv, update_factors);
        wgmma::hold(xa);
        wgmma::registers_ready();
#pragma unroll
        for (int i = 0; i < 4; i++)
          wgmma::multiply_rs_n128_trans<Token>(S, xa + 4 * i,
                                               wgmma::mn_major_128(K, 8192) + 128 * i);
        wgmma::commit();
      };
      if constexpr (Layout::kRegistersToSpare) {
        if constexpr (kEachByItself) wgmma::made_before_wait(never, o);
        const Factors update_factors(factors(kFactorUpdate));
        if constexpr (kEachByItself) {
          wgmma::made_before_wait(never, update_factors.value);
        } else {
          wgmma::made_before_wait(never, S, o, update_factors.value);
        }
        update_products(update_factors);
      } else {
        update_products(factors(kFactorUpdate));
      }
      wgmma::wait<1>();
      wgmma::hold(o);
      wgmma::hold(va);
      // O replaces V; one launch: stored under the update
#pragma unroll
      for (int i = 0; i < 4; i++)
        store_matrix_x4_trans(
            V + swizzle_128(16 * i + v_row, v_byte), pack<Token>(o[8 * i], o[8 * i + 1]),
            pack<Token>(o[8 * i + 2], o[8 * i + 3]), pack<Token>(o[8 * i + 4], o[8 * i + 5]),
            pack<Token>(o[8 * i + 6], o[8 * i + 7]));
      fence_async_proxy();
      if constexpr (Layout::kMathLoads) {
        named_barrier_sync(3 + wg, 128);
        if (left >= kChunk && leader) {
          tensor_store(output_map, V, 0, token, panel, u.head);
          bulk_commit();
        }
      }
      if (left < kChunk) [[unlikely]] {  // the box would reach into the next sequence
        __syncwarp();
        Token* rows = out_at(token);  // of these the warp's own columns
#pragma unroll 1
        for (int i = t % 32; i < left * 2; i += 32) {
          const int byte = own_byte(t, i);
          *reinterpret_cast<uint4*>(rows + (i >> 1) * out_stride + byte / 2) =
              load_shared<uint4>(V + swizzle_128(i >> 1, byte));
        }
      }
      if constexpr (!Layout::kMathLoads) {
        __syncwarp();
        if (warp_leader) mbarrier_arrive(sm + Layout::kValueEmpty + 8 * value.index);
      }
      wgmma::wait<0>();
      wgmma::hold(S);
      wgmma::hold(xa);
      __syncwarp();  // every lane has read the record
      if (warp_leader) mbarrier_arrive(sm + Layout::kKeyEmpty + 8 * key.index);
      mbarrier_arrive(sm + Layout::kRecordEmpty + 8 * record.index);  // every reader
      if constexpr (Layout::kMathLoads) {
        if (leader) load_ahead.query(key, query);
        __syncwarp();
      }
      key.advance();
      query.advance();
      value.advance();  // and with it the record
    }
    named_barrier_sync(3 + wg, 128);  // one launch: ordinary reads of O are done
    if (kMayStartFromPieces && (u.flags & hands_on)) {
      store_piece_state(S, a.piece_states + head_state_offset(a, u.piece_slot, u.head), panel * 64,
                        w, l);
      named_barrier_sync(3 + wg, 128);
      if (leader) store_release(first_state_ready(a, u.sequence, u.head, panel), 1);
    }
    if (pool.write && (u.flags & ends_sequence))
      store_pool_state(S, pool, u.pool_row, u.head, panel * 64, w, l);
  }
  // one launch: the last O is on its way; the chain has stored none here, but ptxas spills without
  if (leader) bulk_wait<0>();
}

/// Pieces: the pieces kernel (output_map is not used); otherwise the chain.
template <typename Token, int MathWarpgroups, bool Pieces>
__global__ void __launch_bounds__(ChainLayout<MathWarpgroups>::kThreads, 1)
    chain_kernel(const __grid_constant__ CUtensorMap query_map,
                 const __grid_constant__ CUtensorMap key_map,
                 const __grid_constant__ CUtensorMap value_map,
                 const __grid_constant__ CUtensorMap output_map, const KernelArguments a) {
  using Layout = ChainLayout<MathWarpgroups>;
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  uint8_t* shared =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023});
  const uint32_t sm = shared_address(shared);
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  constexpr int kUnitWarp = Layout::kThreads / 32 - 1;
  if constexpr (Pieces) {  // every block finds for itself whether there is anything to do
    // one chain waits for this kernel's end; of two, the first must not start before what prepare
    // has made is there
    if (!a.two_chains) launch_dependents();
    if (threadIdx.x == 0) store_shared(sm + Layout::kIsFar, 0);
    __syncthreads();
    if (any_piece_is_far<Layout::kThreads>(a)) store_shared(sm + Layout::kIsFar, 1);
    wait_for_prerequisites();
    launch_dependents();
    __syncthreads();
    const int is_far = load_shared<int>(sm + Layout::kIsFar);
    if (blockIdx.x == 0 && threadIdx.x == 0)
      store_release(a.decision, is_far ? some_far : all_near);
    if (is_far == 0) return;
  } else if (a.serves == Serves::near_gates) {
    launch_dependents();  // the chain for far gates
  }
  Item item{};
  int number = -1;
  if (warp == kUnitWarp) {
    if (Pieces || a.serves == Serves::any_gates || serves_this_run(a)) {
      item = find_item<MathWarpgroups, Pieces>(a, number, lane);
    } else {
      item.unit = no_unit();
    }
  } else {
    if (warp == kUnitWarp - 1 && lane == 0) {
      for (int i = 0; i < 4; i++) {
        mbarrier_init(sm + Layout::kKeyFull + 8 * i, 1);
        mbarrier_init(sm + Layout::kKeyEmpty + 8 * i, 4 * MathWarpgroups);
        mbarrier_init(sm + Layout::kQueryFull + 8 * i, 1);
        mbarrier_init(sm + Layout::kQueryEmpty + 8 * i, 4 * MathWarpgroups);
        mbarrier_init(sm + Layout::kValueFull + 8 * i, 1);
        mbarrier_init(sm + Layout::kValueEmpty + 8 * i, 4 * MathWarpgroups);
        mbarrier_init(sm + Layout::kRecordFull + 8 * i, 1);
        mbarrier_init(sm + Layout::kRecordEmpty + 8 * i, 128 * MathWarpgroups);
      }
      mbarrier_init(sm + Layout::kUnitFull, 1);
      mbarrier_init(sm + Layout::kUnitEmpty, 128 * MathWarpgroups + 3);
      fence_mbarrier_init();
    }
    if (warp == 0 && lane < 4) {
      prefetch_tensor_map(lane == 0   ? &key_map
                          : lane == 1 ? &query_map
                          : lane == 2 ? &value_map
                                      : &output_map);
    }
    // what records leave out of the triangles is zero and stays so
    for (uint32_t i = threadIdx.x; i < Layout::kRecordStages * Layout::kRecordStage / 16;
         i += 32 * kUnitWarp)
      store_shared(sm + Layout::kRecord + 16 * i, make_uint4(0, 0, 0, 0));
    fence_async_proxy();
  }
  __syncthreads();
  const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), t = threadIdx.x % 128;
  if (wg < MathWarpgroups) {
    if constexpr (MathWarpgroups == 2) registers_increase<(Pieces ? 216 : 224)>();
    math_role<Layout, Token, Pieces>(sm, &output_map, a, wg, t);
  } else {
    if constexpr (MathWarpgroups == 2) registers_decrease<(Pieces ? 72 : 56)>();
    if (t == 0) {
      key_query_role<MathWarpgroups, Pieces>(sm, &query_map, &key_map, a);
    } else if (t == 32) {
      value_role<MathWarpgroups, Pieces>(sm, &value_map, &output_map);
    } else if (t == 64) {
      record_role<MathWarpgroups, Pieces>(sm, a);
    } else if (warp == kUnitWarp) {
      unit_role<MathWarpgroups, Pieces>(sm, a, item, number, lane);
    }
  }
}

}  // namespace gdn::cuda::fused_sm90
