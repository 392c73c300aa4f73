// causal_conv1d (docs/contract.md, section 1.2): its operands as typed pointers.
#pragma once

#include <cstdint>

#include "interface/arguments.h"
#include "interface/operation.h"

namespace gdn {

const OperationSchema& causal_conv1d_operation();

struct CausalConv1dArguments {
  const void* input = nullptr;  ///< [T, channels] or [channels, T], token dtype
  /// Elements from one token of the input to the next, never 0; with [channels, T] it says nothing.
  std::int64_t input_token_stride = 0;
  TokenRows input_rows;   ///< of [channels, T]
  TokenRows output_rows;  ///< likewise
  /// As input, with a stride and rows of its own: added behind the activation; nullptr where the problem
  /// has no such operand.
  const void* residual = nullptr;
  std::int64_t residual_token_stride = 0;
  TokenRows residual_rows;
  /// [channels, width], in Problem::effective_conv_weight_dtype, as is the bias.
  const void* weight = nullptr;
  const void* bias = nullptr;  ///< [channels], or nullptr
  IndexArray sequence_offsets;
  IndexArray slot_index;
  /// [N], 0 where zeros stand before the sequence though windows are read; or none.
  IndexArray has_window;
  /// [N], tokens of the sequence before the call, where windows are rings; or none.
  IndexArray window_position;
  /// Rows of windows at window_strides(), state dtype, in Problem::window_order; nullptr: zeros stand
  /// before sequences.
  const void* state_in = nullptr;
  /// The same pointer as state_in when updated in place; nullptr: no window is written.
  void* state_out = nullptr;
  /// [N, K], 0 where no window is wanted, or none.
  IndexArray checkpoint_tokens;
  /// [N, K] windows at window_strides(), state dtype: those after so many tokens; nullptr: none.
  void* checkpoint_windows = nullptr;
  void* output = nullptr;  ///< as input, dense; nullptr if `intermediate` is given instead
  /// Optional: the result before its rounding to the token dtype, [T, channels] in any conv_layout,
  /// for an operation that goes on from it.
  float* intermediate = nullptr;
};

/// Checked by require_operands().
CausalConv1dArguments causal_conv1d_arguments(const Problem& problem, const Arguments& arguments);

}  // namespace gdn
