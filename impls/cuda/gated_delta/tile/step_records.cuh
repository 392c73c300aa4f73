// What steps did to a state, kept so that they can be done again without their tokens:
//
//     S <- diag(alpha) S + k u^T,     u = beta (v - S^T k),
//
// of which the key is kept as it came, in its dtype and once a key head, and u with the factor that
// normalises the key. At Dk = Dv = 128, bfloat16 tokens and two value heads a key head that is 0.6 KB a
// token and value head, where a float32 state is 64 KB.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"
#include "interface/dtype.h"

namespace gdn::GDN_CUDA_TARGET {

/// By token, counted over all sequences, as offsets say when the records are made.
struct StepRecords {
  void* key = nullptr;     ///< [T, n, Hk, Dk], token dtype
  float* u = nullptr;      ///< [T, n, Hv, Dv]
  float* decay = nullptr;  ///< [T, Hv] or, with decays of key channels, [T, Hv, Dk]
  DType key_dtype = DType::float32;

#ifdef __CUDACC__
  // Elements of the arrays where what belongs to a step, or a token, begins.
  __device__ __forceinline__ std::int64_t key_at(const GatedDeltaParams& p, std::int64_t token,
                                                 int step, int key_head) const;
  __device__ __forceinline__ std::int64_t u_at(const GatedDeltaParams& p, std::int64_t token,
                                               int step, int value_head) const;
  __device__ __forceinline__ std::int64_t decay_at(const GatedDeltaParams& p, std::int64_t token,
                                                   int value_head) const;
  __device__ __forceinline__ float load_u(std::int64_t at) const { return u[at]; }
  /// `step_at`: of the step and value in all that is kept of a batch.
  __device__ __forceinline__ void store_u(const GatedDeltaParams&, std::int64_t /*token*/,
                                          int /*value_head*/, int /*value*/, std::int64_t step_at,
                                          float x) const {
    u[step_at] = x;
  }
#endif
};

#ifdef __CUDACC__

/// Element of `key`, and of `u`, where the vector of a step of a token begins.
__device__ __forceinline__ std::int64_t key_record(const GatedDeltaParams& p, std::int64_t token,
                                                   int step, int key_head) {
  return ((token * p.steps + step) * p.num_key_heads + key_head) * p.key_head_dim;
}
__device__ __forceinline__ std::int64_t u_record(const GatedDeltaParams& p, std::int64_t token,
                                                 int step, int value_head) {
  return ((token * p.steps + step) * p.num_value_heads + value_head) * p.value_head_dim;
}
/// Element of `decay` where those of a token and value head begin.
__device__ __forceinline__ std::int64_t decay_record(const GatedDeltaParams& p, std::int64_t token,
                                                     int value_head) {
  return (token * p.num_value_heads + value_head) * p.gates.gates_per_head;
}

__device__ __forceinline__ std::int64_t StepRecords::key_at(const GatedDeltaParams& p,
                                                            std::int64_t token, int step,
                                                            int key_head) const {
  return key_record(p, token, step, key_head);
}
__device__ __forceinline__ std::int64_t StepRecords::u_at(const GatedDeltaParams& p,
                                                          std::int64_t token, int step,
                                                          int value_head) const {
  return u_record(p, token, step, value_head);
}
__device__ __forceinline__ std::int64_t StepRecords::decay_at(const GatedDeltaParams& p,
                                                              std::int64_t token,
                                                              int value_head) const {
  return decay_record(p, token, value_head);
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
