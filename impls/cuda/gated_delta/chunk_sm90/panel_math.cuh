// A math warpgroup's registers, where it owns 64 columns of V: accumulators d[32] are [64 columns of V x 64 tokens],
// registers a[16] the same as an operand, of 16 bits, and a state S[64] is [64 columns of V x Dk], Dk = 128. Columns of
// V are the rows of wgmma's accumulators.
#pragma once

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/hopper/matrix.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

using namespace hopper;

// ---- factors of tokens

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

/// The state's operand copy.
template <typename Token>
__device__ __forceinline__ void pack_state(uint32_t (&sb)[32], const float (&S)[64]) {
#pragma unroll
  for (int i = 0; i < 32; i++) sb[i] = pack<Token>(S[2 * i], S[2 * i + 1]);
}

// ---- products: each is started, and committed; the caller waits

/// d = S tile^T, tile K or Q [64 tokens x Dk].
template <typename Token>
__device__ __forceinline__ void multiply_state(float (&d)[32], const uint32_t (&sb)[32],
                                               uint32_t tile) {
#pragma unroll
  for (int i = 0; i < 8; i++)
    wgmma::multiply_rs_n64<Token>(d, sb + 4 * i,
                                  wgmma::k_major_128(tile) + 2 * (i & 3) + 512 * (i >> 2), i > 0);
  wgmma::commit();
}
/// S += a K, K [64 tokens x Dk].
template <typename Token>
__device__ __forceinline__ void update_state(float (&S)[64], const uint32_t (&a)[16], uint32_t K) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n128_trans<Token>(S, a + 4 * i, wgmma::mn_major_128(K, 8192) + 128 * i);
  wgmma::commit();
}

// ---- V and O in shared memory, a panel [64 tokens][64 columns], transposed on its way

/// Where in the panel this lane's rows lie for tokens 16i..16i+15.
__device__ __forceinline__ uint32_t panel_address(uint32_t panel, int w, int l, int i) {
  const uint32_t row = (l & 7) + ((l >> 4) << 3), byte = w * 32 + ((l >> 3) & 1) * 16;
  return panel + swizzle_128(16 * i + row, byte);
}
__device__ __forceinline__ void load_values(uint32_t (&v)[16], uint32_t panel, int w, int l) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    load_matrix_x4_trans(panel_address(panel, w, l, i), v[4 * i], v[4 * i + 1], v[4 * i + 2],
                         v[4 * i + 3]);
}
template <typename Token>
__device__ __forceinline__ void store_outputs(uint32_t panel, const float (&o)[32], int w, int l) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    store_matrix_x4_trans(panel_address(panel, w, l, i), pack<Token>(o[8 * i], o[8 * i + 1]),
                          pack<Token>(o[8 * i + 2], o[8 * i + 3]),
                          pack<Token>(o[8 * i + 4], o[8 * i + 5]),
                          pack<Token>(o[8 * i + 6], o[8 * i + 7]));
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
