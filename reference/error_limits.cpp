// Absolute limits on relative L2.
#include <algorithm>

#include "reference/errors.h"

namespace gdn::reference {

ErrorLimits error_limits(const Problem& problem) {
  // float32 arithmetic on well-conditioned problems; 16-bit tokens: six to eight roundings of the
  // operands (a rounding is about 0.4 unit roundoffs), for the worst single head.
  double compute = 0;
  switch (problem.token_dtype) {
    case DType::float32:
      compute = 3e-6;
      break;
    case DType::bfloat16:
      compute = 1e-2;
      break;
    case DType::float16:
      compute = 1.5e-3;
      break;
  }
  ErrorLimits limits;
  limits.output = compute;
  limits.state = compute + unit_roundoff(problem.state_dtype);
  limits.conv_output = 16 * 0x1p-24 + unit_roundoff(problem.token_dtype);
  if (problem.operation == Operation::gated_delta_layer) {
    limits.output *= 2;
    limits.state *= 2;
  }
  if (problem.operation == Operation::causal_conv1d) {
    limits.output = limits.conv_output;
    limits.state = 0;
  }
  return limits;
}

}  // namespace gdn::reference
