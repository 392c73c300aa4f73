// Comparison of two sets of rows: is B slower or faster than A, row by row, and did its errors
// grow? A verdict rests on the stored samples and is given only where they settle it.
//
// The interval of a side, where its median time lies with 95 % confidence:
//   one file      from the row's samples, those tagged as throttled left out (statistics.h)
//   several files each file is one process, and its median is one sample. Processes differ by more
//                 than the samples of one process show (memory placement, clocks), so this is the
//                 form to trust; at least three are needed for an interval of use.
//   9 samples or more: order statistics, no assumption on the distribution. The samples on either
//                 side of the median are binomial(n, 1/2), so [x_(k+1), x_(n-k)] misses it with
//                 probability 2 P(binomial <= k); k is the largest with at most 5 % (W. R.
//                 Thompson 1936; any text on order statistics).
//   2 to 8:       Student's t interval of the mean.
//   1:            none, unless the time comes from a model, which is exact.
//
// Paired processes (paired.h: A B B A ...): the sample is the logarithm of the ratio of a
// pair's medians, and its interval, by the same rules, is the change's. What drifts from pair to
// pair cancels in it.
//
// Unpaired, the change of B against A lies in [B.low / A.high - 1, B.high / A.low - 1]. With a
// tolerance (1.5 % unless said otherwise), which stands for what differs between runs of one build:
//   same       the whole interval lies within -tolerance .. +tolerance
//   slower     the whole interval lies above +tolerance
//   faster     the whole interval lies below -tolerance
//   ambiguous  it lies across a border: too few or too scattered samples for this tolerance
// The rule is symmetric: "same" needs evidence as "slower" does. A shift of 3 % is found when the
// two half-widths together are below 1.5 %.
//
// Slower and faster must hold in clock cycles, too, where all samples of both sides know their
// clock: if the interval of time x clock is not beyond the tolerance on the same side, the clock
// explains the difference, and the verdict is ambiguous.
//
// A modelled time is not compared with a measured one: ambiguous, whatever the two are.
//
// Errors: B's row fails where an error grew as harness/rows/grown_errors.h says, or where A's outputs were
// right and B's are not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/rows/row_store.h"

namespace gdn {

/// Where the median lies, in the samples' unit.
struct MedianInterval {
  double low = kNotMeasured;
  double median = kNotMeasured;
  double high = kNotMeasured;
  std::int64_t count = 0;  ///< samples it rests on
  bool known() const { return low <= high; }
};

/// 95 % interval by the rules above. `exact`: a single sample is its own interval.
/// No samples: not known(). Throws Error(bad_input) naming a sample that is not finite.
MedianInterval median_interval(std::vector<double> samples, bool exact = false);

enum class SpeedVerdict {
  same,
  faster,
  slower,
  ambiguous,
  missing,  ///< one side has no such row, or no time for it
  untimed   ///< verified on both sides and timed on neither: only errors are compared
};
std::string to_string(SpeedVerdict verdict);

struct CompareOptions {
  double tolerance = 0.015;     ///< relative; 0.015 is 1.5 %
  double error_growth = 2.0;    ///< an error of B may be this many times A's
  bool across_devices = false;  ///< compare rows of different devices
  bool paired = false;          ///< process i of A and of B ran one after the other
  double planted_slowdown = 0;  ///< B is judged as if it took this much longer; 0.03 is 3 %
};

struct RowComparison {
  std::string problem;
  std::string implementation;
  std::string mode;
  std::string device;

  SpeedVerdict verdict = SpeedVerdict::missing;
  std::string reason;  ///< in words
  MedianInterval a_ms;
  MedianInterval b_ms;
  double change = kNotMeasured;  ///< B.median / A.median - 1
  double change_low = kNotMeasured;
  double change_high = kNotMeasured;

  bool numeric_regression = false;
  std::string numeric_reason;  ///< what grew; empty where nothing did
  /// A had a right result here and the comparison says nothing about B's.
  bool inconclusive = false;
};

struct CompareResult {
  std::vector<RowComparison> rows;  ///< in A's order, rows that only B has last
  std::vector<std::string> notes;   ///< what else differs: sources, driver, host threads, devices
  std::int64_t count(SpeedVerdict verdict) const;
  /// 1 a numeric regression; else 4 a row is slower; else 5 a row is inconclusive; else 0.
  int exit_code() const;
};

inline constexpr int kExitNumericRegression = 1;
inline constexpr int kExitSpeedRegression = 4;
inline constexpr int kExitInconclusive = 5;

/// `a`, `b`: one StoredRows per process. Rows are matched by problem, implementation, mode and
/// device; of rows with one identity in one file the latest counts. Throws Error(bad_input) if the
/// sides have no device in common (unless across_devices) or no row in common, or if paired sides
/// have different numbers of processes.
CompareResult compare(const std::vector<StoredRows>& a, const std::vector<StoredRows>& b,
                      const CompareOptions& options = {});

}  // namespace gdn
