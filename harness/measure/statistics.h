// Statistics of timing samples: order statistics, the stopping rule of a measurement, and the tags
// of samples taken while the device ran below its usual clock. No device in here: everything is a
// function of numbers, and is tested on synthetic ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interface/device.h"

namespace gdn {

/// Order statistics of one set of samples, in the samples' unit.
struct Summary {
  std::int64_t count = 0;
  double minimum = 0;
  double first_quartile = 0;
  double median = 0;
  double third_quartile = 0;
  double maximum = 0;
  double mean = 0;
  double standard_deviation = 0;  ///< with count - 1; 0 for a single sample
  /// (third_quartile - first_quartile) / median: the dispersion shown beside every time. It is not
  /// moved by a few outliers, which the maximum shows.
  double relative_spread = 0;
};

/// Quantile of ascending samples by linear interpolation between order statistics, at rank
/// fraction * (n - 1) (Hyndman and Fan's type 7, the default of numpy and R).
/// Throws Error(bad_input) for an empty set.
double quantile(const std::vector<double>& ascending, double fraction);

/// Throws Error(bad_input) for an empty set, or naming the index of a sample that is not finite.
Summary summarize(std::vector<double> samples);

/// When a measurement has enough samples.
struct StoppingLimits {
  double noise_bound = 0.005;  ///< stop when the relative spread is at most this ...
  /// ... or no longer changes: the last `stable_window` estimates, taken every `stable_stride`
  /// samples from sample `stable_from` on, all within `stable_tolerance` of their mean.
  int stable_from = 64;
  int stable_stride = 16;
  int stable_window = 4;
  double stable_tolerance = 0.05;
  std::int64_t min_samples = 10;
  std::int64_t max_samples = 4000;
  double min_time_s = 0.02;  ///< of the samples themselves; either noise rule waits for it
  double max_time_s = 1.5;   ///< of wall time, everything between the samples included
};

enum class StopReason { none, noise_bound, stable_noise, max_samples, max_time };
std::string to_string(StopReason reason);

/// Decides, sample by sample. The noise is estimated at power-of-two counts up to `stable_from` and
/// every `stable_stride` samples after it, so that the cost of sorting stays small.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingLimits& limits);

  /// One more sample, and the wall time since the measurement began. Returns the reason to stop
  /// now, or none.
  StopReason add(double time_ms, double wall_time_s);

  /// Relative spread at the latest estimate; infinity before the first.
  double noise() const { return noise_; }

 private:
  bool noise_is_stable() const;

  StoppingLimits limits_;
  std::vector<double> samples_;
  std::vector<double> estimates_;  ///< noise at each multiple of the stride from stable_from on
  double total_time_s_ = 0;
  double noise_;
};

/// Which samples were taken at a lowered clock.
struct ThrottleTags {
  std::vector<bool> throttled;     ///< one per sample
  double reference_clock_mhz = 0;  ///< the highest clock seen; 0 if no sample has a clock
  std::int64_t throttled_count = 0;
  /// More than half of the samples are tagged: then the low clock is the device's state, not a
  /// disturbance, and none of them is to be left out. The row says so.
  bool mostly_throttled = false;
};

/// Tags samples whose clock is known and below `fraction` of the highest clock in the set. The
/// sample at the highest clock is never tagged, so a set is never tagged as a whole.
ThrottleTags tag_throttled(const std::vector<TimeSample>& samples, double fraction = 0.9);

/// Times of the samples that count: all, or those not tagged unless most of them are.
std::vector<double> counted_times_ms(const std::vector<TimeSample>& samples,
                                     const ThrottleTags& tags);

}  // namespace gdn
