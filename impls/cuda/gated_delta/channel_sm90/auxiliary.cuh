// What the auxiliary warps of channel_sm90 make of a chunk, each of a chunk of its own, in
// registers. With G_i[c] the sum of log decays of key channel c over the chunk's tokens up to i:
//
//   K~ = e^G K,  Q~ = e^G Q,  K^ = e^(G_C - G) K;
//   L_ij = beta_i sum over c of k_i[c] k_j[c] e^(G_i[c] - G_j[c]) for j < i,   T = (I + L)^-1;
//   P_ij = sum over c of q_i[c] k_j[c] e^(G_i[c] - G_j[c]) for j <= i.
//
// L and P are products of tensor cores, of K~ and Q~ with e^-G K, in steps of 16 channels, and K^ is
// e^-G K times e^G_C. In a step where any G_C is below kLeastSum the exponent of e^-G leaves float32;
// that step alone is made from the differences, whose exponents are never positive (add_exact_step).
// P_ii is summed apart, in float32: there e^G and e^-G would bring nothing but their rounding, which is
// all there is of a sequence's one output where q_i and k_i are nearly orthogonal.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/gated_delta/channel_sm90/decoding.cuh"
#include "cuda/gated_delta/channel_sm90/layout.cuh"
#include "cuda/gated_delta/channel_sm90/work_item.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// Log decay at or below which a decay is exactly 0 in float32 with subnormals flushed. Clamped to
/// it, -inf and whatever else forgets all keep sums finite, and their differences the gates' own.
inline constexpr float kFullReset = -150.f;
/// Sum of a chunk's log decays (base 2) down to which e^-G and its products stay in float32, of keys up to 2^11. A gate
/// that is bounded by -5 sums up to -115.42.
inline constexpr float kLeastSum = -116.f;

/// Registers of one step, 16 tokens x 16 channels as an mma operand: pair r holds rows
/// lane / 4 + 8 (r % 2), columns 2 (lane % 4), + 1 and 8 (r / 2) more.
struct Step {
  float value[8];
  __device__ __forceinline__ float& operator[](int i) { return value[i]; }
  __device__ __forceinline__ const float& operator[](int i) const { return value[i]; }
};

/// Adds the step's part of L (without beta) and P by differences of G: exact at any gate, and slow.
/// Entries above the diagonal are left with anything finite. No P without queries.
template <bool kQueries>
__device__ __forceinline__ void add_exact_step(float (&A)[2][4], float (&P)[2][4], const Step& G,
                                               const Step& key, const Step& query, int lane) {
  const int t = lane & 3;
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int odd = 0; odd < 2; odd++)
#pragma unroll 1
      for (int pair = 0; pair < 4; pair++) {  // column j = 8 half + 2 pair + odd
        const int from = 4 * (2 * pair + odd) + t;
        float a[2] = {}, p[2] = {};  // of rows lane / 4 (+ 8), over this lane's channels
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int low = 4 * (e >> 1) + (e & 1), own = low + 2 * half;
          const float G_j = __shfl_sync(~0u, G[own], from),
                      key_j = __shfl_sync(~0u, key[own], from);
#pragma unroll
          for (int r = half; r < 2; r++) {
            const float decayed = key_j * exp2_flush(fminf(G[low + 2 * r] - G_j, 0.f));
            a[r] = fmaf(key[low + 2 * r], decayed, a[r]);
            if constexpr (kQueries) p[r] = fmaf(query[low + 2 * r], decayed, p[r]);
          }
        }
#pragma unroll
        for (int r = half; r < 2; r++) {
#pragma unroll
          for (int other = 1; other < 4; other *= 2) {
            a[r] += __shfl_xor_sync(~0u, a[r], other);
            if constexpr (kQueries) p[r] += __shfl_xor_sync(~0u, p[r], other);
          }
          if (t == pair) {
            A[half][2 * r + odd] += a[r];
            if constexpr (kQueries) P[half][2 * r + odd] += p[r];
          }
        }
      }
}

/// x to the 10 bits of tf32, to nearest.
__device__ __forceinline__ uint32_t to_tf32(float x) { return __float_as_uint(x) + 0x1000u; }

/// Adds the step's part of L (without beta) and P, from e^G K, e^G Q and e^-G K. bfloat16 tokens: in
/// bfloat16. float16 would not hold e^-G, and tf32 rounds no more than it.
template <typename Token, bool kQueries>
__device__ __forceinline__ void add_step(float (&A)[2][4], float (&P)[2][4], const Step& key,
                                         const Step& query, const Step& column) {
  if constexpr (std::is_same_v<Token, __half>) {
#pragma unroll
    for (int h = 0; h < 2; h++) {  // channels 8 h .. 8 h + 7: this lane's two are k = t and t + 4
      uint32_t k[4], q[4], c[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int from = 4 * h + 2 * (i & 1) + (i >> 1);
        k[i] = to_tf32(key[from]);
        if constexpr (kQueries) q[i] = to_tf32(query[from]);
        c[i] = to_tf32(column[from]);
      }
#pragma unroll
      for (int half = 0; half < 2; half++) {
        mma_m16n8k8_tf32(A[half], k, c[half], c[half + 2]);
        if constexpr (kQueries) mma_m16n8k8_tf32(P[half], q, c[half], c[half + 2]);
      }
    }
  } else {
    uint32_t k[4], q[4], c[4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
      k[r] = pack<Token>(key[2 * r], key[2 * r + 1]);
      if constexpr (kQueries) q[r] = pack<Token>(query[2 * r], query[2 * r + 1]);
      c[r] = pack<Token>(column[2 * r], column[2 * r + 1]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      mma_m16n8k16<Token>(A[half], k, c[half], c[half + 2]);
      if constexpr (kQueries) mma_m16n8k16<Token>(P[half], q, c[half], c[half + 2]);
    }
  }
}

/// How make_chunk gets at its gates.
template <typename Token, GateForm Form>
struct ChunkGates {
  const GateParams& gates;
  float rate;  ///< decoding_rate
  int valid;   ///< tokens that are the sequence's

  /// G of channels 16 k .. 16 k + 15, base 2: sums by tensor cores, a triangle of ones times the
  /// gates in two parts of bfloat16. `in`: this lane's byte of a panel of 16-bit elements, as
  /// load_matrix takes it. `biases`: of the chunk's channels.
  __device__ __forceinline__ Step sum(uint32_t slot, uint32_t in, uint32_t biases,
                                      const uint32_t (&ones)[4], int k, int lane) const {
    Step G;
    uint32_t pairs[4];
    if constexpr (Form == GateForm::halves)
      load_matrix_x4_trans(slot + Layout::kGates + (k >> 2) * Layout::kPanelBytes + in, pairs[0],
                           pairs[1], pairs[2], pairs[3]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int channel = 16 * k + 8 * h + (lane >> 2);
      float g[4], sums[4] = {};  // of tokens token(0) .. token(3)
      const auto token = [&](int i) { return 2 * (lane & 3) + (i & 1) + 8 * (i >> 1); };
      if constexpr (Form == GateForm::halves) {
        const float2 low = unpack<Token>(pairs[2 * h]), high = unpack<Token>(pairs[2 * h + 1]);
        g[0] = low.x, g[1] = low.y, g[2] = high.x, g[3] = high.y;
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++) g[i] = load_shared<float>(slot + gate_at(token(i), channel));
      }
      if constexpr (decoded_late(Form)) {
        decode_gates(g, gates, rate, load_shared<float>(biases + 4 * channel));
        if (valid < kChunk) {  // tokens past the end decay nothing
#pragma unroll
          for (int i = 0; i < 4; i++)
            if (token(i) >= valid) g[i] = 0.f;
        }
      }
#pragma unroll
      for (int i = 0; i < 4; i++) g[i] = fmaxf(g[i], kFullReset);
      uint32_t high[2], low[2];
      split_bfloat16(g[0], g[1], high[0], low[0]);
      split_bfloat16(g[2], g[3], high[1], low[1]);
      mma_m16n8k16<__nv_bfloat16>(sums, ones, high[0], high[1]);
      mma_m16n8k16<__nv_bfloat16>(sums, ones, low[0], low[1]);
#pragma unroll
      for (int i = 0; i < 4; i++) G[4 * h + i] = sums[i] * kLog2E;
    }
    return G;
  }
};

/// Lower triangle of ones as an operand [16 x 16].
__device__ __forceinline__ void make_ones(uint32_t (&ones)[4], int lane) {
  const int row = lane >> 2, column = 2 * (lane & 3);
  ones[0] = ones[3] =
      (column <= row ? 0x3f80u : 0u) | (column + 1 <= row ? 0x3f800000u : 0u);  // 1, 1 in bfloat16
  ones[1] = 0x3f803f80u;
  ones[2] = 0;
}

/// Zeros to the rows of K, Q and gates that are not the sequence's.
__device__ __forceinline__ void clear_past_end(uint32_t slot, int valid, int lane) {
#pragma unroll 1
  for (int row = valid; row < kChunk; row++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t panel = (lane >> 3) + 4 * i;  // two of K and of Q, four of gates
      store_shared(slot + panel * Layout::kPanelBytes + row * 128 + (lane & 7) * 16,
                   make_uint4(0, 0, 0, 0));
    }
}
static_assert(Layout::kSlotBytes == 8 * Layout::kPanelBytes);

/// 1 / sqrt(|row|^2 + eps) of rows lane / 4 and lane / 4 + 8 of K or Q, 0 of a row of zeros.
template <typename Token>
__device__ __forceinline__ void inverse_lengths(float (&factor)[2], uint32_t rows, uint32_t lane_at,
                                                uint32_t lane_unit) {
  float squares[2] = {};
#pragma unroll 2
  for (int k = 0; k < 8; k++) {
    uint32_t x[4];
    load_matrix_x4(
        rows + (k >> 2) * Layout::kNextPanel + lane_at + ((lane_unit ^ (2 * (k & 3))) << 4), x[0],
        x[1], x[2], x[3]);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const float2 f = unpack<Token>(x[r]);
      squares[r & 1] += f.x * f.x + f.y * f.y;
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    squares[r] += __shfl_xor_sync(~0u, squares[r], 1);
    squares[r] += __shfl_xor_sync(~0u, squares[r], 2);
    factor[r] = squares[r] > 0.f ? 1.f / sqrtf(squares[r] + kNormEpsilon) : 0.f;
  }
}

/// T = (I + L)^-1 by substitution in float32, a lane a column; lanes 16 .. 31 do the same columns.
template <typename Token>
__device__ __forceinline__ void store_inverse(uint32_t slot, int lane) {
  const int column = lane & 15;
  float T[16];
#pragma unroll
  for (int i = 0; i < 16; i++) {
    float y = i == column ? 1.f : 0.f, z = 0.f;
#pragma unroll
    for (int m = 0; m < i; m += 4) {
      const float4 l = load_shared<float4>(slot + Layout::kLower + i * 64 + m * 4);
      y = fmaf(-l.x, T[m], y);
      if (m + 1 < i) z = fmaf(-l.y, T[m + 1], z);
      if (m + 2 < i) y = fmaf(-l.z, T[m + 2], y);
      if (m + 3 < i) z = fmaf(-l.w, T[m + 3], z);
    }
    T[i] = y + z;
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float y = lane < 16 ? T[i] : T[i + 8];
    store_shared(slot + Layout::kT + (i + (lane & 16) / 2) * 32 + column * 2, from_float<Token>(y));
  }
}

/// A warp: everything of one loaded chunk. `decays`: until a channel's decay is stored there, its
/// bias. Without queries neither Q~ nor P is made.
template <typename Token, bool Normalize, GateForm Form, bool kQueries>
__device__ __forceinline__ void make_chunk(uint32_t slot, uint32_t decays,
                                           const ChunkGates<Token, Form>& gates,
                                           const float (&beta)[2], int lane) {
  const int row = lane >> 2, t = lane & 3;
  const uint32_t lane_at = ((lane & 7) + ((lane >> 3) & 1) * 8) * 128,
                 lane_unit = (lane >> 4) ^ (lane & 7);
  uint32_t ones[4];
  make_ones(ones, lane);
  float key_factor[2] = {1.f, 1.f}, query_factor[2] = {1.f, 1.f};
  if constexpr (Normalize) {
    inverse_lengths<Token>(key_factor, slot + Layout::kKey, lane_at, lane_unit);
    if constexpr (kQueries)
      inverse_lengths<Token>(query_factor, slot + Layout::kQuery, lane_at, lane_unit);
  }
  float A[2][4] = {}, P[2][4] = {}, diagonal[2] = {};
#pragma unroll 1
  for (int k = 0; k < 8; k++) {
    const uint32_t in = lane_at + ((lane_unit ^ (2 * (k & 3))) << 4),
                   at = slot + (k >> 2) * Layout::kNextPanel + in;
    const Step G = gates.sum(slot, in, decays, ones, k, lane);
    uint32_t key[4], query[4] = {};
    load_matrix_x4(at + Layout::kKey, key[0], key[1], key[2], key[3]);
    if constexpr (kQueries)
      load_matrix_x4(at + Layout::kQuery, query[0], query[1], query[2], query[3]);
    Step decay;
#pragma unroll
    for (int i = 0; i < 8; i++) decay[i] = exp2_flush(G[i]);
    // Of this lane's channels, of x of the last token, which is row 15's.
    const auto of_last = [&](const Step& x, int c) {
      return __shfl_sync(~0u, x[4 * (c >> 1) + 2 + (c & 1)], 28 + t);
    };
    float to_end[4];
#pragma unroll
    for (int c = 0; c < 4; c++) to_end[c] = of_last(decay, c);
    // of this lane's rows 8 to 15, and of all lanes, so of the last token, the least
    const bool is_within = fminf(fminf(G[2], G[3]), fminf(G[6], G[7])) >= kLeastSum;
    const auto plain = [](const uint32_t(&pairs)[4], const float(&factor)[2], int r) {
      const float2 f = unpack<Token>(pairs[r]);
      return Normalize ? make_float2(f.x * factor[r & 1], f.y * factor[r & 1]) : f;
    };
    Step scaled_key, scaled_query, column;
    uint32_t key_to_end[4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const float2 k2 = plain(key, key_factor, r), q2 = plain(query, query_factor, r);
      const int i = 2 * r, c = 2 * (r >> 1);
      diagonal[r & 1] = fmaf(q2.x, k2.x, fmaf(q2.y, k2.y, diagonal[r & 1]));
      scaled_key[i] = k2.x * decay[i], scaled_key[i + 1] = k2.y * decay[i + 1];
      scaled_query[i] = q2.x * decay[i], scaled_query[i + 1] = q2.y * decay[i + 1];
      column[i] = k2.x * exp2_flush(-G[i]), column[i + 1] = k2.y * exp2_flush(-G[i + 1]);
      key_to_end[r] = pack<Token>(column[i] * to_end[c], column[i + 1] * to_end[c + 1]);
      if (row == 7 && (r & 1))
        store_shared(decays + (16 * k + 4 * c + 2 * t) * 4, make_float2(decay[i], decay[i + 1]));
    }
    store_matrix_x4(at + Layout::kKey, pack<Token>(scaled_key[0], scaled_key[1]),
                    pack<Token>(scaled_key[2], scaled_key[3]),
                    pack<Token>(scaled_key[4], scaled_key[5]),
                    pack<Token>(scaled_key[6], scaled_key[7]));
    if constexpr (kQueries)
      store_matrix_x4(at + Layout::kQuery, pack<Token>(scaled_query[0], scaled_query[1]),
                      pack<Token>(scaled_query[2], scaled_query[3]),
                      pack<Token>(scaled_query[4], scaled_query[5]),
                      pack<Token>(scaled_query[6], scaled_query[7]));
    if (__ballot_sync(~0u, !is_within) == 0) {
      add_step<Token, kQueries>(A, P, scaled_key, scaled_query, column);
    } else {
      Step plain_key, plain_query;
#pragma unroll
      for (int r = 0; r < 4; r++) {
        const float2 k2 = plain(key, key_factor, r), q2 = plain(query, query_factor, r);
        const int i = 2 * r, c = 2 * (r >> 1);
        plain_key[i] = k2.x, plain_key[i + 1] = k2.y;
        plain_query[i] = q2.x, plain_query[i + 1] = q2.y;
        key_to_end[r] = pack<Token>(k2.x * exp2_flush(of_last(G, c) - G[i]),
                                    k2.y * exp2_flush(of_last(G, c + 1) - G[i + 1]));
      }
      add_exact_step<kQueries>(A, P, G, plain_key, plain_query, lane);
    }
    // Over gates of this step or of earlier ones, which every lane has read.
    store_matrix_x4(slot + Layout::kKeyToEnd + (k >> 2) * Layout::kPanelBytes + in, key_to_end[0],
                    key_to_end[1], key_to_end[2], key_to_end[3]);
  }
  __syncwarp();
  if constexpr (kQueries) {
#pragma unroll
    for (int r = 0; r < 2; r++) {  // P_ii of row i = row + 8 r, column 8 r + row
      diagonal[r] += __shfl_xor_sync(~0u, diagonal[r], 1);
      diagonal[r] += __shfl_xor_sync(~0u, diagonal[r], 2);
      if (2 * t == row) P[r][2 * r] = diagonal[r];
      if (2 * t + 1 == row) P[r][2 * r + 1] = diagonal[r];
    }
  }
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int i = row + 8 * r, j = 8 * half + 2 * t;
      const float2 a = {A[half][2 * r], A[half][2 * r + 1]},
                   p = {P[half][2 * r], P[half][2 * r + 1]};
      store_shared(slot + Layout::kLower + i * 64 + j * 4,
                   make_float2(j < i ? beta[r] * a.x : 0.f, j + 1 < i ? beta[r] * a.y : 0.f));
      if constexpr (kQueries)
        store_shared(slot + Layout::kP + i * 32 + j * 2,
                     pack<Token>(j <= i ? p.x : 0.f, j + 1 <= i ? p.y : 0.f));
    }
  if (t == 0) {
    store_shared(slot + Layout::kBeta + row * 4, beta[0]);
    store_shared(slot + Layout::kBeta + (row + 8) * 4, beta[1]);
  }
  __syncwarp();
  store_inverse<Token>(slot, lane);
}

/// A warp: every kAuxiliaryWarps-th chunk of the block.
template <Work kWork, typename Token, bool Normalize, GateForm Form>
__device__ __forceinline__ void auxiliary_role(uint32_t sm, const ChannelParams& a, int own,
                                               int lane) {
  RingCursor<Layout::Loads> slot;
  int next = own;  // chunk of the current work item that is this warp's next one
  slot.index = static_cast<uint32_t>(own);
  const unsigned items = items_of<kWork>(sm, a);
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < items; number += gridDim.x) {
    WorkItem item = item_of<kWork>(sm, a, number);
    Parts<kWork> parts(a, item);
    float rate = 0;
    if constexpr (decoded_late(Form)) rate = decoding_rate(a.p.gates, item.head);
    const auto valid_of = [&](int chunk) { return min(item.length - chunk * kChunk, kChunk); };
    do {
#pragma unroll 1
      for (; next < item.chunks; next += Layout::kAuxiliaryWarps) {
        // what is made of the lane is made anew for each chunk: held across the loop, it spills
        asm volatile("" : "+r"(lane));
        const int token0 = item.token0 + next * kChunk, valid = valid_of(next);
        float beta[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
          const int row = (lane >> 2) + 8 * r;
          beta[r] = row < valid ? beta_of(a.p.gates, int64_t{token0} + row, item.head) : 0.f;
        }
        float4 biases = {};
        if constexpr (decoded_late(Form)) biases = decoding_biases(a.p.gates, item.head, lane);
        const uint32_t at = slot.buffer(sm),
                       decays = sm + Layout::kDecay + slot.index * Layout::kDecayBytes;
        // First that what another warp made in this place is read: until then its own load may be under way, and a wait
        // by parity would take that one's round for this one's.
        slot.await_empty(sm);
        slot.await_full(sm);
        if constexpr (decoded_late(Form)) store_shared(decays + 16 * lane, biases);
        if constexpr (Form == GateForm::read) {
          bring_gates(at, a.p.gates, token0, valid, item.head, lane);
          ask_for_gates(a.p.gates.gate, token0 + Layout::kAuxiliaryWarps * kChunk,
                        valid_of(next + Layout::kAuxiliaryWarps), item.head, lane);
        }
        if (valid < kChunk) clear_past_end(at, valid, lane);
        __syncwarp();
        make_chunk<Token, Normalize, Form, kWork != Work::transitions>(
            at, decays, {a.p.gates, rate, valid}, beta, lane);
        fence_async_proxy();
        mbarrier_arrive(sm + Layout::kReady + 8 * slot.index);
        slot.index += Layout::kAuxiliaryWarps;
        if (slot.index >= Layout::kSlots) {
          slot.index -= Layout::kSlots;
          slot.round_parity ^= 1;
        }
      }
      next -= item.chunks;
    } while (parts.next(a, item));
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
