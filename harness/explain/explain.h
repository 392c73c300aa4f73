// Error anatomy of one case: where the error sits, what it looks like, and the tensors themselves.
#pragma once

#include "harness/explain/fault_patterns.h"
#include "harness/files/outputs_file.h"
#include "interface/implementation.h"

namespace gdn {

struct Explanation {
  Anatomy anatomy;
  std::vector<FaultPattern> patterns;
  Outputs outputs;
  bool passed() const { return anatomy.violation.empty(); }
};

/// A line for every output above its limit that no pattern is about: its name, the sequence, head
/// and tokens of the unit that is worst, and how large the error is there.
std::vector<std::string> unexplained(const Explanation& explanation);

/// Outputs that are there already. `chunk`: tokens per chunk of what made them; 0: not known.
Explanation explain(const CheckedReference& reference, Outputs outputs, std::int64_t chunk);

/// Runs the implementation as verify does, twice: a second run that differs is a violation, with
/// the pattern "repeat" ("what differs first" its evidence). Where the first token is wrong already
/// and there is an initial state, it is run again without one: what stays wrong then is not the
/// incoming state's doing, and what becomes right is.
Explanation explain(const CheckedReference& reference, const Implementation& implementation,
                    Device& device);

/// A file (replaced) with reference_X, X and X_difference for every output X of the operation:
/// shapes as in outputs files. The reference in float64; differences are rounded once, after
/// subtraction in float64; NaN where the reference was sampled and not evaluated.
void write_tensors(const CheckedReference& reference, const Explanation& explanation,
                   const OutputsOrigin& origin, const std::string& path);

/// Throws Error(bad_input) if write_tensors would replace a file that it did not write.
void require_tensors_or_absent(const std::string& path);

}  // namespace gdn
