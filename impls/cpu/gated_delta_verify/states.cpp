// cpu/states of gated_delta_verify: the state after each draft token is kept, and commit rounds one of
// them to the pool. The simplest form, and the one that served models first: a commit computes
// nothing, but verifying T tokens writes T states, which bounds it in memory held and moved.
#include <algorithm>

#include "cpu/gated_delta_verify/drafts.h"
#include "interface/operations/gated_delta_verify.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::cpu {
namespace {

std::int64_t state_floats(const Problem& problem) {
  return problem.key_head_dim * problem.value_head_dim;
}

void verify_keeping_states(const GatedDeltaOperands& operands, const HeadTask& task,
                           const KeptTokens& kept, float* workspace) {
  const std::int64_t floats = state_floats(operands.problem());
  run_draft(
      operands, task, workspace, [](std::int64_t, const float*) {},
      [](std::int64_t, std::int64_t, const float*, const float*) {},
      [&](std::int64_t t, const float* S) { std::copy_n(S, floats, kept.at(t)); });
}

void store_kept_state(const GatedDeltaOperands& operands, const HeadTask& task,
                      std::int64_t accepted, const KeptTokens& kept, float* /*workspace*/) {
  operands.store_state(task, kept.at(accepted - 1));
}

}  // namespace

const Implementation& gated_delta_verify_states() {
  static const DraftImplementation implementation(
      {.description =
           {.name = "cpu/states",
            .operation = gated_delta_verify_operation(),
            .honours = recurrence_options() + recurrence_variants(),
            .gates_in_any_form = true,
            .backend = "cpu",
            .form = "states",
            .summary = "keeps the state after each draft token; bound by writing them",
            .resources = "any CPU",
            .rank = 10,
            .examples = {"gated_delta_verify:heads=1/2,dim=64,seq=4+3,h0=normal,dtype=f32",
                         "gated_delta_verify:heads=1/2,dim=24x40,seq=5+1+3+2,h0=normal,"
                         "dtype=bf16,slots=padding"}},
       .keeps = "states",
       .kept_floats = state_floats,
       .verify = verify_keeping_states,
       .commit = store_kept_state});
  return implementation;
}

}  // namespace gdn::cpu
