// Arguments of gated_delta_backward as kernels take them: those of the forward call, and the gradients.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"
#include "interface/arguments.h"
#include "interface/dtype.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET {

/// What kernels of gated_delta_backward take.
struct BackwardParams {
  /// The forward call. Its pool is the initial state and only read; its output is d_v.
  GatedDeltaParams forward;
  DType token_dtype = DType::float32;
  const void* d_output = nullptr;          ///< [T, Hv, Dv]
  std::int64_t d_output_token_stride = 0;  ///< elements
  StatePool d_final;                       ///< read where there is one
  StatePool d_initial;                     ///< written
  void* d_query = nullptr;                 ///< [T, Hk, Dk]
  void* d_key = nullptr;                   ///< [T, Hk, Dk]
  float* d_gate = nullptr;                 ///< [T, Hv], as encoded
  float* d_beta = nullptr;                 ///< [T, Hv], as encoded
  float* d_A_log = nullptr;                ///< [Hv], logits and bounded only
  float* d_dt_bias = nullptr;              ///< likewise
};

/// Throws Error(bad_input), as make_params() does.
BackwardParams make_backward_params(const Problem& problem, const Arguments& arguments);

}  // namespace gdn::GDN_CUDA_TARGET
