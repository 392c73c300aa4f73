// What the forms of gated_delta_backward share on the host: their argument block, and the launches
// of sums.hip behind their own.
#pragma once

#include <vector>

#include "hip/gated_delta_backward/params.h"
#include "hip/kernel_launcher.h"

namespace gdn::hip {

/// Without the workspace and what of it the form chooses.
BackwardParams make_backward_params(const Problem& problem, const Arguments& arguments);

std::int64_t padded_key_width(const Problem& problem);  ///< BackwardParams::key_width

/// Bytes of the summands, of `tiles` for each head.
struct SummandBytes {
  std::int64_t keys, gates, A_log;
};
SummandBytes summand_bytes(const Problem& problem, std::int64_t tiles);

/// A launch with BackwardParams, whose `blocks` is grid.x.
struct BackwardStep {
  std::string kernel;
  Extent grid;
  std::uint32_t threads;
};
/// The sums of the summands; those with nothing to sum are left out.
std::vector<BackwardStep> gradient_sums(const Problem& problem);
void enqueue(const std::vector<BackwardStep>& steps, BackwardParams params,
             KernelLauncher& launcher);

}  // namespace gdn::hip
