// The math warpgroups of channel_sm90 in Work::transitions (work_item.cuh): as in math.cuh, without
// queries and outputs. A transition is made as a state is, from S = I and V = 0, a row of it where a
// state has a column of V.
#pragma once

#include "cuda/gated_delta/channel_sm90/math.cuh"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

static_assert(kValueDim == kKeyDim);

/// One chunk, which is whole. `values`: V of this warpgroup, two tokens a register, zeros of a
/// transition.
template <typename Token, typename LoadValues>
__device__ __forceinline__ void piece_math_chunk(float (&S)[64], uint32_t sm,
                                                 const RingCursor<Layout::Chunks>& chunk, int lane,
                                                 LoadValues load_values) {
  const int t = lane & 3;
  const uint32_t row = (lane & 7) + ((lane >> 3) & 1) * 8;
  const uint32_t slot = chunk.buffer(sm), triangle = row * 32 + (lane >> 4) * 16;
  const uint32_t decays = sm + Layout::kDecay + chunk.index * Layout::kDecayBytes + t * 8;

  // S K~^T: [64 columns of V x 16]
  uint32_t sb[32];
#pragma unroll
  for (int i = 0; i < 32; i++) sb[i] = pack<Token>(S[2 * i], S[2 * i + 1]);
  chunk.await_full(sm);
  float d[8];
  wgmma::hold(sb);
  wgmma::registers_ready();
  const uint64_t keys = wgmma::k_major_128(slot);
#pragma unroll
  for (int k = 0; k < 8; k++)
    wgmma::multiply_rs_n16<Token>(d, sb + 4 * k,
                                  keys + 2 * (k & 3) + (Layout::kNextPanel / 16) * (k >> 2), k > 0);
  wgmma::commit();
  uint32_t T[4], v[4];
  load_matrix_x4(slot + Layout::kT + triangle, T[0], T[1], T[2], T[3]);
  const float2 beta0 = load_shared<float2>(slot + Layout::kBeta + t * 8),
               beta1 = load_shared<float2>(slot + Layout::kBeta + 32 + t * 8);
  load_values(v);
  wgmma::wait<0>();
  wgmma::hold(d);
  wgmma::hold(sb);

  // x and V'
  uint32_t x[4];
#pragma unroll
  for (int r = 0; r < 4; r++) {  // tokens 2t, 2t + 1, and from r = 2 on 8 more
    const float2 values = unpack<Token>(v[r]), beta = r < 2 ? beta0 : beta1;
    x[r] = pack<Token>(beta.x * (values.x - d[2 * r]), beta.y * (values.y - d[2 * r + 1]));
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
  wgmma::wait<0>();
  wgmma::hold(S);
  wgmma::hold(u);
  chunk.release(sm);
}

/// A warpgroup: rows 64 panel .. 64 panel + 63 of every state and transition.
template <typename Token>
__device__ __forceinline__ void piece_math_role(uint32_t sm, const ChannelParams& a, int panel,
                                                int t) {
  const int warp = __shfl_sync(~0u, t >> 5, 0), lane = t & 31;
  RingCursor<Layout::Chunks> chunk;
  RingCursor<Layout::Values> value;
  const unsigned items = items_of<Work::transitions>(sm, a);
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < items; number += gridDim.x) {
    const WorkItem item = item_of<Work::transitions>(sm, a, number);
    const auto matrix = [&](float* array, int slot) {
      return array + matrix_offset(a, slot, item.head);
    };
    float S[64];
#pragma unroll
    for (int i = 0; i < 64; i++) S[i] = 0.f;
    if (item.is_transition) {
      chunk_sm90::for_state_elements(warp, lane, [&](int i, int row, int column) {
        S[i] = panel * kPanel + row == column ? 1.f : 0.f;
      });
    } else if (item.is_first && a.p.pool.read) {
      chunk_sm90::load_pool_state(S, a.p.pool, item.pool_row, item.head, panel * kPanel, warp,
                                  lane);
      if (item.slot == item.first_slot)
        chunk_sm90::store_piece_state(S, matrix(a.states, item.slot), panel * kPanel, warp, lane);
    }
    if (!item.is_wanted) continue;
#pragma unroll 1
    for (int left = item.chunks; left > 0; left--) {
      piece_math_chunk<Token>(S, sm, chunk, lane, [&](uint32_t(&v)[4]) {
        if (item.is_transition) {
          v[0] = v[1] = v[2] = v[3] = 0;
          return;
        }
        // matrices of 8 tokens x 8 columns, transposed as they are read
        const uint32_t V =
            value.buffer(sm) + panel * Layout::kPanelBytes +
            swizzle_128((lane & 7) + (lane >> 4) * 8, (2 * warp + ((lane >> 3) & 1)) * 16);
        value.await_full(sm);
        load_matrix_x4_trans(V, v[0], v[1], v[2], v[3]);
        value.release(sm);
        value.advance();
      });
      chunk.advance();
    }
    chunk_sm90::store_piece_state(
        S, item.is_transition ? matrix(a.transitions, item.slot) : matrix(a.states, item.slot + 1),
        panel * kPanel, warp, lane);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
