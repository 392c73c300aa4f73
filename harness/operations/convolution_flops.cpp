#include "harness/operations/convolution_flops.h"

#include "harness/operations/active_work.h"

namespace gdn {

FlopCount convolution_flop_count(const Case& inputs, std::int64_t) {
  const Problem& problem = inputs.problem;
  const double elements = static_cast<double>(active_work(inputs).tokens) *
                          static_cast<double>(problem.conv_channels());
  const double of_element = 2 * static_cast<double>(problem.conv_width) +
                            (problem.conv_bias ? 1 : 0) +
                            (problem.conv_residual != ConvResidual::none ? 1 : 0);
  return {0, elements * of_element, elements * of_element};
}

std::string convolution_flops_text(std::int64_t) {
  return "2 width (+ 1 with a bias, + 1 with a residual) per token and channel";
}

}  // namespace gdn
