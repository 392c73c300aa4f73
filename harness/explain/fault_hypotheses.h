// Hypotheses about a fault that the float64 reference can compute: what outputs would be if one
// thing were done differently. Only for gated_delta, one step per token and one decay per head.
#pragma once

#include <string>
#include <vector>

#include "harness/explain/error_anatomy.h"

namespace gdn {

enum class Hypothesis {
  tiled_heads,               ///< key head h % Hk
  initial_state_transposed,  ///< read in the other memory order
  initial_state_zero,        ///< not read
  final_state_transposed,    ///< written in the other memory order
  no_correction,             ///< r = v_t
  no_norm,                   ///< queries and keys as they are, where normalize_qk
  norm,                      ///< queries and keys divided by their lengths, where not normalize_qk
  no_scale,                  ///< outputs S^T q
  no_decay,                  ///< every decay 1
  no_beta,                   ///< every beta 1
  read_before_update,        ///< o_t from the state decayed but not yet updated
  read_before_decay,         ///< o_t from the state that token t finds
  decay_after_update,        ///< S <- exp(g) (S + beta k r^T)
};

/// Every one of them, in words: "the decay after the update".
const std::vector<Hypothesis>& all_hypotheses();
std::string to_string(Hypothesis hypothesis);

/// Why a problem cannot tell, before anything is computed: it asks for nothing that would be done
/// differently ("no initial state"). Empty where it may.
std::string why_not_posed(Hypothesis hypothesis, const Problem& problem);

/// Whether hypotheses say anything of the problem.
bool has_hypotheses(const Problem& problem);

/// Output, and the final state where the problem writes it, as the hypothesis has them, of a problem
/// that poses it; as reference::evaluate() gives them.
Arrays<double> supposed_outputs(Hypothesis hypothesis, const Case& inputs,
                                const reference::EvaluationOptions& options);

/// Whether the outputs of `pairs` are within their limit of what the hypothesis gives. False where
/// it says nothing (no initial state, Hk = Hv, ...).
bool agrees(Hypothesis hypothesis, const CheckedReference& reference, const Outputs& outputs,
            const std::vector<reference::SequenceHead>& pairs, double limit);

}  // namespace gdn
