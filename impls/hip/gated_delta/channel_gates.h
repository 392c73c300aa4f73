// The gates of a chunk with one decay for each key channel (Kimi Delta Attention), in the place of ChunkGates
// (chunk_tiles.h), whose functions have the same names here. Included by .hip files only.
//
// The decays stand inside the products over channels:
//
//     L_ij = beta_i sum_k k_ik k_jk D_ijk,   P_ij = sum_k q_ik k_jk D_ijk,   D_ijk = exp(G_ik - G_jk), j <= i
//
// with G the sums of log decays from the chunk's start. Split into a factor of row i and one of row j the second would be
// exp(-G_jk), which overflows. So a chunk has 16 tokens, a thread a pair of them, and D_ijk is made for every channel: an
// exponential of what is at most 0, whatever the gates are. Those are C / 2 exponentials a token and channel, beside
// 3 Dv multiply-adds of the products with the state. Sums are float64 and resets are counted apart, as in ChunkGates. What
// decays to a chunk's end is a running product of decays.
#pragma once

#include "hip/gated_delta/chunk_tiles.h"

namespace gdn::hip {

template <int D, int C>
struct ChannelGates {
  static constexpr bool kOfChannels = true;
  double cumulative[C][D + 2];  ///< log decay from the chunk's start; padded as TokenRows
  std::uint8_t resets[C][D];    ///< up to and including the token
  float beta[C];
};

/// A channel a thread, the betas by threads that have none.
template <int D, int C>
__device__ __forceinline__ void load_gates(const GatedDeltaParams& p, std::int64_t first_token,
                                           int count, int head, ChannelGates<D, C>& gates) {
  static_assert(D + C <= kChunkThreads);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < D) {
    double cumulative = 0.0;
    int resets = 0;
#pragma unroll 4
    for (int t = 0; t < C; ++t) {
      float log_decay = 0.0f;
      if (t < count && thread < p.key_head_dim) {
        log_decay = channel_log_decay_of(p, first_token + t, head, thread);
      }
      if (log_decay < kResetBelow) {
        ++resets;
      } else {
        cumulative += static_cast<double>(log_decay);
      }
      gates.cumulative[t][thread] = cumulative;
      gates.resets[t][thread] = static_cast<std::uint8_t>(resets);
    }
  } else if (thread < D + C) {
    const int t = thread - D;
    gates.beta[t] = t < count ? beta_of(p, first_token + t, head) : 0.0f;
  }
}

/// The decay of the tokens after j up to i.
template <int D, int C>
__device__ __forceinline__ float decay_between(const ChannelGates<D, C>& gates, int j, int i,
                                               int k) {
  if (gates.resets[i][k] != gates.resets[j][k]) return 0.0f;
  return expf(static_cast<float>(gates.cumulative[i][k] - gates.cumulative[j][k]));
}
template <int D, int C>
__device__ __forceinline__ float decay_from_start(const ChannelGates<D, C>& gates, int i, int k) {
  return gates.resets[i][k] == 0 ? expf(static_cast<float>(gates.cumulative[i][k])) : 0.0f;
}

/// As multiply_rows() of ChunkGates: one of L - I and the scores, a pair of rows a thread.
template <bool with_lower, bool with_scores, int D, int C>
__device__ __forceinline__ void multiply_rows(const TokenRows<AnyToken, D, C>& queries,
                                              const TokenRows<AnyToken, D, C>& keys,
                                              const ChannelGates<D, C>& gates,
                                              TwoTriangles<C>& triangles) {
  static_assert(C * C == kChunkThreads && with_lower != with_scores);
  const int i = static_cast<int>(threadIdx.x) / C, j = static_cast<int>(threadIdx.x) % C;
  if (with_lower ? j >= i : j > i) return;
  const auto& rows = with_lower ? keys : queries;
  float sum = 0.0f;
#pragma unroll 2
  for (int k = 0; k < D; ++k) {
    sum = fmaf(rows.x[i][k] * keys.x[j][k], decay_between(gates, j, i, k), sum);
  }
  sum *= rows.factor[i] * keys.factor[j];
  if (with_lower) {
    triangles.x[i][j] = gates.beta[i] * sum;
  } else {
    triangles.x[j][i] = sum;
  }
}

/// Rows times their decays from the chunk's start.
template <int D, int C>
__device__ __forceinline__ void decay_rows(const ChannelGates<D, C>& gates,
                                           TokenRows<AnyToken, D, C>& rows) {
  const int k = static_cast<int>(threadIdx.x) % D;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x) / D; i < C; i += kChunkThreads / D) {
    rows.x[i][k] *= decay_from_start(gates, i, k);
  }
}

/// (rows S) of row 8 block + group, four columns, of rows that have decayed.
template <int D, int C>
__device__ __forceinline__ float4 decayed_product(const TokenRows<AnyToken, D, C>& rows,
                                                  const ChannelGates<D, C>&,
                                                  const ChunkState<D>& state, int block) {
  const float4 product = state.rows_times_state(rows.x, block);
  const float factor = rows.factor[8 * block + tile_thread().group];
  return {factor * product.x, factor * product.y, factor * product.z, factor * product.w};
}

/// What the walk needs of them: the decay over the chunk.
template <int D>
struct ChannelEnds {
  static constexpr bool kOfChannels = true;
  alignas(16) float gamma[D];
};
template <int D>
__device__ __forceinline__ void load_gates(const GatedDeltaParams&, std::int64_t, int, int,
                                           ChannelEnds<D>&) {}
/// Keys times their decays to the chunk's end, which gamma is made with. A channel a thread.
template <int D, int C>
__device__ __forceinline__ void decay_to_end(const GatedDeltaParams& p, std::int64_t first_token,
                                             int count, int head, ChannelEnds<D>& gates,
                                             TokenRows<AnyToken, D, C>& keys) {
  const int k = static_cast<int>(threadIdx.x);
  if (k >= D) return;
  float decay = 1.0f;
#pragma unroll 1
  for (int t = count - 1; t >= 0; --t) {
    keys.x[t][k] *= decay;
    if (k < p.key_head_dim) decay *= channel_decay_of(p, first_token + t, head, k);
  }
  gates.gamma[k] = decay;
}
/// S <- diag(gamma) S + K^T V' of keys that have decayed to the end.
template <int D, int C>
__device__ __forceinline__ void advance_state(const TokenRows<AnyToken, D, C>& keys,
                                              const UpdateRows<C>& update,
                                              const ChannelEnds<D>& gates, int count,
                                              ChunkState<D>& state) {
  state.scale_rows(gates.gamma);
  add_updates(keys, update, count, state, [](int) { return 1.0f; });
}

}  // namespace gdn::hip
