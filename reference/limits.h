// Absolute limits on relative L2: a result above them fails whatever its baseline says. Where the
// numbers come from: recurrence_limits.cpp, and each operation's file.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "interface/problem.h"
#include "reference/conditioning.h"

namespace gdn::reference {

struct OutputLimit {
  double relative_l2 = 0;  ///< of a unit whose readout does not cancel
  /// Added to it (as squares) for each unit of sqrt(R^2 - 1) of a readout R (conditioning.h).
  double per_readout = 0;
  /// Of values behind a norm: both grow with Conditioning::norm_growths.
  bool behind_norm = false;

  double of(double readout, double norm_growth = 1) const;
};

/// By output name.
using ErrorLimits = std::map<std::string, OutputLimit, std::less<>>;

/// No limit is above this: a result with no correct digit is wrong, however ill-conditioned the
/// problem.
inline constexpr double kLargestLimit = 0.1;

/// The limit of the named output; all zeros where it has none.
OutputLimit limit_of(const ErrorLimits& limits, std::string_view output);

/// As wide as the problem's conditioning makes them; the default is a well-conditioned problem.
ErrorLimits error_limits(const Problem& problem, const Conditioning& conditioning = {});

/// Of the recurrence, for output and final_state; `factor` times those of gated_delta.
ErrorLimits recurrence_limits(const Problem& problem, const Conditioning& conditioning,
                              double factor);
void widen_recurrence_limits(ErrorLimits& limits, const Problem& problem,
                             const Conditioning& conditioning, double roundings);
/// Of the convolution's output. Fewer than 16 multiply-adds and an activation in float32, and one
/// rounding to the token dtype.
OutputLimit convolution_limit(const Problem& problem);
/// Windows hold tokens: a call that goes on from them sees their rounding only if their type is
/// narrower.
void widen_convolution_limit(OutputLimit& limit, const Problem& problem);

}  // namespace gdn::reference
