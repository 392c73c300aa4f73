// What is verified, and how much of it.
#pragma once

#include <cstdint>

#include "interface/problem.h"

namespace gdn {

struct VerifyOptions {
  bool repeat = true;
  bool alone = true;
  bool duplicates = true;
  bool continuation = true;
  bool permuted = false;
  bool refilled = false;
  bool replay = false;
  bool streams = false;
  bool isolation = false;
  bool strided = false;
  bool on_request = false;
  bool phases = false;
  bool every_split = false;     ///< 128 runs
  bool token_by_token = false;  ///< as many runs as tokens in the longest sequence
  /// Every check but the last two, which cost many runs.
  static VerifyOptions all_invariances();
  /// Whether a check runs other cases than the one judged (all but "errors" and "repeat").
  bool runs_other_cases() const;
  /// "errors" alone: no other run, no other case.
  static VerifyOptions errors_only();
  /// As these, for a problem of a suite: where its arrays take more than 2.5 GB only "errors" and
  /// "repeat". A batch so large is in a suite for its size (offsets, grids); what the other checks
  /// look for does not grow with it, but their twenty runs and copies do.
  VerifyOptions of_suite_problem(const Problem& problem) const;
  /// Reference work above which a random sample of (sequence, head) pairs is checked instead of all
  /// (the sample holds the longest sequence's first and last head; drawn with sample_seed).
  double most_reference_flops = 4e10;
  std::uint64_t sample_seed = 1;
  int threads = 0;  ///< for the reference; 0 = all
};

}  // namespace gdn
