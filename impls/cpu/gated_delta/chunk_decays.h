// Decays between the tokens of a chunk. For kernel files only: the class lies in the namespace of the
// instruction set (cpu/instruction_set.h), since what its functions compile to differs between them.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gdn::cpu::GDN_ISA {

/// exp(-120) is far below the smallest float: such a decay is the reset that float arithmetic makes
/// of it, and leaving it out of the sums keeps the differences of the others exact.
inline constexpr float kResetLogDecay = -120.0f;

/// Decays within a chunk, as exponentials of differences of accumulated log decays: arguments are
/// never positive, so nothing overflows. A reset never enters a sum (-inf - -inf would be NaN): it
/// cuts the chunk into spans, and a decay from one span into another is an exact zero.
class ChunkDecays {
 public:
  /// accumulated: [C] doubles (differences of floats would lose the low bits of small decays in
  /// large sums); span_start: [C].
  ChunkDecays(double* accumulated, std::int64_t* span_start)
      : accumulated_(accumulated), span_start_(span_start) {}

  void accumulate(const float* log_decay, std::int64_t tokens) {
    double sum = 0;
    std::int64_t start = -1;  // -1: the span that the state carried into the chunk still reaches
    for (std::int64_t i = 0; i < tokens; ++i) {
      if (log_decay[i] < kResetLogDecay) {
        start = i;
      } else {
        sum += static_cast<double>(log_decay[i]);
      }
      accumulated_[i] = sum;
      span_start_[i] = start;
    }
    tokens_ = tokens;
  }

  /// gamma_i: from the chunk's initial state to the state after token i.
  float from_initial(std::int64_t i) const {
    return span_start_[i] >= 0 ? 0.0f : std::exp(static_cast<float>(accumulated_[i]));
  }

  /// D_ij for j <= i.
  float between(std::int64_t i, std::int64_t j) const {
    return j < span_start_[i] ? 0.0f
                              : std::exp(static_cast<float>(accumulated_[i] - accumulated_[j]));
  }

  /// Row i of D: [tokens], zero for columns above i.
  void row(std::int64_t i, float* entries) const {
    const std::int64_t first = std::max<std::int64_t>(span_start_[i], 0);
    for (std::int64_t j = 0; j < first; ++j) entries[j] = 0;
    for (std::int64_t j = first; j <= i; ++j) {
      entries[j] = static_cast<float>(accumulated_[i] - accumulated_[j]);
    }
    for (std::int64_t j = i + 1; j < tokens_; ++j) entries[j] = 0;
    Eigen::Map<Eigen::ArrayXf> exponents(entries + first, i + 1 - first);
    exponents = exponents.exp();
  }

 private:
  double* accumulated_;
  std::int64_t* span_start_;
  std::int64_t tokens_ = 0;
};

}  // namespace gdn::cpu::GDN_ISA
