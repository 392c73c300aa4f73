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

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
