// The part of a case that is work: sequences that are not padding.
#pragma once

#include <cstdint>

#include "interface/case.h"

namespace gdn {

struct ActiveWork {
  std::int64_t tokens = 0;
  std::int64_t rows = 0;  ///< of pools, of sequences with tokens: an empty one leaves its row alone
  std::int64_t carried_rows = 0;  ///< of these, rows that are written: of tokens that are carried
};

inline ActiveWork active_work(const Case& inputs) {
  ActiveWork active;
  for (std::int64_t n = 0; n < inputs.problem.num_sequences(); ++n) {
    if (inputs.slot(n) < 0) continue;
    active.tokens += inputs.length(n);
    active.rows += inputs.length(n) > 0 ? 1 : 0;
    active.carried_rows += inputs.carried_tokens(n) > 0 ? 1 : 0;
  }
  return active;
}

}  // namespace gdn
