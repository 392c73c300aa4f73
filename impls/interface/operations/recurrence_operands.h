// The operands of the gated delta rule that do not depend on where q, k and v come from: gates,
// betas, the state and the output (docs/contract.md, section 1.1).
#pragma once

#include <string>
#include <vector>

#include "interface/honoured_fields.h"
#include "interface/operation.h"

namespace gdn {

/// Every encoding of the gate (exactly one is present; gate_encoding_table.h), A_log and dt_bias, every
/// encoding of beta.
std::vector<Operand> gate_operands();
/// initial_state, in place final_state: [slots, Hv, Dk, Dv], or [slots, Hv, Dv, Dk] with layout=vk.
Operand state_operand();
inline constexpr const char* kRoundingSeed = "rounding_seed";
/// rounding_seed, [N], with Problem::state_rounding stochastic.
Operand rounding_seed_operand();
/// OperationSchema::fit_part of an operation with it: a part behind a sequence's first token has another seed, as
/// a server's next call has.
void fit_rounding_seeds(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part);
/// Throws Error(bad_input) where no final state of 16 bits is there to be rounded by chance.
void validate_state_rounding(const Problem& problem);
/// output [T, Hv, Dv].
Operand recurrence_output_operand();
/// Keys of the problem fields these and the recurrence look at.
std::vector<std::string> recurrence_fields();
/// Those that every form of the recurrence is written for (docs/contract.md, section 1.1); what it
/// does not do of them its supports() says. A list that stays as it is: an option that comes later is
/// named by the forms that have it. `bound` belongs to `gate`: a backend decodes every encoding in one
/// function, which all its forms call.
HonouredFields recurrence_options();
/// The variants of the recurrence: update, steps, decay.
HonouredFields recurrence_variants();

/// What a problem of the recurrence must fulfil beyond its fields one by one; throws
/// Error(bad_input).
void validate_recurrence(const Problem& problem);

/// The operand that holds the problem's gates, and its betas.
const char* gate_name(const Problem& problem);
const char* beta_name(const Problem& problem);

}  // namespace gdn
