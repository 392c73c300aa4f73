// Gradients against central differences of a scalar that a wider type computes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "interface/case.h"

namespace gdn::reference::testing {

inline constexpr float kDifferenceStep = 0x1p-6f;

/// Small inputs become such that x +- kDifferenceStep and x +- 2 kDifferenceStep are exact in float32.
inline void make_steps_exact(Case& c) {
  for (auto& [name, values] : c.arrays) {
    for (float& x : values) x = std::nearbyint(x * 0x1p12f) * 0x1p-12f;
  }
}

/// `d` is the gradient of loss() -> long double with respect to `values`, which loss() reads: by
/// differences of fourth order, wrong by h^4 / 30 of the fifth derivative, with steps h of kDifferenceStep or
/// of any power of 2 from 2^-12. NaN: of no element's.
template <typename Loss>
void expect_is_gradient(const std::string& name, std::vector<float>& values,
                        const std::vector<double>& d, const Loss& loss, float h = kDifferenceStep) {
  ASSERT_EQ(values.size(), d.size()) << name;
  double largest = 0;
  for (const double x : d) {
    if (!std::isnan(x)) largest = std::max(largest, std::fabs(x));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(d[i])) continue;  // a row or padding that no sequence owns
    const float x = values[i];
    const auto at = [&](float shift) {
      values[i] = x + shift;
      const long double made = loss();
      values[i] = x;
      return made;
    };
    const long double slope =
        (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * static_cast<long double>(h));
    const double error = std::fabs(static_cast<double>(slope) - d[i]);
    EXPECT_TRUE(error <= 2e-6 * largest + 1e-12)
        << name << " " << i << ": " << d[i] << ", differences " << static_cast<double>(slope);
  }
}

}  // namespace gdn::reference::testing
