#include <Eigen/Core>

#include "cpu/causal_conv1d/convolution.h"

namespace gdn::cpu::GDN_ISA {

void convolve_rows(const float* ext, const float* weight, const float* bias, std::int64_t tokens,
                   std::int64_t channels, std::int64_t width, bool silu, float* y) {
  using Row = Eigen::Map<const Eigen::ArrayXf>;
  for (std::int64_t t = 0; t < tokens; ++t) {
    Eigen::Map<Eigen::ArrayXf> sum(y + t * channels, channels);
    sum = Row(bias, channels);
    for (std::int64_t j = 0; j < width; ++j) {
      sum += Row(weight + j * channels, channels) * Row(ext + (t + j) * channels, channels);
    }
    // x sigmoid(x); where exp(-x) saturates the quotient is as good as zero.
    if (silu) sum /= 1.0f + (-sum).exp();
  }
}

}  // namespace gdn::cpu::GDN_ISA
