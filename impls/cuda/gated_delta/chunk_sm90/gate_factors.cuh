// The gates of one chunk and value head, scanned: the decays between its tokens, where a value head
// has one gate a token.
//
// Tokens past the end of a sequence have beta 0 and decay 1.
#pragma once

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/gated_delta/params.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

using namespace hopper;

inline constexpr float kLog2E = 1.4426950408889634f;
/// Log decay (base 2) at or below which the decay is exactly 0 in float32 with subnormals flushed.
/// Clamping -inf to it keeps every difference of cumulative sums finite.
inline constexpr float kFullReset = -130.f;
/// Byte offset of the last token's value among those of a chunk.
inline constexpr uint32_t kLastToken = 4 * (kChunk - 1);

/// Gate factors of one chunk and head, 64 floats each, byte offsets. No exponent is ever positive.
struct GateLayout {
  static constexpr uint32_t kCumulative = 0;  // c_i: cumulative log2 decay
  static constexpr uint32_t kGamma = 256;     // 2^c_i
  static constexpr uint32_t kToEnd = 512;     // 2^(c_63 - c_i)
  static constexpr uint32_t kBeta = 768;
  static constexpr uint32_t kFromBlock = 1024;  // 2^(c_i - c at the end of the 16-block before i's)
  static constexpr uint32_t kToBlock = 1280;    // [b-1], b = 1..3: 2^(c_{16b-1} - c_j), j < 16b
  static constexpr uint32_t kLargestBeta = 2048;  // one float
  static constexpr uint32_t kBytes = 2064;
};

/// log2 of a decay, at least kFullReset.
__device__ __forceinline__ float log2_decay(float log_decay) {
  return fmaxf(log_decay * kLog2E, kFullReset);
}

/// One warp: GateLayout of one head; lane l brings tokens 2l and 2l+1 of the chunk.
__device__ __forceinline__ void scan_gates(uint32_t gates, float x0, float x1, float beta0,
                                           float beta1, int lane) {
  float sum = x0 + x1;
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    const float y = __shfl_up_sync(~0u, sum, o);
    if (lane >= o) sum += y;
  }
  const float c0 = sum - x1, c1 = sum, end = __shfl_sync(~0u, sum, 31);
  const uint32_t p = gates + 8 * lane;
  store_shared(p + GateLayout::kCumulative, make_float2(c0, c1));
  store_shared(p + GateLayout::kGamma, make_float2(exp2_flush(c0), exp2_flush(c1)));
  store_shared(p + GateLayout::kToEnd,
               make_float2(exp2_flush(fminf(end - c0, 0.f)), exp2_flush(fminf(end - c1, 0.f))));
  store_shared(p + GateLayout::kBeta, make_float2(beta0, beta1));
  const uint32_t largest = __reduce_max_sync(~0u, __float_as_uint(fmaxf(fmaxf(beta0, beta1), 0.f)));
  if (lane == 0) store_shared(gates + GateLayout::kLargestBeta, largest);
  float before = __shfl_sync(~0u, sum, (lane & 24) ? (lane & 24) - 1 : 0);
  if (lane < 8) before = 0.f;
  store_shared(p + GateLayout::kFromBlock, make_float2(exp2_flush(fminf(c0 - before, 0.f)),
                                                       exp2_flush(fminf(c1 - before, 0.f))));
#pragma unroll
  for (int b = 1; b < 4; b++) {
    const float at = __shfl_sync(~0u, sum, 8 * b - 1);
    store_shared(p + GateLayout::kToBlock + 256 * (b - 1),
                 make_float2(exp2_flush(fminf(at - c0, 0.f)), exp2_flush(fminf(at - c1, 0.f))));
  }
}

/// beta |k|^2 at most, from the largest |k|^2: bounds the entries of L
/// and, less 1, the norm of I - beta k k^T.
__device__ __forceinline__ float largest_step(uint32_t gates, float key_square) {
  return load_shared<float>(gates + GateLayout::kLargestBeta) * key_square;
}
/// gamma_C.
__device__ __forceinline__ float gamma_end(uint32_t gates) {
  return load_shared<float>(gates + GateLayout::kGamma + kLastToken);
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
