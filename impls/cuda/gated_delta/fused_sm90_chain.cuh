// Second kernel of fused_sm90: the dependent chain over the chunks of a sequence. A work item is
// one (sequence, value head), or one half of its V columns; blocks are persistent and take items
// longest first from a counter. A math warpgroup owns 64 columns of V: S^T [64 v x 128 k] in
// float32 registers, whose 16-bit copy is the register operand of S K^T and S Q^T. Per chunk, three
// drains:
//
//   SK = S K^T, QS = S Q^T | V' = T (V - gamma SK) | O = gamma QS + P V' and S <- gamma_C S + V'^T
//   K
//
// One further warpgroup loads: K, Q and the work items; V; the records of T, P and gate factors.
//
// Tokens past the end of a sequence: K and V rows are zeroed in shared memory before their first
// use (the update multiplies every row), T, P and factors carry zeros there, and O rows are not
// stored.
#pragma once

#include "cuda/gated_delta/fused_sm90_common.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/hopper/wgmma.cuh"

namespace gdn::cuda::fused_sm90 {

using namespace hopper;

/// MathWarpgroups 2: a block does all of V; 1: a block does 64 columns of V.
template <int MathWarpgroups>
struct ChainLayout {
  static constexpr int kThreads = 128 * (MathWarpgroups + 1);
  static constexpr int kKeyStages = 4, kQueryStages = 3, kValueStages = 3, kRecordStages = 3;
  static constexpr uint32_t kTileBytes = 16384;  // [2 panels][64 tokens][64]
  static constexpr uint32_t kValueBytes =
      MathWarpgroups * 8192;  // panels of this block; O in place
  // record in shared memory: four slices of [64][16], rows above each slice's first zero
  static constexpr uint32_t kSlice = 2048, kP = 8192, kFactors = 16384, kRecordStage = 17408;
  static constexpr uint32_t kKey = 0, kQuery = kKey + kKeyStages * kTileBytes,
                            kValue = kQuery + kQueryStages * kTileBytes,
                            kRecord = kValue + kValueStages * kValueBytes,
                            kBarriers = kRecord + kRecordStages * kRecordStage;
  // barriers, 8 bytes each
  static constexpr uint32_t kKeyFull = kBarriers, kKeyEmpty = kKeyFull + 32,
                            kQueryFull = kKeyEmpty + 32, kQueryEmpty = kQueryFull + 32,
                            kValueFull = kQueryEmpty + 32, kValueEmpty = kValueFull + 32,
                            kRecordFull = kValueEmpty + 32, kRecordEmpty = kRecordFull + 32,
                            kUnitFull = kRecordEmpty + 32, kUnitEmpty = kUnitFull + 16,
                            kUnits = kUnitEmpty + 16;
  static constexpr uint32_t kBytes = kUnits + 2 * 32 + 1024;  // 1024: to align the tiles
};

/// A work item as the loading warp hands it on.
struct alignas(16) Unit {
  int token0;      // first token
  int length;      // tokens; negative: no more work
  int head;        // value head
  int panel;       // first 64-column panel of V
  int pool_row;    // -1: padding
  int chunk_slot;  // of its first chunk
  int unused[2];
};

/// Visits the 64 state elements of this thread: f(register, v, k). Rows of V: warp w, lane l.
template <typename Visit>
__device__ __forceinline__ void for_state_elements(int warp, int lane, Visit visit) {
#pragma unroll
  for (int j = 0; j < 16; j++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      visit(4 * j + e, 16 * warp + lane / 4 + 8 * (e >> 1), 8 * j + 2 * (lane % 4) + (e & 1));
}

template <typename Element>
__device__ __forceinline__ void load_state_rows(float (&S)[64], const StatePool& pool,
                                                int64_t offset, int v0, int warp, int lane) {
  const Element* state = static_cast<const Element*>(pool.data) + offset;
  for_state_elements(warp, lane, [&](int i, int v, int k) {
    S[i] = to_float(state[state_element(pool, k, v0 + v)]);
  });
}
template <typename Element>
__device__ __forceinline__ void store_state_rows(const float (&S)[64], const StatePool& pool,
                                                 int64_t offset, int v0, int warp, int lane) {
  Element* state = static_cast<Element*>(pool.data) + offset;
  for_state_elements(warp, lane, [&](int i, int v, int k) {
    state[state_element(pool, k, v0 + v)] = from_float<Element>(S[i]);
  });
}

template <typename Token, int MathWarpgroups>
__device__ __forceinline__ void math_role(uint32_t sm, const CUtensorMap* output_map,
                                          const KernelArguments& a, int wg, int t) {
  using Layout = ChainLayout<MathWarpgroups>;
  const int w = t >> 5, l = t & 31, q = l & 3;
  const bool leader = t == 0, warp_leader = l == 0;
  float S[64], o[32], nv[32];
  uint32_t sb[32], xa[16], va[16];
#pragma unroll
  for (int i = 0; i < 32; i++) o[i] = nv[i] = 0.f;
  const uint32_t v_row = (l & 7) + ((l >> 4) << 3), v_byte = w * 32 + ((l >> 3) & 1) * 16;
  RingPosition<Layout::kKeyStages> key;
  RingPosition<Layout::kQueryStages> query;
  RingPosition<Layout::kValueStages> value;
  RingPosition<Layout::kRecordStages> record;
  RingPosition<2> unit_ring;

  for (;;) {
    mbarrier_wait(sm + Layout::kUnitFull + 8 * unit_ring.index, unit_ring.round_parity);
    const uint32_t unit = sm + Layout::kUnits + 32 * unit_ring.index;
    const int4 u = load_shared<int4>(unit);  // token0, length, head, panel
    const int pool_row = load_shared<int>(unit + 16);
    __syncwarp();
    if (warp_leader) mbarrier_arrive(sm + Layout::kUnitEmpty + 8 * unit_ring.index);
    unit_ring.advance();
    const int length = u.y;
    if (length < 0) break;
    const int panel = u.w + wg;
    Token* out = static_cast<Token*>(a.p.output) +
                 (static_cast<int64_t>(u.x) * a.p.num_value_heads + u.z) * kDim + panel * 64;
    const int64_t out_stride = static_cast<int64_t>(a.p.num_value_heads) * kDim;
    if (pool_row < 0) {  // padding: outputs are zeros
      for (int i = t; i < length * 8; i += 128)
        *reinterpret_cast<uint4*>(out + (i >> 3) * out_stride + (i & 7) * 8) =
            make_uint4(0, 0, 0, 0);
      continue;
    }
    const StatePool& pool = a.p.pool;
    const int64_t state_base = state_offset(pool, pool_row, u.z);
    if (!pool.read) {
#pragma unroll
      for (int i = 0; i < 64; i++) S[i] = 0.f;
    } else if (pool.dtype == DType::float32) {
      load_state_rows<float>(S, pool, state_base, panel * 64, w, l);
    } else if (pool.dtype == DType::bfloat16) {
      load_state_rows<__nv_bfloat16>(S, pool, state_base, panel * 64, w, l);
    } else {
      load_state_rows<__half>(S, pool, state_base, panel * 64, w, l);
    }

    int left = length;
#pragma unroll 1
    for (int token = u.x; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t K = sm + Layout::kKey + key.index * Layout::kTileBytes,
                     Q = sm + Layout::kQuery + query.index * Layout::kTileBytes,
                     V = sm + Layout::kValue + value.index * Layout::kValueBytes + wg * 8192,
                     T = sm + Layout::kRecord + record.index * Layout::kRecordStage,
                     F = T + Layout::kFactors;
      mbarrier_wait(sm + Layout::kKeyFull + 8 * key.index, key.round_parity);
      if (left < kChunk) {  // zero the rows of K and V that are not this sequence's
        mbarrier_wait(sm + Layout::kValueFull + 8 * value.index, value.round_parity);
        for (int i = left * 8 + t; i < kChunk * 8; i += 128) {
          store_shared(V + 16 * i, make_uint4(0, 0, 0, 0));
          if constexpr (MathWarpgroups == 2) {
            store_shared(K + wg * 8192 + 16 * i, make_uint4(0, 0, 0, 0));
          } else {
            store_shared(K + 16 * i, make_uint4(0, 0, 0, 0));
            store_shared(K + 8192 + 16 * i, make_uint4(0, 0, 0, 0));
          }
        }
        fence_async_proxy();
        named_barrier_sync(5, 128 * MathWarpgroups);
      }
#pragma unroll
      for (int i = 0; i < 32; i++) sb[i] = pack<Token>(S[2 * i], S[2 * i + 1]);
      auto scale_state = [&]() {
        mbarrier_wait(sm + Layout::kRecordFull + 8 * record.index, record.round_parity);
        const float gamma_end = load_shared<float>(F + 768);
#pragma unroll
        for (int i = 0; i < 64; i++) S[i] *= gamma_end;
        wgmma::hold(S);
      };
      if constexpr (MathWarpgroups == 2) scale_state();
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
      if constexpr (MathWarpgroups == 1)
        mbarrier_wait(sm + Layout::kRecordFull + 8 * record.index, record.round_parity);
      mbarrier_wait(sm + Layout::kValueFull + 8 * value.index, value.round_parity);
#pragma unroll
      for (int i = 0; i < 4; i++)
        load_matrix_x4_trans(V + swizzle_128(16 * i + v_row, v_byte), xa[4 * i], xa[4 * i + 1],
                             xa[4 * i + 2], xa[4 * i + 3]);
      wgmma::wait<0>();
      wgmma::hold(nv);
      wgmma::hold(o);
      wgmma::hold(sb);
      if (warp_leader) mbarrier_arrive(sm + Layout::kQueryEmpty + 8 * query.index);
        // x = V - gamma SK, the operand of V'^T = x T^T
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float2 f = load_shared<float2>(F + 8 * q + 32 * j);
        const float2 v0 = unpack<Token>(xa[2 * j]), v1 = unpack<Token>(xa[2 * j + 1]);
        xa[2 * j] = pack<Token>(v0.x - f.x * nv[4 * j], v0.y - f.y * nv[4 * j + 1]);
        xa[2 * j + 1] = pack<Token>(v1.x - f.x * nv[4 * j + 2], v1.y - f.y * nv[4 * j + 3]);
      }
      wgmma::hold(xa);
      wgmma::registers_ready();
#pragma unroll
      for (int i = 0; i < 4; i++)
        wgmma::multiply_rs_n64<Token>(nv, xa + 4 * i, wgmma::k_major_32(T + Layout::kSlice * i),
                                      i > 0);
      wgmma::commit();
      if (token != u.x && leader) {  // the previous chunk's O has left its buffer
        bulk_wait_read<0>();
        mbarrier_arrive(sm + Layout::kValueEmpty +
                        8 * (value.index == 0 ? Layout::kValueStages - 1 : value.index - 1));
      }
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float2 f = load_shared<float2>(F + 256 + 8 * q + 32 * j);
        o[4 * j] *= f.x;
        o[4 * j + 1] *= f.y;
        o[4 * j + 2] *= f.x;
        o[4 * j + 3] *= f.y;
      }
      wgmma::hold(o);
      if constexpr (MathWarpgroups == 1) scale_state();
      wgmma::wait<0>();
      wgmma::hold(nv);
      wgmma::hold(xa);
#pragma unroll
      for (int i = 0; i < 16; i++) va[i] = pack<Token>(nv[2 * i], nv[2 * i + 1]);
      wgmma::hold(va);
      wgmma::registers_ready();
#pragma unroll
      for (int i = 0; i < 4; i++)
        wgmma::multiply_rs_n64<Token>(o, va + 4 * i,
                                      wgmma::k_major_32(T + Layout::kP + Layout::kSlice * i), true);
      wgmma::commit();
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float2 f = load_shared<float2>(F + 512 + 8 * q + 32 * j);
        xa[2 * j] = pack<Token>(nv[4 * j] * f.x, nv[4 * j + 1] * f.y);
        xa[2 * j + 1] = pack<Token>(nv[4 * j + 2] * f.x, nv[4 * j + 3] * f.y);
      }
      wgmma::hold(xa);
      wgmma::registers_ready();
#pragma unroll
      for (int i = 0; i < 4; i++)
        wgmma::multiply_rs_n128_trans<Token>(S, xa + 4 * i, wgmma::mn_major_128(K, 8192) + 128 * i);
      wgmma::commit();
      wgmma::wait<1>();
      wgmma::hold(o);
      wgmma::hold(va);
      // O replaces V; stored under the update
#pragma unroll
      for (int i = 0; i < 4; i++)
        store_matrix_x4_trans(
            V + swizzle_128(16 * i + v_row, v_byte), pack<Token>(o[8 * i], o[8 * i + 1]),
            pack<Token>(o[8 * i + 2], o[8 * i + 3]), pack<Token>(o[8 * i + 4], o[8 * i + 5]),
            pack<Token>(o[8 * i + 6], o[8 * i + 7]));
      fence_async_proxy();
      named_barrier_sync(3 + wg, 128);
      if (left >= kChunk) {
        if (leader) {
          tensor_store(output_map, V, 0, token, panel, u.z);
          bulk_commit();
        }
      } else {  // the box would reach into the next sequence
        Token* rows = out + (token - u.x) * out_stride;
        for (int i = t; i < left * 8; i += 128)
          *reinterpret_cast<uint4*>(rows + (i >> 3) * out_stride + (i & 7) * 8) =
              load_shared<uint4>(V + swizzle_128(i >> 3, (i & 7) * 16));
      }
      wgmma::wait<0>();
      wgmma::hold(S);
      wgmma::hold(xa);
      if (warp_leader) {
        mbarrier_arrive(sm + Layout::kKeyEmpty + 8 * key.index);
        mbarrier_arrive(sm + Layout::kRecordEmpty + 8 * record.index);
      }
      key.advance();
      query.advance();
      record.advance();
      value.advance();
    }
    named_barrier_sync(3 + wg, 128);  // ordinary reads of O are done
    if (leader) {
      bulk_wait_read<0>();
      mbarrier_arrive(sm + Layout::kValueEmpty +
                      8 * (value.index == 0 ? Layout::kValueStages - 1 : value.index - 1));
    }
    if (pool.write) {
      if (pool.dtype == DType::float32) {
        store_state_rows<float>(S, pool, state_base, panel * 64, w, l);
      } else if (pool.dtype == DType::bfloat16) {
        store_state_rows<__nv_bfloat16>(S, pool, state_base, panel * 64, w, l);
      } else {
        store_state_rows<__half>(S, pool, state_base, panel * 64, w, l);
      }
    }
  }
  if (leader) bulk_wait<0>();
}

/// One thread: takes work items, hands them on, loads their K and Q.
template <int MathWarpgroups>
__device__ __forceinline__ void key_query_role(uint32_t sm, const CUtensorMap* query_map,
                                               const CUtensorMap* key_map,
                                               const KernelArguments& a) {
  using Layout = ChainLayout<MathWarpgroups>;
  constexpr int kHalves = 2 / MathWarpgroups;
  RingPosition<Layout::kKeyStages> key;
  RingPosition<Layout::kQueryStages> query;
  RingPosition<2> unit_ring;
  wait_for_prerequisites();  // the order, the counter and the records
  for (;;) {
    int4 u = make_int4(0, -1, 0, 0);
    int pool_row = 0, chunk_slot = 0;
    for (;;) {
      int i = atomicAdd(a.next_unit, 1);
      if (i >= a.units) break;
      const int panel = (i % kHalves) * MathWarpgroups;
      i /= kHalves;
      const int head = i % a.p.num_value_heads, n = a.order[i / a.p.num_value_heads];
      const SequenceSpan span = sequence_span(a.p, n);
      if (span.length == 0) continue;  // the pool row stays as it is
      u = make_int4(static_cast<int>(span.first), static_cast<int>(span.length), head, panel);
      pool_row = static_cast<int>(span.row);
      chunk_slot = static_cast<int>(first_chunk_slot(span.first, n));
      break;
    }
    mbarrier_wait(sm + Layout::kUnitEmpty + 8 * unit_ring.index, unit_ring.round_parity ^ 1);
    const uint32_t unit = sm + Layout::kUnits + 32 * unit_ring.index;
    store_shared(unit, u);
    store_shared(unit + 16, make_int2(pool_row, chunk_slot));
    mbarrier_arrive(sm + Layout::kUnitFull + 8 * unit_ring.index);
    unit_ring.advance();
    if (u.y < 0) return;
    if (pool_row < 0) continue;
    const int key_head = u.z / a.p.value_heads_per_key_head;
    int left = u.y;
    for (int token = u.x; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t key_full = sm + Layout::kKeyFull + 8 * key.index,
                     query_full = sm + Layout::kQueryFull + 8 * query.index;
      mbarrier_wait(sm + Layout::kKeyEmpty + 8 * key.index, key.round_parity ^ 1);
      mbarrier_arrive_expect(key_full, Layout::kTileBytes);
      tensor_load(sm + Layout::kKey + key.index * Layout::kTileBytes, key_map, key_full, 0, token,
                  0, key_head);
      mbarrier_wait(sm + Layout::kQueryEmpty + 8 * query.index, query.round_parity ^ 1);
      mbarrier_arrive_expect(query_full, Layout::kTileBytes);
      tensor_load(sm + Layout::kQuery + query.index * Layout::kTileBytes, query_map, query_full, 0,
                  token, 0, key_head);
      key.advance();
      query.advance();
    }
  }
}

/// One thread: calls item(unit, chunk_slot) for every work item that has chunks.
template <typename Layout, typename Item>
__device__ __forceinline__ void follow_units(uint32_t sm, Item item) {
  RingPosition<2> unit_ring;
  for (;;) {
    mbarrier_wait(sm + Layout::kUnitFull + 8 * unit_ring.index, unit_ring.round_parity);
    const uint32_t unit = sm + Layout::kUnits + 32 * unit_ring.index;
    const int4 u = load_shared<int4>(unit);
    const int2 rest = load_shared<int2>(unit + 16);
    mbarrier_arrive(sm + Layout::kUnitEmpty + 8 * unit_ring.index);
    unit_ring.advance();
    if (u.y < 0) return;
    if (rest.x >= 0) item(u, rest.y);
  }
}

template <typename Token, int MathWarpgroups>
__global__ void __launch_bounds__(ChainLayout<MathWarpgroups>::kThreads, 1)
    chain_kernel(const __grid_constant__ CUtensorMap query_map,
                 const __grid_constant__ CUtensorMap key_map,
                 const __grid_constant__ CUtensorMap value_map,
                 const __grid_constant__ CUtensorMap output_map, const KernelArguments a) {
  using Layout = ChainLayout<MathWarpgroups>;
  extern __shared__ uint8_t raw[];
  uint8_t* shared =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023});
  const uint32_t sm = shared_address(shared);
  // what records leave out of the triangles is zero and stays so
  for (uint32_t i = threadIdx.x; i < Layout::kRecordStages * Layout::kRecordStage / 16;
       i += Layout::kThreads)
    store_shared(sm + Layout::kRecord + 16 * i, make_uint4(0, 0, 0, 0));
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; i++) {
      mbarrier_init(sm + Layout::kKeyFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kKeyEmpty + 8 * i, 4 * MathWarpgroups);
      mbarrier_init(sm + Layout::kQueryFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kQueryEmpty + 8 * i, 4 * MathWarpgroups);
      mbarrier_init(sm + Layout::kValueFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kValueEmpty + 8 * i, MathWarpgroups);
      mbarrier_init(sm + Layout::kRecordFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kRecordEmpty + 8 * i, 4 * MathWarpgroups);
    }
    for (int i = 0; i < 2; i++) {
      mbarrier_init(sm + Layout::kUnitFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kUnitEmpty + 8 * i, 4 * MathWarpgroups + 2);
    }
    fence_mbarrier_init();
  }
  fence_async_proxy();
  __syncthreads();
  const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), t = threadIdx.x % 128;
  if (wg < MathWarpgroups) {
    if constexpr (MathWarpgroups == 2) registers_increase<232>();
    math_role<Token, MathWarpgroups>(sm, &output_map, a, wg, t);
  } else {
    if constexpr (MathWarpgroups == 2) registers_decrease<40>();
    if (t == 0) {
      key_query_role<MathWarpgroups>(sm, &query_map, &key_map, a);
    } else if (t == 32) {
      RingPosition<Layout::kValueStages> value;
      follow_units<Layout>(sm, [&](int4 u, int) {
        int left = u.y;
        for (int token = u.x; left > 0; token += kChunk, left -= kChunk) {
          const uint32_t full = sm + Layout::kValueFull + 8 * value.index;
          mbarrier_wait(sm + Layout::kValueEmpty + 8 * value.index, value.round_parity ^ 1);
          mbarrier_arrive_expect(full, Layout::kValueBytes);
          tensor_load(sm + Layout::kValue + value.index * Layout::kValueBytes, &value_map, full, 0,
                      token, u.w, u.z);
          value.advance();
        }
      });
    } else if (t == 64) {
      wait_for_prerequisites();
      RingPosition<Layout::kRecordStages> stage;
      follow_units<Layout>(sm, [&](int4 u, int chunk_slot) {
        const uint8_t* record =
            a.records + (static_cast<int64_t>(chunk_slot) * a.p.num_value_heads + u.z) *
                            static_cast<int64_t>(kRecordBytes);
        for (int left = u.y; left > 0; left -= kChunk) {
          const uint32_t to = sm + Layout::kRecord + stage.index * Layout::kRecordStage,
                         full = sm + Layout::kRecordFull + 8 * stage.index;
          mbarrier_wait(sm + Layout::kRecordEmpty + 8 * stage.index, stage.round_parity ^ 1);
          mbarrier_arrive_expect(full, 2 * kTriangleBytes + kFactorBytes);
#pragma unroll
          for (int b = 0; b < 4; b++) {  // rows 16b..63 of slice b
            const uint32_t bytes = 2048 - 512 * b, from = triangle_slice(b) + 512 * b;
            bulk_load(to + Layout::kSlice * b + 512 * b, record + from, bytes, full);
            bulk_load(to + Layout::kP + Layout::kSlice * b + 512 * b,
                      record + kTriangleBytes + from, bytes, full);
          }
          bulk_load(to + Layout::kFactors, record + 2 * kTriangleBytes, kFactorBytes, full);
          record += static_cast<int64_t>(a.p.num_value_heads) * kRecordBytes;
          stage.advance();
        }
      });
    }
  }
}

}  // namespace gdn::cuda::fused_sm90
