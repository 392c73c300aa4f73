#include "cpu/gated_rms_norm/row_kernel.h"

#include <Eigen/Core>

#include "cpu/gated_rms_norm/row_scale.h"

namespace gdn::cpu::GDN_ISA {

void norm_row(const float* x, const float* z, const float* weight, std::int64_t width, float eps,
              NormGate gate, float* y) {
  using Row = Eigen::Map<const Eigen::ArrayXf>;
  const Row xs(x, width), zs(z, width), weights(weight, width);
  Eigen::Map<Eigen::ArrayXf> ys(y, width);
  const float scale = row_scale(xs, eps);
  // sigmoid(z) of exp(-|z|), which is at most 1: infinity over infinity is never formed.
  ys = (-zs.abs()).exp();
  ys = (zs < 0).select(ys, 1.0f) / (1.0f + ys);
  if (gate == NormGate::silu) ys *= zs;
  if (gate == NormGate::sigmoid2) ys *= 2.0f;
  ys *= xs * scale * weights;
}

}  // namespace gdn::cpu::GDN_ISA
