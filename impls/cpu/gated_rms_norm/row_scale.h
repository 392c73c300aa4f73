// What the elements of a row are multiplied by, for kernels of the gated norm and of its gradients.
#pragma once

#include <Eigen/Core>
#include <cmath>

#include "cpu/instruction_set.h"

namespace gdn::cpu::GDN_ISA {

/// 1 / sqrt(mean(x^2) + eps).
inline float row_scale(const Eigen::Map<const Eigen::ArrayXf>& xs, float eps) {
  return 1 / std::sqrt(xs.square().sum() / static_cast<float>(xs.size()) + eps);
}

}  // namespace gdn::cpu::GDN_ISA
