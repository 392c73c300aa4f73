// The part of a case that is work: sequences that are not padding.
#pragma once

#include <cstdint>

#include "interface/case.h"

namespace gdn {

struct ActiveWork {
  std::int64_t tokens = 0;
};

inline ActiveWork active_work(const Case& inputs) {
  ActiveWork active;
  for (std::int64_t n = 0; n < inputs.problem.num_sequences(); ++n) {
    if (inputs.slot(n) >= 0) active.tokens += inputs.length(n);
  }
  return active;
}

}  // namespace gdn
