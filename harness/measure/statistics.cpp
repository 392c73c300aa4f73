#include "harness/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "interface/error.h"

namespace gdn {

double quantile(const std::vector<double>& ascending, double fraction) {
  if (ascending.empty()) throw_bad_input("quantile: no samples");
  const double rank = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(ascending.size() - 1);
  const std::size_t below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double weight = rank - static_cast<double>(below);
  return ascending[below] + weight * (ascending[above] - ascending[below]);
}

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) throw_bad_input("summary: no samples");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!std::isfinite(samples[i])) {
      throw_bad_input("summary: sample " + std::to_string(i) + " is not finite");
    }
  }
  std::sort(samples.begin(), samples.end());
  Summary summary;
  const double count = static_cast<double>(samples.size());
  summary.count = static_cast<std::int64_t>(samples.size());
  summary.minimum = samples.front();
  summary.first_quartile = quantile(samples, 0.25);
  summary.median = quantile(samples, 0.5);
  summary.third_quartile = quantile(samples, 0.75);
  summary.maximum = samples.back();
  summary.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  if (samples.size() > 1) {
    double squares = 0;
    for (const double sample : samples) {
      squares += (sample - summary.mean) * (sample - summary.mean);
    }
    summary.standard_deviation = std::sqrt(squares / (count - 1));
  }
  const double range = summary.third_quartile - summary.first_quartile;
  // A median of zero (a clock too coarse) has no relative spread: infinite unless all are zero.
  if (range > 0) {
    summary.relative_spread =
        summary.median > 0 ? range / summary.median : std::numeric_limits<double>::infinity();
  }
  return summary;
}

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "none";
    case StopReason::noise_bound:
      return "noise_bound";
    case StopReason::stable_noise:
      return "stable_noise";
    case StopReason::max_samples:
      return "max_samples";
    case StopReason::max_time:
      return "max_time";
  }
  throw_bad_input("StopReason holds a value without a name");
}

StoppingRule::StoppingRule(const StoppingLimits& limits)
    : limits_(limits), noise_(std::numeric_limits<double>::infinity()) {
  if (limits.min_samples < 1 || limits.max_samples < limits.min_samples) {
    throw_bad_input("stopping rule: expected 1 <= min_samples <= max_samples, got " +
                    std::to_string(limits.min_samples) + " and " +
                    std::to_string(limits.max_samples));
  }
  if (limits.stable_stride < 1 || limits.stable_window < 2 || limits.stable_from < 2) {
    throw_bad_input(
        "stopping rule: expected stable_stride >= 1, stable_window >= 2, stable_from >= 2");
  }
}

bool StoppingRule::noise_is_stable() const {
  const std::size_t window = static_cast<std::size_t>(limits_.stable_window);
  if (estimates_.size() < window) return false;
  const auto first = estimates_.end() - static_cast<std::ptrdiff_t>(window);
  const double mean = std::accumulate(first, estimates_.end(), 0.0) / static_cast<double>(window);
  return std::all_of(first, estimates_.end(), [&](double estimate) {
    return std::abs(estimate - mean) <= limits_.stable_tolerance * mean;
  });
}

StopReason StoppingRule::add(double time_ms, double wall_time_s) {
  samples_.push_back(time_ms);
  total_time_s_ += time_ms * 1e-3;
  const std::int64_t count = static_cast<std::int64_t>(samples_.size());

  const bool on_stride =
      count >= limits_.stable_from && (count - limits_.stable_from) % limits_.stable_stride == 0;
  const bool early = count < limits_.stable_from &&
                     (count == limits_.min_samples || (count >= 2 && (count & (count - 1)) == 0));
  if (on_stride || early) {
    noise_ =
        count >= 2 ? summarize(samples_).relative_spread : std::numeric_limits<double>::infinity();
    if (on_stride) estimates_.push_back(noise_);
    if (count >= limits_.min_samples && total_time_s_ >= limits_.min_time_s) {
      if (noise_ <= limits_.noise_bound) return StopReason::noise_bound;
      if (noise_is_stable()) return StopReason::stable_noise;
    }
  }
  if (count >= limits_.max_samples) return StopReason::max_samples;
  // Even out of time, a median needs a few samples: at least three, however slow they are.
  if (wall_time_s >= limits_.max_time_s &&
      count >= std::min<std::int64_t>(3, limits_.min_samples)) {
    return StopReason::max_time;
  }
  return StopReason::none;
}

ThrottleTags tag_throttled(const std::vector<TimeSample>& samples, double fraction) {
  ThrottleTags tags;
  tags.throttled.assign(samples.size(), false);
  for (const TimeSample& sample : samples) {
    tags.reference_clock_mhz = std::max(tags.reference_clock_mhz, sample.clock_mhz);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double clock_mhz = samples[i].clock_mhz;
    if (clock_mhz > 0 && clock_mhz < fraction * tags.reference_clock_mhz) {
      tags.throttled[i] = true;
      ++tags.throttled_count;
    }
  }
  tags.mostly_throttled = 2 * tags.throttled_count > static_cast<std::int64_t>(samples.size());
  return tags;
}

std::vector<double> counted_times_ms(const std::vector<TimeSample>& samples,
                                     const ThrottleTags& tags) {
  std::vector<double> times_ms;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (tags.mostly_throttled || !tags.throttled[i]) times_ms.push_back(samples[i].time_ms);
  }
  return times_ms;
}

}  // namespace gdn
