// gated_delta_backward (docs/contract.md, section 1.4): its operands as typed pointers.
#pragma once

#include <cstdint>
#include <string>

#include "interface/arguments.h"
#include "interface/operation.h"
#include "interface/operations/gated_delta.h"

namespace gdn {

const OperationSchema& gated_delta_backward_operation();

/// The operand that holds the gradient of the problem's gates as they are encoded, and of its betas:
/// "d_log_decay", "d_beta".
std::string gate_gradient_name(const Problem& problem);
std::string beta_gradient_name(const Problem& problem);

struct GatedDeltaBackwardArguments {
  /// The inputs of the forward call; state_pool is the initial state, which is only read (null without
  /// one), and output is null.
  GatedDeltaArguments forward;
  const void* d_output = nullptr;  ///< [T, Hv, Dv], token dtype
  std::int64_t d_output_token_stride = 0;
  const void* d_final_state = nullptr;  ///< as the state pool; null with ht=0
  void* d_query = nullptr;     ///< [T, Hk, Dk], token dtype: sums over a key head's value heads
  void* d_key = nullptr;       ///< the same
  void* d_value = nullptr;     ///< [T, Hv, Dv], token dtype
  float* d_gate = nullptr;     ///< [T, Hv], of the gates as they are encoded
  float* d_beta = nullptr;     ///< [T, Hv], of the betas as they are encoded
  float* d_A_log = nullptr;    ///< [Hv], where there is A_log: sums over the batch
  float* d_dt_bias = nullptr;  ///< the same
  void* d_initial_state = nullptr;  ///< as the state pool
};

/// Checked by require_operands().
GatedDeltaBackwardArguments gated_delta_backward_arguments(const Problem& problem,
                                                           const Arguments& arguments);

}  // namespace gdn
