// gated_rms_norm (docs/contract.md, section 1.5): its operands as typed pointers.
#pragma once

#include <cstdint>

#include "interface/arguments.h"
#include "interface/operation.h"

namespace gdn {

const OperationSchema& gated_rms_norm_operation();

/// What the norm takes beside the array that it normalises: z and the weight. A layer that ends in the
/// norm has them too.
Operand norm_gate_operand();
Operand norm_weight_operand();

struct GatedRmsNormArguments {
  const void* x = nullptr;  ///< [T, Hv, Dv], token dtype: what is normalised
  const void* z = nullptr;  ///< [T, Hv, Dv], token dtype: what the gate is made of
  /// Elements from one token to the next (a token's heads are contiguous), never 0.
  std::int64_t x_token_stride = 0;
  std::int64_t z_token_stride = 0;
  const void* weight = nullptr;  ///< [Dv], token dtype, shared by the heads
  /// [N + 1]. sequence_offsets[N] says how many tokens there are; rows behind them stay unwritten.
  IndexArray sequence_offsets;
  void* y = nullptr;  ///< [T, Hv, Dv], token dtype or float32 (Problem::effective_output_dtype)
};

/// Checked by require_operands().
GatedRmsNormArguments gated_rms_norm_arguments(const Problem& problem, const Arguments& arguments);

}  // namespace gdn
