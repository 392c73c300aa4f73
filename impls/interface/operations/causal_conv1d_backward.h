// causal_conv1d_backward (docs/contract.md, section 1.12): its operands as typed pointers.
#pragma once

#include <cstdint>
#include <vector>

#include "interface/arguments.h"
#include "interface/operation.h"
#include "interface/operations/causal_conv1d.h"

namespace gdn {

const OperationSchema& causal_conv1d_backward_operation();

/// What the forward call has at place i of a channel, counted from the sequence's first token: an
/// input; before it the window of its sequence, or zero. The sequence owns a row where i may be negative.
float convolution_input_at(const Case& c, std::int64_t sequence, std::int64_t channel,
                           std::int64_t i);
/// OperationSchema::fit_part of an operation with these gradients: the windows where parts begin are what
/// the forward calls on the tokens before them left in the pool.
void fit_convolution_gradients(const Case& whole, const std::vector<PartOfSequence>& parts,
                               Case& part);

struct CausalConv1dBackwardArguments {
  /// The inputs of the forward call; state_in are the windows as they were before it, which are only
  /// read (null: zeros stood before every sequence). Residual, state_out and the outputs are null.
  CausalConv1dArguments forward;
  const void* d_output = nullptr;  ///< as the forward input, token dtype
  /// Elements from one token of d_output to the next, never 0; with [channels, T] it says nothing.
  std::int64_t d_output_token_stride = 0;
  /// Rows of windows at window_strides(), state dtype; null: the forward call wrote no windows.
  const void* d_final_window = nullptr;
  void* d_input = nullptr;    ///< as the forward input, dense, token dtype
  float* d_weight = nullptr;  ///< [channels, width]: a sum over the batch
  float* d_bias = nullptr;    ///< [channels], likewise; null: there is no bias
  /// Rows of windows at window_strides(), state dtype; null: the forward call read no windows.
  void* d_initial_window = nullptr;
};

/// Checked by require_operands().
CausalConv1dBackwardArguments causal_conv1d_backward_arguments(const Problem& problem,
                                                               const Arguments& arguments);

}  // namespace gdn
