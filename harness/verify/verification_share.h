// Verification shared out among processes: which problems, and which implementations on each, one
// of several shards has.
#pragma once

#include <functional>
#include <vector>

#include "harness/problems/shard.h"
#include "harness/verify/suites.h"
#include "harness/verify/verify.h"
#include "interface/device.h"
#include "interface/implementation.h"

namespace gdn {

/// A problem and what to verify on it.
struct VerificationTask {
  SuiteProblem entry;
  std::vector<const Implementation*> implementations;
};

/// Whether a task is left out wherever it comes to be: none of its implementations supports the
/// problem, one that does exceeds the device's memory, or the problem is of more than
/// `most_operations` (reference::evaluation_flops). Asks nothing that differs between processes on
/// one machine, such as what memory is free.
bool is_left_out(const VerificationTask& task, const DeviceInfo& device, double most_operations);

/// What a task counts for where tasks are shared out: its verification_work, or 1 if it is left
/// out.
double work_to_share(const VerificationTask& task, const VerifyOptions& options,
                     const DeviceInfo& device, double most_operations);

/// The tasks of one shard, largest first: shards of about equal work, disjoint and together
/// complete. The implementations of a problem that is a good part of a shard by itself are dealt to
/// several shards, each of which makes its inputs and its reference again. The whole (1/1) is left
/// as it is.
std::vector<VerificationTask> share_of(const std::vector<VerificationTask>& tasks,
                                       const Shard& shard,
                                       const std::function<double(const VerificationTask&)>& work);

/// The same tasks for workers of one process that take them one by one: largest first, and the
/// implementations of a problem that would keep one worker long each a task of its own.
std::vector<VerificationTask> for_workers(
    const std::vector<VerificationTask>& tasks, int workers,
    const std::function<double(const VerificationTask&)>& work);

}  // namespace gdn
