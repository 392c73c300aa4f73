// gated_delta_verify: the float64 reference, its work and its limits. These are gated_delta's: the same
// equations over all draft tokens, the state of each sequence taken after the tokens that the
// description says it carries (Case::carried_tokens).
#include "interface/operations/gated_delta_verify.h"

#include "interface/operations/recurrence_operands.h"
#include "reference/operation.h"

namespace gdn::reference {

const ReferenceOperation& gated_delta_reference();
const ReferenceOperation& gated_delta_verify_reference();

const ReferenceOperation& gated_delta_verify_reference() {
  static const ReferenceOperation operation = [] {
    ReferenceOperation verify = gated_delta_reference();
    verify.operation = gated_delta_verify_operation();
    verify.honours = recurrence_options() + recurrence_variants() + HonouredFields{"logits"};
    return verify;
  }();
  return operation;
}

}  // namespace gdn::reference
