// What an error looks like: patterns that known faults leave, each with the evidence seen. A
// pattern is "consistent with", never a proof; a hypothesis that the float64 reference can compute
// (another head map, the state read before its update, ...) is compared with the outputs.
#pragma once

#include <string>
#include <vector>

#include "harness/explain/error_anatomy.h"

namespace gdn {

struct FaultPattern {
  std::string place;  ///< a key a program may match: "head map", "state pass", "tail chunk", ...
  std::string text;   ///< what it is consistent with, one line
  std::vector<std::string> evidence;
  /// The outputs above their limit that it is about; empty where it is about something else.
  std::vector<std::string> outputs = {};
};

/// The most specific first; empty where nothing is wrong or no rule fits.
///
///   untouched rows   pool rows or padding changed that no sequence owns
///   padding slot     outputs of slot -1 that are not zero
///   ...              those of the convolution (harness/explain/convolution_patterns.h), of
///                    gradients (harness/explain/gradient_patterns.h) and of outputs that have scales
///                    (harness/explain/scaled_patterns.h)
///   unwritten        outputs not finite, the states finite
///   not finite       everything not finite; or outputs and states from some token on
///   final state      outputs right, the final state wrong, or never written
///   state layout     the final state is right once transposed; or outputs are those of a
///                    transposed initial state
///   tail chunk       only tokens behind the last whole chunk
///   head map         outputs are those of key head h % Hk
///   initial state    outputs are those of a zero initial state
///   delta term, norm, readout, decay order
///                    outputs are those of an additive update; of keys as they are; of the state
///                    before the token's update; of decay after the update
///   scale            outputs are one factor times the reference
///   precision        final states exact in 16 bits, or errors of 16-bit roundings everywhere
///   one head, one sequence
///                    one of several alone; what it looks like besides comes after
///   mid-chunk        each first chunk right, errors start inside later ones
///   state pass       each first chunk right, errors start with later ones
///   chunk readout    as well, and every final state right, from no initial state
///   intra-chunk      each first token right, later ones of the first chunk wrong
///   scores           as well, and every final state right
///   token, incoming state
///                    the first token wrong, without or with an initial state
std::vector<FaultPattern> find_patterns(const CheckedReference& reference, const Outputs& outputs,
                                        const Anatomy& anatomy);

}  // namespace gdn
