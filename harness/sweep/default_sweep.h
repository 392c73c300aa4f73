// The first sweep of a newcomer: the real trace, then model shapes scaled to the device at hand, so
// that it takes about a minute on a laptop CPU and shows a GPU at work.
#pragma once

#include <string>
#include <vector>

#include "interface/device.h"
#include "interface/problem.h"

namespace gdn {

/// data/gdn_lm_trace.h5, where find_data_file() finds it; empty if it does not.
std::string find_trace_file();

/// `trace_file` may be empty: then only generated problems.
std::vector<Problem> default_sweep_problems(const DeviceInfo& device,
                                            const std::string& trace_file);

}  // namespace gdn
