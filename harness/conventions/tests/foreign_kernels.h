// Other systems' functions, as their documentation states them: straight loops over the arrays of
// a file in that convention, in its own index order, knowing nothing of harness/conventions. What
// an importer must agree with.
#pragma once

#include <string>

namespace gdn::testing {

/// Reads the case `inputs` (the file's root), runs the convention's gated delta rule in double, and
/// writes `outputs` as that system would: its datasets, its in-place pools.
void run_foreign_gated_delta(const std::string& convention, const std::string& inputs,
                             const std::string& outputs);
/// The same for its causal convolution.
void run_foreign_convolution(const std::string& convention, const std::string& inputs,
                             const std::string& outputs);

}  // namespace gdn::testing
