// Hypotheses about a fault that the float64 reference can compute: what outputs would be if one
// thing were done differently. Only for gated_delta, one step per token and one decay per head.
#pragma once

#include <vector>

#include "harness/explain/error_anatomy.h"

namespace gdn {

enum class Hypothesis {
  tiled_heads,               ///< key head h % Hk
  initial_state_transposed,  ///< read in the other memory order (Dk = Dv)
  initial_state_zero,        ///< not read
  no_correction,             ///< r = v_t
  no_norm,                   ///< queries and keys as they are, where normalize_qk
  read_before_update,        ///< o_t from the state decayed but not yet updated
  read_before_decay,         ///< o_t from the state that token t finds
  decay_after_update,        ///< S <- exp(g) (S + beta k r^T)
};

/// Whether the outputs of `pairs` are within their limit of what the hypothesis gives. False where
/// it says nothing (no initial state, Hk = Hv, ...).
bool agrees(Hypothesis hypothesis, const CheckedReference& reference, const Outputs& outputs,
            const std::vector<reference::SequenceHead>& pairs, double limit);

}  // namespace gdn
