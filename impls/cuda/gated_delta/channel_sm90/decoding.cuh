// Gates of channel_sm90 from what their owner holds to float32 log decays, decoded in registers by one
// arithmetic however they came there: the bits of a result do not depend on strides or types.
#pragma once

#include "cuda/approximate.cuh"
#include "cuda/element.cuh"
#include "cuda/gated_delta/channel_sm90/layout.cuh"
#include "cuda/gates.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

inline constexpr float kLog2E = 1.4426950408889634f;

// An e^A_log beyond e^60 is taken as e^60 of a logit so much larger. Where softplus is not e^x by
// then, either product is a full reset; and e^60 leaves of an e^x that is flushed, below 2^-126, less
// than 1e-11.
inline constexpr float kMostLogRate = 60.f;

/// By what the gates of a head are decoded, beside the biases of its channels.
__device__ __forceinline__ float decoding_rate(const GateParams& gates, int head) {
  switch (gates.gate_encoding) {
    case GateEncoding::logits:
      return -expf(fminf(load_number(gates.A_log, 0, head), kMostLogRate));
    case GateEncoding::bounded:
      return -kLog2E * expf(fminf(load_number(gates.A_log, 0, head), 88.f));
    case GateEncoding::neg_log_decay:
      return -1.f;
    case GateEncoding::log_decay:
    case GateEncoding::decay:
      break;
  }
  return 1.f;
}

/// Biases of this lane's channels, 4 lane .. 4 lane + 3.
__device__ __forceinline__ float4 decoding_biases(const GateParams& gates, int head, int lane) {
  if (!gates.A_log) return {};
  const float more = gates.gate_encoding == GateEncoding::bounded
                         ? 0.f
                         : fmaxf(load_number(gates.A_log, 0, head) - kMostLogRate, 0.f);
  const int first = head * kKeyDim + 4 * lane;
  return {load_number(gates.dt_bias, 0, first) + more,
          load_number(gates.dt_bias, 0, first + 1) + more,
          load_number(gates.dt_bias, 0, first + 2) + more,
          load_number(gates.dt_bias, 0, first + 3) + more};
}

/// ln(1 + e^x), wrong by 9e-6 of itself, about what the sums of gates round (sum_gates). For x
/// below -87, where e^x is flushed, 0.
__device__ __forceinline__ float softplus_approximately(float x) {
  const float e = exp2_approximately(-kLog2E * fabsf(x));
  float ratio = -0.0238691512f;  // ln(1 + e) / e for e in 0 .. 1
  ratio = fmaf(ratio, e, 0.101222284f);
  ratio = fmaf(ratio, e, -0.21004869f);
  ratio = fmaf(ratio, e, 0.325206667f);
  ratio = fmaf(ratio, e, -0.499361366f);
  ratio = fmaf(ratio, e, 0.999991596f);
  return fmaf(ratio, e, fmaxf(x, 0.f));
}

/// Log decays of one channel, four tokens, in place of what their owner holds.
__device__ __forceinline__ void decode_gates(float (&g)[4], const GateParams& gates, float rate,
                                             float bias) {
  switch (gates.gate_encoding) {
    case GateEncoding::logits:
#pragma unroll
      for (int i = 0; i < 4; i++) g[i] = rate * softplus_approximately(g[i] + bias);
      return;
    case GateEncoding::bounded:
#pragma unroll
      for (int i = 0; i < 4; i++)
        g[i] = -gates.decay_bound *
               reciprocal_approximately(1.f + exp2_approximately(rate * (g[i] + bias)));
      return;
    case GateEncoding::log_decay:
    case GateEncoding::neg_log_decay:
    case GateEncoding::decay:  // bring_gates has taken the logarithm
#pragma unroll
      for (int i = 0; i < 4; i++) g[i] *= rate;
      return;
  }
}

/// Gates that the copy engine cannot bring, to where it would have brought float32: of a decay
/// its logarithm, all else as it is held.
__device__ __forceinline__ void bring_gates(uint32_t slot, const GateParams& gates, int token0,
                                            int valid, int head, int lane) {
  const bool decays = gates.gate_encoding == GateEncoding::decay;
#pragma unroll 1
  for (int channel = lane; channel < kKeyDim; channel += 32) {
#pragma unroll 4
    for (int row = 0; row < kChunk; row++)
      if (row < valid) {
        const float x = load_number(gates.gate, int64_t{token0} + row, head * kKeyDim + channel);
        store_shared(slot + gate_at(row, channel), decays ? logf(x) : x);
      }
  }
}

/// Asks for the gates that bring_gates will read of a chunk: nothing waits.
__device__ __forceinline__ void ask_for_gates(const NumberArray& gate, int token0, int valid,
                                              int head, int lane) {
  const int row = lane >> 1;
  if (row >= valid) return;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int channel = 64 * (lane & 1) + 32 * i;
    prefetch_line(static_cast<const uint8_t*>(gate.data) +
                  gate.index(int64_t{token0} + row, head * kKeyDim + channel) *
                      (gate.type == DType::float32 ? 4 : 2));
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
