// Verification shared out among processes: which problems, and which implementations on each, one
// of several shards has.
#pragma once

#include <functional>
#include <vector>

#include "harness/suites.h"
#include "harness/sweep.h"
#include "interface/implementation.h"

namespace gdn {

/// A problem and what to verify on it.
struct VerificationTask {
  SuiteProblem entry;
  std::vector<const Implementation*> implementations;
};

/// The tasks of one shard, largest first: shards of about equal work, disjoint and together
/// complete. The implementations of a problem that is a good part of a shard by itself are dealt to
/// several shards, each of which makes its inputs and its reference again. The whole (1/1) is left
/// as it is.
std::vector<VerificationTask> share_of(const std::vector<VerificationTask>& tasks,
                                       const Shard& shard,
                                       const std::function<double(const VerificationTask&)>& work);

}  // namespace gdn
