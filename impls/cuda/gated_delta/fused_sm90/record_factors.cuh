// The record's factors of one chunk and value head, made of its scanned gates: a step of the
// prepare kernel and of the one-launch kernel.
#pragma once

#include "cuda/gated_delta/chunk_sm90/gate_factors.cuh"
#include "cuda/gated_delta/fused_sm90/record.h"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace hopper;

/// 128 threads: the record's factors (record.h); lengths [64] of K, then [64] of Q,
/// all one unless Normalize. Thread t brings row t / 2.
template <bool Normalize>
__device__ __forceinline__ void store_factors(uint32_t factors, uint32_t gates, uint32_t lengths,
                                              float scale, int t) {
  asm volatile("" : "+r"(t));         // addresses made anew: kept from before, they spill
  const uint32_t row = 2 * (t & ~1);  // bytes
  const float k_inverse = Normalize ? load_shared<float>(lengths + row) : 1.f,
              beta = load_shared<float>(gates + GateLayout::kBeta + row);
  if ((t & 1) == 0) {
    const float gamma = load_shared<float>(gates + GateLayout::kGamma + row),
                q_inverse = Normalize ? load_shared<float>(lengths + 256 + row) : 1.f;
    store_shared(factors + kFactorKey + row, beta * gamma * k_inverse);
    store_shared(factors + kFactorQuery + row, gamma * scale * q_inverse);
    if (t >= 112)  // the whole last sector of 32 bytes
      store_shared(factors + kFactorGammaEnd - 224 + row, gamma_end(gates));
  } else {
    store_shared(factors + kFactorUpdate + row,
                 load_shared<float>(gates + GateLayout::kToEnd + row) * k_inverse);
    store_shared(factors + kFactorBeta + row, beta);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
