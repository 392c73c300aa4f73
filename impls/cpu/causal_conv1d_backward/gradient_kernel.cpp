#include "cpu/causal_conv1d_backward/gradient_kernel.h"

#include <Eigen/Core>

namespace gdn::cpu::GDN_ISA {
namespace {

using ChannelRow = Eigen::Map<const Eigen::ArrayXf>;
using WritableChannelRow = Eigen::Map<Eigen::ArrayXf>;
using ChannelSums = Eigen::Map<Eigen::ArrayXd>;

}  // namespace

void slope_rows(const float* ext, const float* weight, const float* bias, const float* d_y,
                std::int64_t tokens, std::int64_t channels, std::int64_t width, bool silu,
                float* g) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    WritableChannelRow z(g + t * channels, channels);
    const ChannelRow dy(d_y + t * channels, channels);
    if (!silu) {
      z = dy;
      continue;
    }
    z = ChannelRow(bias, channels);
    for (std::int64_t j = 0; j < width; ++j) {
      z += ChannelRow(weight + j * channels, channels) *
           ChannelRow(ext + (t + j) * channels, channels);
    }
    // s (1 + z (1 - s)) with e = exp(-|z|): s is 1 / (1 + e) and 1 - s is e / (1 + e), or the other way
    // round, so that neither loses its digits nor overflows.
    for (std::int64_t c = 0; c < channels; ++c) {
      const float e = std::exp(-std::abs(z[c]));
      const float large = 1 / (1 + e), small = e * large;
      const float s = z[c] >= 0 ? large : small, rest = z[c] >= 0 ? small : large;
      z[c] = dy[c] * (s + z[c] * (s * rest));
    }
  }
}

void spread_rows(const float* g, const float* weight, std::int64_t tokens, std::int64_t channels,
                 std::int64_t width, float* d) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    WritableChannelRow sum(d + t * channels, channels);
    sum = ChannelRow(weight, channels) * ChannelRow(g + (t + width - 1) * channels, channels);
    for (std::int64_t j = 1; j < width; ++j) {
      sum += ChannelRow(weight + j * channels, channels) *
             ChannelRow(g + (t + width - 1 - j) * channels, channels);
    }
  }
}

void add_weight_sums(const float* ext, const float* g, std::int64_t tokens, std::int64_t channels,
                     std::int64_t width, double* sums) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    const ChannelRow row(g + t * channels, channels);
    for (std::int64_t j = 0; j < width; ++j) {
      ChannelSums(sums + j * channels, channels) +=
          (row * ChannelRow(ext + (t + j) * channels, channels)).cast<double>();
    }
    ChannelSums(sums + width * channels, channels) += row.cast<double>();
  }
}

}  // namespace gdn::cpu::GDN_ISA
