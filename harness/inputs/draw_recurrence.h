// The generated operands of the recurrence.
//
//   q            unit length, uniform direction
//   k            KeyDistribution
//   v            N(0, 1) entries
//   gate, beta   GateDistribution and BetaDistribution, made in float64, then encoded. With "real"
//                the logits come first (A ~ U(0, 16) and dt ~ logU(1e-3, 0.1), at least 1e-4, per
//                head; with decay=channel dt per channel; dt_bias = ln(exp(dt) - 1); decay_logit ~
//                N(0, 1) * 0.1) and are rounded to float32 before the other encodings are computed
//                from them. With "bounded" they come first too, those of gate=bounded: exp(A_log) ~
//                logU(0.5, 2) per head, dt_bias ~ N(0, 1) per head or channel, f ~ N(0, 1), so that
//                log decays have a mean of half the bound and some are near 0, some near the bound, as
//                those of released models. Otherwise, and where the encoding is another one,
//                the logits are made from log_decay with A_log = 0, dt_bias = 0; gate=bounded holds
//                a log decay beyond its bound at the bound. Every gate (with decay=channel every
//                channel's) and every step's beta is drawn
//                by itself.
//   state        InitialState; rows are NaN where the initial state is absent, and the padding
//                after each row is NaN always: neither may be read
#pragma once

#include <vector>

#include "interface/case.h"

namespace gdn {

std::vector<float> draw_query(const Problem& problem);
std::vector<float> draw_key(const Problem& problem);
std::vector<float> draw_value(const Problem& problem);
/// The gates in the problem's encoding, with A_log and dt_bias where it has them; and the betas.
void draw_gates(Case& c);
void draw_betas(Case& c);
std::vector<float> draw_state_pool(const Problem& problem);

/// Whether rows of the operand may be of any magnitude (OperationHarness::takes_any_magnitude): keys
/// that are not normalised must not be longer than 1, the step would not be a contraction.
bool recurrence_takes_any_magnitude(const Problem& problem, const Operand& operand);

}  // namespace gdn
