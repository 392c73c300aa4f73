// gated_rms_norm_backward (docs/contract.md, section 1.13): its operands as typed pointers.
#pragma once

#include <cstdint>

#include "interface/arguments.h"
#include "interface/operation.h"
#include "interface/operations/gated_rms_norm.h"

namespace gdn {

const OperationSchema& gated_rms_norm_backward_operation();

struct GatedRmsNormBackwardArguments {
  GatedRmsNormArguments forward;  ///< the inputs of the forward call; y is null
  const void* d_y = nullptr;      ///< [T, Hv, Dv], token dtype
  /// Elements from one token of d_y to the next, never 0.
  std::int64_t d_y_token_stride = 0;
  void* d_x = nullptr;  ///< [T, Hv, Dv], dense, token dtype; rows behind the tokens stay unwritten
  void* d_z = nullptr;  ///< likewise
  float* d_weight = nullptr;  ///< [Dv]: a sum over the rows of the batch
};

/// Checked by require_operands().
GatedRmsNormBackwardArguments gated_rms_norm_backward_arguments(const Problem& problem,
                                                                const Arguments& arguments);

}  // namespace gdn
