// What the CPU forms of gated_delta_verify share. A form is two functions of one value head of one
// sequence: `verify` runs the draft tokens and keeps something of each, `commit` makes the state after
// some of them of what was kept. What is kept lies in the plan's workspace, a place of its own for each
// token that was planned for, so that any offsets of as many tokens fit.
//
// The arithmetic of a token is that of cpu/naive of gated_delta, in its order, and both phases change
// the state by the same two functions (decay_state, add_product): committing k tokens gives the bits of
// cpu/naive on the first k, whatever a form keeps.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cpu/gated_delta/operands.h"
#include "interface/implementation.h"

namespace gdn::cpu {

/// What was kept of one value head of one sequence: that of its token t is at at(t).
struct KeptTokens {
  float* first = nullptr;
  std::int64_t stride = 0;  ///< floats from a token to the next
  float* at(std::int64_t token) const { return first + token * stride; }
};

struct DraftForm {
  Description description;
  std::string keeps;  ///< "records": shown in PlanInfo::choice
  /// Floats kept of a token and value head.
  std::int64_t (*kept_floats)(const Problem& problem);
  /// Writes every output row and what is kept. `workspace` holds draft_workspace_floats(problem).
  void (*verify)(const GatedDeltaOperands& operands, const HeadTask& task, const KeptTokens& kept,
                 float* workspace);
  /// Writes the state after the first `accepted` tokens, at least one.
  void (*commit)(const GatedDeltaOperands& operands, const HeadTask& task, std::int64_t accepted,
                 const KeptTokens& kept, float* workspace);
};

class DraftImplementation final : public Implementation {
 public:
  explicit DraftImplementation(DraftForm form) : form_(std::move(form)) {}
  const Description& description() const override { return form_.description; }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  DraftForm form_;
};

/// S [Dk, Dv] <- diag(alpha) S: one alpha, or one for each of the Dk rows.
inline void decay_state(const Problem& problem, const float* alpha, float* S) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  const bool per_channel = problem.decay == DecayPer::channel;
  for (std::int64_t i = 0; i < Dk; ++i) {
    const float row = alpha[per_channel ? i : 0];
    for (std::int64_t j = 0; j < Dv; ++j) S[i * Dv + j] *= row;
  }
}

/// S <- S + w r^T, w being beta k.
inline void add_product(const Problem& problem, const float* w, const float* r, float* S) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  for (std::int64_t i = 0; i < Dk; ++i) {
    for (std::int64_t j = 0; j < Dv; ++j) S[i * Dv + j] += w[i] * r[j];
  }
}

/// Floats of workspace that run_draft() takes; the state [Dk, Dv] lies first.
std::int64_t draft_workspace_floats(const Problem& problem);

/// Runs the draft tokens of a head and writes their outputs. Hands over, as it goes, a token's decays
/// (decayed(t, alpha)), the two vectors of each of its steps (updated(t, step, w, r)), and the state
/// after it (done(t, S)).
template <typename Decayed, typename Updated, typename Done>
void run_draft(const GatedDeltaOperands& operands, const HeadTask& task, float* workspace,
               const Decayed& decayed, const Updated& updated, const Done& done) {
  const Problem& problem = operands.problem();
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  const std::int64_t gates = problem.gates_per_head();
  const float scale = operands.scale();
  float* S = workspace;    // [Dk, Dv]
  float* q = S + Dk * Dv;  // [Dk]
  float* w = q + Dk;       // [Dk]: k, then beta k
  float* r = w + Dk;       // [Dv]
  float* o = r + Dv;       // [Dv]
  float* alpha = o + Dv;   // [1] or [Dk]

  operands.load_state(task, S);
  for (std::int64_t t = 0; t < task.num_tokens; ++t) {
    operands.load_log_decays(task, t, 1, alpha);
    for (std::int64_t i = 0; i < gates; ++i) alpha[i] = std::exp(alpha[i]);
    decay_state(problem, alpha, S);
    decayed(t, alpha);

    for (std::int64_t step = 0; step < problem.steps; ++step) {
      const std::int64_t at = t * problem.steps + step;
      float beta = 0;
      operands.load_keys(task, at, 1, w);
      operands.load_values(task, at, 1, r);
      operands.load_betas(task, at, 1, &beta);
      for (std::int64_t i = 0; i < Dk && problem.update == UpdateRule::delta; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) r[j] -= S[i * Dv + j] * w[i];
      }
      for (std::int64_t i = 0; i < Dk; ++i) w[i] = beta * w[i];
      add_product(problem, w, r, S);
      updated(t, step, w, r);
    }

    operands.load_queries(task, t, 1, q);
    for (std::int64_t j = 0; j < Dv; ++j) o[j] = 0;
    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) o[j] += S[i * Dv + j] * q[i];
    }
    for (std::int64_t j = 0; j < Dv; ++j) o[j] *= scale;
    operands.store_outputs(task, t, 1, o);
    done(t, S);
  }
}

}  // namespace gdn::cpu
