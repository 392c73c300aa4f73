// gated_delta_backward (docs/contract.md, section 1.4): its operands as typed pointers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interface/arguments.h"
#include "interface/operation.h"
#include "interface/operations/gated_delta.h"

namespace gdn {

const OperationSchema& gated_delta_backward_operation();

/// The operand that holds the gradient of the problem's gates as they are encoded, and of its betas:
/// "d_log_decay", "d_beta".
std::string gate_gradient_name(const Problem& problem);
std::string beta_gradient_name(const Problem& problem);

/// Where the keys and values of a case come from; the token counted over the batch.
struct KeysAndValues {
  /// A key as the recurrence takes it: divided by its length where that is a step of the call.
  std::vector<double> (*key)(const Case&, std::int64_t sequence, std::int64_t token,
                             std::int64_t key_head);
  double (*value)(const Case&, std::int64_t sequence, std::int64_t token, std::int64_t head,
                  std::int64_t element);
};
/// OperationSchema::fit_part of an operation with these gradients: the states where parts begin are what
/// the forward calls on the tokens before them left in the pool. Parts that are not cut out of their own
/// sequences (other lengths over the same tokens) keep the states they have.
void fit_recurrence_gradients(const Case& whole, const std::vector<PartOfSequence>& parts,
                              Case& part, const KeysAndValues& read);

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
