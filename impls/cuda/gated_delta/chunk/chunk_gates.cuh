// The scalars of one chunk and value head: cumulative decay, beta and the factors of q and k.
//
// With G_r the sum of log_decay over the chunk's tokens up to and including r, every decay a kernel
// needs is exp(G_i - G_j), i >= j: the exponential of a difference that is never positive. G is
// summed in float64 and kept in units of log2 as a float32 pair (high + low), so that a difference
// of two large sums is as exact as the small one it is: a chunk may hold resets (log_decay = -inf,
// taken as -1000, whose exponential is zero as well) and still decay exactly after them.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// One array per scalar, one entry per token; rows past the end of a sequence have log_decay 0 and
/// beta 0, so that gamma[C - 1] is the decay of the whole chunk, tail or not.
template <int C>
struct alignas(16) ChunkGates {
  float log2_high[C];     ///< G_r / ln 2, rounded
  float log2_low[C];      ///< what the rounding left
  float beta[C];          ///< beta_r
  float gamma[C];         ///< exp(G_r): decay from the chunk's start
  float remaining[C];     ///< exp(G_{C-1} - G_r): decay to the chunk's end
  float key_factor[C];    ///< 1 / norm of k_r, or 1
  float query_factor[C];  ///< scale / norm of q_r, or scale
};

#ifdef __CUDACC__

/// 1 / sqrt(squares + eps), and 0 for a row of zeros: it counts for nothing either way, but values
/// above 65 times 1 / sqrt(eps) = 1000 are infinite in float16, and zero times infinity is NaN.
__device__ __forceinline__ float inverse_length(float squares) {
  return squares > 0.0f ? 1.0f / sqrtf(squares + kNormEpsilon) : 0.0f;
}

/// exp(G_i - G_j) for i >= j, at most 1. For i < j also a finite value, meaningless.
template <int C>
__device__ __forceinline__ float decay_between(const ChunkGates<C>& gates, int i, int j) {
  const float difference =
      (gates.log2_high[i] - gates.log2_high[j]) + (gates.log2_low[i] - gates.log2_low[j]);
  return exp2_flushed(difference > 0.0f ? 0.0f : difference);
}

/// Gates and betas of this lane's tokens, read ahead of scan_chunk_gates: as they lie in memory, so
/// that nothing waits for them before they are wanted.
template <int C>
struct LaneGates {
  static constexpr int kCount = C < 32 ? 1 : C / 32;  ///< tokens lane * kCount ..
  std::uint32_t gate[kCount];
  std::uint32_t beta[kCount];
};

template <int C>
__device__ __forceinline__ LaneGates<C> load_lane_gates(const GatedDeltaParams& p, int head,
                                                        std::int64_t first_token, int length,
                                                        int lane) {
  constexpr int kCount = LaneGates<C>::kCount;
  LaneGates<C> result;
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    const std::int64_t token = first_token + min(lane * kCount + e, length - 1);
    result.gate[e] = load_number_bits(p.gates.gate, token, head);
    result.beta[e] = load_number_bits(p.gates.beta, token, head);
  }
  return result;
}

/// One warp fills everything but the key and query factors. `mine`: of a chunk of `length` tokens.
template <int C>
__device__ __forceinline__ void scan_chunk_gates(const GateParams& p, int head,
                                                 ChunkGates<C>& gates, const LaneGates<C>& mine,
                                                 int length, int lane) {
  constexpr int kCount = LaneGates<C>::kCount;
  constexpr double kLog2OfE = 1.4426950408889634074;
  const HeadGates of_head = head_gates(p, head, head);
  double sums[kCount];
  double running = 0;
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    const bool inside = lane * kCount + e < length;
    const float g =
        inside ? decode_log_decay(p, widen_bits(mine.gate[e], p.gate.type), of_head) : 0.0f;
    running += static_cast<double>(g < -1000.0f ? -1000.0f : g) * kLog2OfE;
    sums[e] = running;
  }
  double inclusive = running;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const double other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  const double total = __shfl_sync(~0u, inclusive, 31);
  const double before = inclusive - running;
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    const int r = lane * kCount + e;
    if (r < C) {
      const double sum = before + sums[e];
      const float high = static_cast<float>(sum);
      gates.log2_high[r] = high;
      gates.log2_low[r] = static_cast<float>(sum - high);
      gates.beta[r] = r < length ? decode_beta(p, widen_bits(mine.beta[e], p.beta.type)) : 0.0f;
      gates.gamma[r] = exp2f(high);
      const float rest = static_cast<float>(total - sum);
      gates.remaining[r] = exp2f(rest > 0.0f ? 0.0f : rest);
    }
  }
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
