#include "reference/limits.h"

#include <algorithm>
#include <cmath>

#include "reference/operation.h"

namespace gdn::reference {

double OutputLimit::of(double readout, double norm_growth) const {
  const double cancelling = std::sqrt(std::max(0.0, readout * readout - 1));
  const double growth = behind_norm ? norm_growth : 1;
  return std::min(growth * std::hypot(relative_l2, per_readout * cancelling),
                  std::max(relative_l2, kLargestLimit));
}

OutputLimit limit_of(const ErrorLimits& limits, std::string_view output) {
  const auto found = limits.find(output);
  return found == limits.end() ? OutputLimit{} : found->second;
}

ErrorLimits error_limits(const Problem& problem, const Conditioning& conditioning) {
  return reference_of(problem.operation).limits(problem, conditioning);
}

OutputLimit convolution_limit(const Problem& problem) {
  const double operations = problem.conv_residual != ConvResidual::none ? 17 : 16;
  return {operations * unit_roundoff(DType::float32) + unit_roundoff(problem.token_dtype), 0};
}

void widen_convolution_limit(OutputLimit& limit, const Problem& problem) {
  const double window = unit_roundoff(problem.state_dtype);
  if (window > unit_roundoff(problem.token_dtype)) limit.relative_l2 += 2 * window;
}

}  // namespace gdn::reference
