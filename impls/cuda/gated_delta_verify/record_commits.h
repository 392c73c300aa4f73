// The commit of drafts of which records were kept (tile/step_records.cuh): steps are done again to the states
// of sequences that accepted something, by state tiles, whatever the verify phase was made of.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/gated_delta_verify/drafts.h"
#include "cuda/launch_plan.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Bytes of the records of a problem, and where they lie in what a draft keeps.
std::int64_t record_bytes(const Problem& problem);
StepRecords kept_records(const Draft& draft);

/// One launch. Throws Error(unsupported), in the name of the implementation, where a grid does not hold its blocks.
LaunchPlan::Enqueue commit_of_records(const Draft& draft, const char* name);
/// The same of `count` drafts, whose calls lie on the device: DraftForm::commits.
LaunchPlan::Enqueue commits_of_records(const Draft& first, const CommitCall* calls,
                                       std::int64_t count, const char* name);

}  // namespace gdn::GDN_CUDA_TARGET
