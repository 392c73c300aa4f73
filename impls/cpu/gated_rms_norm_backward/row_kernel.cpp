#include "cpu/gated_rms_norm_backward/row_kernel.h"

#include <Eigen/Core>

#include "cpu/gated_rms_norm/row_scale.h"

namespace gdn::cpu::GDN_ISA {

void norm_row_gradients(const float* x, const float* z, const float* weight, const float* d_y,
                        std::int64_t width, float eps, NormGate gate, float* d_x, float* d_z,
                        double* d_weight) {
  const Eigen::Map<const Eigen::ArrayXf> xs(x, width), zs(z, width);
  Eigen::Map<Eigen::ArrayXf> d_xs(d_x, width), d_zs(d_z, width);
  const float scale = row_scale(xs, eps);
  // exp(-|z|), which is at most 1: infinity over infinity is never formed. As a square, since Eigen's
  // exponential by itself ends at 2^-126, where slopes far out go on to subnormal numbers and to zero.
  d_zs = (-0.5f * zs.abs()).exp().square();
  for (std::int64_t j = 0; j < width; ++j) {
    // One of sigmoid(z) and 1 - sigmoid(z) is 1 / (1 + e), the other e / (1 + e): neither loses its
    // digits.
    const float e = d_z[j];
    const float large = 1 / (1 + e), small = e * large;
    const float s = z[j] >= 0 ? large : small, slope = large * small;
    float gate_value = s, gate_slope = slope;
    if (gate == NormGate::silu) {
      gate_value = z[j] * s;
      gate_slope = s + z[j] * slope;
    } else if (gate == NormGate::sigmoid2) {
      gate_value = 2 * s;
      gate_slope = 2 * slope;
    }
    const float u = x[j] * scale, of_gate = d_y[j] * weight[j];
    d_x[j] = of_gate * gate_value;  // g
    d_z[j] = of_gate * u * gate_slope;
    d_weight[j] += static_cast<double>(d_y[j] * u * gate_value);
  }
  const float along = (xs * scale * d_xs).sum() / static_cast<float>(width);
  d_xs = (d_xs - xs * scale * along) * scale;
}

}  // namespace gdn::cpu::GDN_ISA
