// The math warpgroups of channel_sm90. Each owns 64 columns of V, and so 64 rows of the state
// S [Dv, Dk], in float32 registers. With K~, Q~, K^, T and P of a chunk (auxiliary.cuh), transposed
// so that columns of V are the rows of wgmma's accumulators:
//
//   [S K~^T | S Q~^T];   x = beta (V - S K~^T);   V' = T x;
//   O = scale (S Q~^T + P V');   S <- S diag(e^G_C) + V'^T K^.
//
// S, x and V' are rounded to the token type as operands, S not as it is carried. With float16
// tokens an element of S beyond 65504 is therefore infinite to every product, as in fused_sm90.
#pragma once

#include "cuda/gated_delta/channel_sm90/layout.cuh"
#include "cuda/gated_delta/channel_sm90/work_item.cuh"
#include "cuda/gated_delta/chunk_sm90/pool_state.cuh"
#include "cuda/gated_delta/chunk_sm90/workspace_state.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// A warpgroup: zeros to its columns of a padding sequence's outputs.
__device__ __forceinline__ void store_zero_panel(const ChannelParams& a, const WorkItem& item,
                                                 int panel, int t) {
  for (int64_t i = t; i < int64_t{item.length} * 8; i += 128) {
    const int64_t element = output_index(a.p, item.token0 + (i >> 3), item.head,
                                         panel * kPanel + 8 * static_cast<int>(i & 7));
    *reinterpret_cast<uint4*>(static_cast<uint16_t*>(a.p.output) + element) =
        make_uint4(0, 0, 0, 0);
  }
}

/// One chunk, `valid` of its tokens the sequence's. `lane` is made anew by the caller.
template <typename Token>
__device__ __forceinline__ void math_chunk(float (&S)[64], uint32_t sm,
                                           const RingCursor<Layout::Chunks>& chunk,
                                           const RingCursor<Layout::Values>& value, int valid,
                                           float scale, int panel, int warp, int lane) {
  const int t = lane & 3;
  const uint32_t row = (lane & 7) + ((lane >> 3) & 1) * 8;
  const uint32_t slot = chunk.buffer(sm), triangle = row * 32 + (lane >> 4) * 16;
  const uint32_t decays = sm + Layout::kDecay + chunk.index * Layout::kDecayBytes + t * 8;
  // V and O: matrices of 8 tokens x 8 columns, transposed as they are read and written
  const uint32_t V = value.buffer(sm) + panel * Layout::kPanelBytes +
                     swizzle_128((lane & 7) + (lane >> 4) * 8, (2 * warp + ((lane >> 3) & 1)) * 16);

  // [S K~^T | S Q~^T]: [64 columns of V x 32]
  uint32_t sb[32];
#pragma unroll
  for (int i = 0; i < 32; i++) sb[i] = pack<Token>(S[2 * i], S[2 * i + 1]);
  chunk.await_full(sm);
  float d[16];
  wgmma::hold(sb);
  wgmma::registers_ready();
  const uint64_t keys_and_queries = wgmma::k_major_128(slot);
#pragma unroll
  for (int k = 0; k < 8; k++)
    wgmma::multiply_rs_n32<Token>(
        d, sb + 4 * k, keys_and_queries + 2 * (k & 3) + (Layout::kNextPanel / 16) * (k >> 2),
        k > 0);
  wgmma::commit();
  uint32_t T[4], P[4], v[4];
  load_matrix_x4(slot + Layout::kT + triangle, T[0], T[1], T[2], T[3]);
  load_matrix_x4(slot + Layout::kP + triangle, P[0], P[1], P[2], P[3]);
  const float2 beta0 = load_shared<float2>(slot + Layout::kBeta + t * 8),
               beta1 = load_shared<float2>(slot + Layout::kBeta + 32 + t * 8);
  value.await_full(sm);
  load_matrix_x4_trans(V, v[0], v[1], v[2], v[3]);
  wgmma::wait<0>();
  wgmma::hold(d);
  wgmma::hold(sb);

  // x and V'
  uint32_t x[4];
#pragma unroll
  for (int r = 0; r < 4; r++) {  // tokens 2t, 2t + 1, and from r = 2 on 8 more
    const float2 values = unpack<Token>(v[r]), beta = r < 2 ? beta0 : beta1;
    float x0 = beta.x * (values.x - d[2 * r]), x1 = beta.y * (values.y - d[2 * r + 1]);
    if (valid < kChunk) {  // another sequence's values: any bits
      const int token = 2 * t + 8 * (r >> 1);
      if (token >= valid) x0 = 0.f;
      if (token + 1 >= valid) x1 = 0.f;
    }
    x[r] = pack<Token>(x0, x1);
  }
  float y0[4] = {}, y1[4] = {};
  mma_m16n8k16<Token>(y0, x, T[0], T[2]);
  mma_m16n8k16<Token>(y1, x, T[1], T[3]);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    const float2 decay = load_shared<float2>(decays + j * 32);
    S[4 * j] *= decay.x;
    S[4 * j + 1] *= decay.y;
    S[4 * j + 2] *= decay.x;
    S[4 * j + 3] *= decay.y;
  }
  uint32_t u[4] = {pack<Token>(y0[0], y0[1]), pack<Token>(y0[2], y0[3]), pack<Token>(y1[0], y1[1]),
                   pack<Token>(y1[2], y1[3])};
  wgmma::hold(u);
  wgmma::hold(S);
  wgmma::registers_ready();
  wgmma::multiply_rs_n128_trans<Token>(
      S, u, wgmma::mn_major_128(slot + Layout::kKeyToEnd, Layout::kPanelBytes));
  wgmma::commit();

  // O, under the update of S
  float o0[4] = {d[8], d[9], d[10], d[11]}, o1[4] = {d[12], d[13], d[14], d[15]};
  mma_m16n8k16<Token>(o0, u, P[0], P[2]);
  mma_m16n8k16<Token>(o1, u, P[1], P[3]);
  store_matrix_x4_trans(
      V, pack<Token>(scale * o0[0], scale * o0[1]), pack<Token>(scale * o0[2], scale * o0[3]),
      pack<Token>(scale * o1[0], scale * o1[1]), pack<Token>(scale * o1[2], scale * o1[3]));
  fence_async_proxy();
  value.release(sm);
  wgmma::wait<0>();
  wgmma::hold(S);
  wgmma::hold(u);
  chunk.release(sm);
}

/// A warpgroup: zeros to its part of the checkpoints that are not wanted.
__device__ __forceinline__ void store_absent_states(const ChannelParams& a, const WorkItem& item,
                                                    int panel, int t) {
  const SequenceSpan span = {item.token0, item.length, item.pool_row};
  store_absent_checkpoints(a.p, item.sequence, span, item.head, panel * kPanel,
                           (panel + 1) * kPanel, t, 128);
}

/// A warpgroup: S as the work item starts from it.
template <Work kWork>
__device__ __forceinline__ void load_start_state(float (&S)[64], const ChannelParams& a,
                                                 const WorkItem& item, int panel, int warp,
                                                 int lane) {
  const bool is_handed_on = kWork == Work::pieces && !item.is_whole;
  if (item.is_from_zeros || (item.is_first && !a.p.pool.read)) {
#pragma unroll
    for (int i = 0; i < 64; i++) S[i] = 0.f;
  } else if (is_handed_on) {
    const int slot = item.is_first ? item.first_slot : item.slot;
    chunk_sm90::load_piece_state(S, a.states + matrix_offset(a, slot, item.head), panel * kPanel,
                                 warp, lane);
  } else {
    chunk_sm90::load_pool_state(S, a.p.pool, item.pool_row, item.head, panel * kPanel, warp, lane);
  }
}

/// A warpgroup: columns 64 panel .. 64 panel + 63 of V, in every work item.
template <typename Token, Work kWork>
__device__ __forceinline__ void math_role(uint32_t sm, const ChannelParams& a, int panel, int t) {
  const int warp = __shfl_sync(~0u, t >> 5, 0), lane = t & 31;
  RingCursor<Layout::Chunks> chunk;
  RingCursor<Layout::Values> value;
  const unsigned items = items_of<kWork>(sm, a);
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < items; number += gridDim.x) {
    WorkItem item = item_of<kWork>(sm, a, number);
    if constexpr (kWork == Work::checkpoints) {
      // what zeros are stored by is made where they are: held across the loop, it spills
      asm volatile("" : "+r"(t));
      store_absent_states(a, item, panel, t);
    }
    if (item.length == 0) continue;  // its pool row stays as it is
    if (item.pool_row < 0) {
      store_zero_panel(a, item, panel, t);
      continue;
    }
    Parts<kWork> parts(a, item);
    float S[64];
    load_start_state<kWork>(S, a, item, panel, warp, lane);
    do {
#pragma unroll 1
      for (int left = item.length; left > 0; left -= kChunk) {
        math_chunk<Token>(S, sm, chunk, value, left, a.p.scale, panel, warp, lane);
        chunk.advance();
        value.advance();
      }
      if (kWork == Work::checkpoints && item.checkpoint >= 0)
        chunk_sm90::store_pool_state(S, a.p.checkpoints.states,
                                     item.sequence * a.p.checkpoints.count + item.checkpoint,
                                     item.head, panel * kPanel, warp, lane);
    } while (parts.next(a, item));
    if (const int64_t row = output_row(a.p, item.sequence, item.pool_row);
        item.is_last && a.p.pool.write && row >= 0)
      chunk_sm90::store_pool_state(S, a.p.pool, row, item.head, panel * kPanel, warp, lane);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
