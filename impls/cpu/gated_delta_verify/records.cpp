// cpu/records of gated_delta_verify: the pool's state stays as it is while drafts are verified, and of
// each token is kept what it did to it: its decay, and of each step the two vectors of its product,
//
//     S <- diag(alpha_t) S + w_t r_t^T,     w_t = beta_t k_t,     r_t = v_t - S^T k_t.
//
// commit replays these on the pool's row. That is Dk + Dv + 1 floats a token and head where a state is
// Dk Dv of them: 129 times less at Dk = Dv = 128, for one more pass over the state per accepted token.
// Bound, as cpu/naive, by passes over the state.
#include <algorithm>

#include "cpu/gated_delta_verify/drafts.h"
#include "interface/operations/gated_delta_verify.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::cpu {
namespace {

// A token's record: alpha [1] or [Dk], then of each step w [Dk] and r [Dv].
struct Record {
  const Problem& problem;
  float* first;

  float* alpha() const { return first; }
  float* w(std::int64_t step) const {
    return first + problem.gates_per_head() +
           step * (problem.key_head_dim + problem.value_head_dim);
  }
  float* r(std::int64_t step) const { return w(step) + problem.key_head_dim; }
};

std::int64_t record_floats(const Problem& problem) {
  return problem.gates_per_head() + problem.steps * (problem.key_head_dim + problem.value_head_dim);
}

void verify_keeping_records(const GatedDeltaOperands& operands, const HeadTask& task,
                            const KeptTokens& kept, float* workspace) {
  const Problem& problem = operands.problem();
  run_draft(
      operands, task, workspace,
      [&](std::int64_t t, const float* alpha) {
        std::copy_n(alpha, problem.gates_per_head(), Record{problem, kept.at(t)}.alpha());
      },
      [&](std::int64_t t, std::int64_t step, const float* w, const float* r) {
        const Record record{problem, kept.at(t)};
        std::copy_n(w, problem.key_head_dim, record.w(step));
        std::copy_n(r, problem.value_head_dim, record.r(step));
      },
      [](std::int64_t, const float*) {});
}

void replay_records(const GatedDeltaOperands& operands, const HeadTask& task, std::int64_t accepted,
                    const KeptTokens& kept, float* workspace) {
  const Problem& problem = operands.problem();
  float* const S = workspace;
  operands.load_state(task, S);
  for (std::int64_t t = 0; t < accepted; ++t) {
    const Record record{problem, kept.at(t)};
    decay_state(problem, record.alpha(), S);
    for (std::int64_t step = 0; step < problem.steps; ++step) {
      add_product(problem, record.w(step), record.r(step), S);
    }
  }
  operands.store_state(task, S);
}

}  // namespace

const Implementation& gated_delta_verify_records() {
  static const DraftImplementation implementation(
      {.description =
           {.name = "cpu/records",
            .operation = gated_delta_verify_operation(),
            .honours = recurrence_options() + recurrence_variants(),
            .gates_in_any_form = true,
            .backend = "cpu",
            .form = "records",
            .summary = "keeps what each draft token did to the state and replays it at commit; "
                       "bound by passes over the state",
            .resources = "any CPU",
            .rank = 20,
            .examples = {"gated_delta_verify:heads=1/2,dim=64,seq=4+3,h0=normal,dtype=f32",
                         "gated_delta_verify:heads=1/2,dim=16x24,seq=9+2+5+6,h0=normal,dtype=bf16,"
                         "steps=2,decay=channel"}},
       .keeps = "records",
       .kept_floats = record_floats,
       .verify = verify_keeping_records,
       .commit = replay_records});
  return implementation;
}

}  // namespace gdn::cpu
