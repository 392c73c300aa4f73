// What a convention's numbers mean, where that differs from ours: heads, norm, scale, gates and
// slots of a Case. Arrays stay in our axis order here; convert.cpp lays them out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/conventions/convention.h"
#include "interface/case.h"

namespace gdn::conventions {

struct ConvertOptions {
  /// Round gates, and normalised q and k, to 16 bits where the convention stores them so. The
  /// result is another case: judge outputs against the file converted back.
  bool round = false;
};

/// Throws Error(bad_input), one line, naming what `convention` cannot express of this problem:
/// operation, batch, slots, dtypes, options. Values are looked at by to_foreign.
void require_expressible(const Convention& convention, const Problem& problem);

/// The same case with the numbers the convention's function takes: q and k normalised or scaled,
/// gates and betas re-encoded, value heads and state rows in its order, slot_index in its counting
/// (present whenever it may be). Throws Error(bad_input) naming a value it cannot express.
Case to_foreign(const Convention& convention, const Case& ours, const ConvertOptions& options = {});

/// The inverse. `norm_epsilon` is that of the file, for a norm that is an operation of its own; 0
/// if q and k have passed it. problem.normalize_qk is what the file's flag says.
Case from_foreign(const Convention& convention, const Case& theirs, double norm_epsilon);

/// Outputs of `ours`, heads and state rows in the convention's order; and the inverse.
Outputs to_foreign(const Convention& convention, const Case& ours, const Outputs& outputs);
Outputs from_foreign(const Convention& convention, const Case& ours, const Outputs& theirs);

}  // namespace gdn::conventions
