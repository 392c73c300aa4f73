// What a case says nothing about. Known wrong forms of the operation may give outputs that are within
// a case's limits too: a pass on it does not exclude them, and another case is needed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/explain/fault_hypotheses.h"

namespace gdn {

struct UntoldForm {
  Hypothesis form;
  std::string why;  ///< "there is no initial state"
};

/// The forms that the case cannot tell from the right one; none where nobody knows wrong forms
/// (has_hypotheses). Those of `told` are not asked again. Each costs an evaluation of the reference.
std::vector<UntoldForm> untold_forms(const CheckedReference& reference,
                                     const std::set<Hypothesis>& told = {});

/// Empty, or what the error of float32 final states leaves open: one of 16-bit arithmetic does not
/// exclude a state that is rounded to 16 bits inside the call.
std::string rounded_state_untold(const Problem& problem, const reference::ErrorReport& report);

}  // namespace gdn
