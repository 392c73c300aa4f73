// Typed gates on the device: what the gate and beta arrays hold -> log_decay, decay and beta, in
// float32 (docs/contract.md, section 1.1). Usable inline, token by token, or as a pass of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/target.h"
#include "interface/gate_encoding.h"
#include "interface/index_array.h"
#include "interface/number_array.h"

namespace gdn {
struct GatedDeltaArguments;
struct Problem;
}  // namespace gdn

namespace gdn::GDN_CUDA_TARGET {

/// Gate and beta of one problem as a kernel takes them: device pointers.
struct GateParams {
  GateEncoding gate_encoding = GateEncoding::log_decay;
  BetaEncoding beta_encoding = BetaEncoding::beta;
  float decay_bound = 0;             ///< bounded only
  std::int32_t num_value_heads = 0;  ///< Hv
  std::int32_t gates_per_head = 1;   ///< G: 1, or Dk with one decay per key channel
  NumberArray gate;                  ///< [T, Hv, G]
  NumberArray A_log;                 ///< [Hv], logits and bounded only
  NumberArray dt_bias;               ///< [Hv, G], likewise
  NumberArray beta;                  ///< [T, Hv]; with n steps per token [T, n, Hv]
};

GateParams make_gate_params(const Problem& problem, const GatedDeltaArguments& arguments);

/// One step per token and one decay per head only.
/// Enqueues log_decay[T, Hv] and beta[T, Hv] (either may be null) for the tokens that
/// sequence_offsets[num_sequences], read on the device, counts; at most `token_capacity`.
void enqueue_gate_pass(const GateParams& params, IndexArray sequence_offsets,
                       std::int64_t num_sequences, std::int64_t token_capacity, float* log_decay,
                       float* beta, cudaStream_t stream);

#ifdef __CUDACC__

/// ln(1 + e^x) without overflow: exact for large |x|.
__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));  // at most 1: no overflow on either side
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

/// -exp(A_log) * softplus(x). Where softplus(x) = e^x to float32 the product is one exponential:
/// exp(A_log) may then overflow and softplus vanish without their product being inf * 0.
__device__ __forceinline__ float log_decay_from_logit(float x, float A_log) {
  return x < -17.0f ? -expf(A_log + x) : -expf(A_log) * softplus(x);
}

/// -bound * sigmoid(exp(A_log) * x). exp(A_log) is held within float32: where it would leave it the
/// sigmoid has saturated for every x but zero, and inf * 0 is never formed.
__device__ __forceinline__ float log_decay_from_bounded_logit(float x, float A_log, float bound) {
  return -bound * sigmoid(expf(fminf(A_log, 88.0f)) * x);
}

/// What of the gates belongs to a value head, or to one of its key channels.
struct HeadGates {
  float A_log = 0;
  float dt_bias = 0;
};
__device__ __forceinline__ HeadGates head_gates(const GateParams& p, int head, int bias) {
  if (!p.A_log) return {};
  return {load_number(p.A_log, 0, head), load_number(p.dt_bias, 0, bias)};
}

/// g = ln(decay) <= 0 from the array's value x; -inf for a reset.
__device__ __forceinline__ float decode_log_decay(const GateParams& p, float x,
                                                  const HeadGates& of_head) {
  switch (p.gate_encoding) {
    case GateEncoding::decay:
      return logf(x);
    case GateEncoding::neg_log_decay:
      return -x;
    case GateEncoding::logits:
      return log_decay_from_logit(x + of_head.dt_bias, of_head.A_log);
    case GateEncoding::bounded:
      return log_decay_from_bounded_logit(x + of_head.dt_bias, of_head.A_log, p.decay_bound);
    case GateEncoding::log_decay:
      break;
  }
  return x;
}
/// The same at a value head, whose bias is dt_bias[bias].
__device__ __forceinline__ float decode_log_decay(const GateParams& p, float x, int head,
                                                  int bias) {
  return decode_log_decay(p, x, head_gates(p, head, bias));
}

/// exp(g) for g <= 0, rounded once where it is near 1: a state that never forgets gathers its
/// errors. With expf, additive float32 recurrences of 2000 tokens at gates near one missed their
/// limit on an H200 (8.8e-6 of 3.4e-6); with this they keep it.
__device__ __forceinline__ float decay_from_log(float g) {
  return g > -0.5f ? 1.0f + expm1f(g) : expf(g);
}

/// exp(g), in 0..1: the array's own value, unrounded, where it holds decays.
__device__ __forceinline__ float decode_decay(const GateParams& p, float x,
                                              const HeadGates& of_head) {
  return p.gate_encoding == GateEncoding::decay ? x
                                                : decay_from_log(decode_log_decay(p, x, of_head));
}
__device__ __forceinline__ float decode_decay(const GateParams& p, float x, int head, int bias) {
  return decode_decay(p, x, head_gates(p, head, bias));
}

/// The same with one decay per head.
__device__ __forceinline__ float decode_log_decay(const GateParams& p, float x, int head) {
  return decode_log_decay(p, x, head, head);
}
__device__ __forceinline__ float decode_decay(const GateParams& p, float x, int head) {
  return decode_decay(p, x, head, head);
}

__device__ __forceinline__ float decode_beta(const GateParams& p, float x) {
  switch (p.beta_encoding) {
    case BetaEncoding::logit:
      return sigmoid(x);
    case BetaEncoding::logit2:
      return 2.0f * sigmoid(x);
    case BetaEncoding::beta:
      break;
  }
  return x;
}

/// What a token's gates and betas say, tokens counted over all sequences. Kernels that load ahead of use
/// read the arrays themselves and decode later.
__device__ __forceinline__ float log_decay_of(const GateParams& p, std::int64_t token, int head) {
  return decode_log_decay(p, load_number(p.gate, token, head), head);
}
__device__ __forceinline__ float decay_of(const GateParams& p, std::int64_t token, int head) {
  return decode_decay(p, load_number(p.gate, token, head), head);
}
/// Of one key channel, with one decay per channel.
__device__ __forceinline__ float channel_decay_of(const GateParams& p, std::int64_t token, int head,
                                                  int channel) {
  const int bias = head * p.gates_per_head + channel;
  return decode_decay(p, load_number(p.gate, token, bias), head, bias);
}
__device__ __forceinline__ float beta_of(const GateParams& p, std::int64_t token, int head) {
  return decode_beta(p, load_number(p.beta, token, head));
}
/// The same of one of a token's steps.
__device__ __forceinline__ float beta_of(const GateParams& p, std::int64_t token, int step,
                                         int head) {
  return beta_of(p, token, step * p.num_value_heads + head);
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
