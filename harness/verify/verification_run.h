// Verification of many implementations on many problems: which are left out and why, how many go side
// by side, in which order results come. What the command line prints is made of these results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/problems/shard.h"
#include "harness/verify/known_limits.h"
#include "harness/verify/suites.h"
#include "harness/verify/verification_share.h"
#include "harness/verify/verify.h"

namespace gdn {

struct VerificationSpec {
  std::vector<SuiteProblem> problems;
  /// The problems are a suite's: what is too large is left out instead of being an error, and
  /// VerifyOptions::of_suite_problem applies.
  bool of_suite = false;
  std::vector<std::string> implementations;  ///< names; empty: all that the device runs
  std::string device = "best";
  VerifyOptions options = VerifyOptions::all_invariances();
  bool errors_only = false;  ///< not even the checks that a suite's problem asks for
  Shard shard;
  int jobs = 0;  ///< problems side by side; 0: on a card half the processors, 12 at most, else 1
  /// Problems of more operations (reference::evaluation_flops) are left out; 0: of a suite 5e9 on a
  /// CPU and 2e7 on an emulator, else none.
  double most_operations = 0;
  bool in_order = true;  ///< results in the order of the problems; else as they are made
};

/// One implementation judged on one problem. Outputs are not kept.
struct VerifiedProblem {
  const Problem& problem;
  const std::string& implementation;
  std::string coverage;  ///< CheckedReference::coverage(); empty where nothing was run
  const VerifyResult& result;
  /// Known limits that this shows to be gone, entries of the run's own list. Empty unless the
  /// problem passed, the check "continuation" among the others where it applies.
  std::vector<const KnownLimit*> limits_gone;
};

class VerificationRun {
 public:
  /// Opens the device to see what it is. `limits`: failures that are reported as known, commonly
  /// known_limits(). Throws what open_device and choose_implementations throw.
  VerificationRun(VerificationSpec spec, std::vector<KnownLimit> limits);

  /// Results that run() will hand over.
  std::size_t results_ahead() const;
  /// Makes those not that `is_made` is true of; how many of the results ahead they were.
  std::size_t leave_out(
      const std::function<bool(const Problem&, const std::string& implementation)>& is_made);
  const DeviceInfo& device() const { return device_; }
  /// Verifies; hands each result over on the calling thread. Throws Error(out_of_memory) for a
  /// problem too large that is not a suite's.
  void run(const std::function<void(const VerifiedProblem&)>& hand_over);
  /// Whether this was one of several shards, and another may have something to verify.
  bool others_may_verify() const { return others_may_verify_; }

 private:
  std::vector<VerificationTask> every_task() const;
  VerifyOptions options_for(const SuiteProblem& entry) const;
  double most_operations() const;
  int jobs() const;
  std::int64_t memory_of(const VerificationTask& task) const;
  std::string too_large(const SuiteProblem& entry,
                        const std::vector<const Implementation*>& implementations,
                        const Device& device) const;
  using HandOverResult =
      std::function<void(const Implementation&, const std::string& coverage, VerifyResult)>;
  void verify_task(const VerificationTask& task, Device& device,
                   const HandOverResult& hand_over) const;

  VerificationSpec spec_;
  std::vector<KnownLimit> limits_;
  DeviceInfo device_;
  std::vector<VerificationTask> tasks_;  // of this shard
  bool others_may_verify_ = false;
};

}  // namespace gdn
