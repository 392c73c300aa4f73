// A sweep with its progress on stderr: on a terminal one line, rewritten in place; in a log a whole
// line every `log_every_s` seconds.
#pragma once

#include "harness/sweep/sweep.h"

namespace gdn::cli {

/// sweep() with a progress line (none if `quiet`), and a line on stderr for each row that is
/// neither right nor skipped.
SweepTotals sweep_with_progress(const std::vector<Problem>& problems,
                                const std::vector<const Implementation*>& implementations,
                                Device& device, const SweepOptions& options, RowSink& sink,
                                bool quiet, double log_every_s);

}  // namespace gdn::cli
