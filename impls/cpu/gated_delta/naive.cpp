// cpu/naive: the equations of the gated delta rule as plain loops, one token at a time.
//
//     S <- exp(g) S;   r = v - S^T k;   S <- S + beta k r^T;   o = scale * S^T q
//
// and of its variants: r = v for the additive update; r and S once for each of a token's steps; one
// g for each row of S where decays are per channel.
//
// This is the specification to read first; every other form computes the same numbers another way.
// The state S [Dk, Dv] stays in float32 memory for the whole sequence and is rounded once, at the
// end. Each token passes over S four times, once per equation, with no attention to registers or
// caches: that traffic bounds it. Threads over (sequence, value head), as for every CPU form, so
// that comparisons show the form and not the threads.
//
// Reached: 10.1 us of processor time per token and value head (Dk = Dv = 128, float32, T = 4096,
// 16/32 heads, on a 2-core Intel Xeon with AVX-512; this file is compiled for the baseline only).
#include <cmath>

#include "cpu/gated_delta/headwise.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::cpu {
namespace {

std::int64_t workspace_floats(const Problem& problem, std::int64_t /*chunk*/) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  return Dk * Dv + 2 * Dk + 3 * Dv + problem.gates_per_head();
}

void run_head(const GatedDeltaOperands& operands, const HeadTask& task, std::int64_t /*chunk*/,
              float* workspace) {
  const std::int64_t Dk = operands.problem().key_head_dim;
  const std::int64_t Dv = operands.problem().value_head_dim;
  const std::int64_t steps = operands.problem().steps;
  const bool delta_rule = operands.problem().update == UpdateRule::delta;
  const bool per_channel = operands.problem().decay == DecayPer::channel;
  const float scale = operands.scale();

  float* S = workspace;    // [Dk, Dv]
  float* q = S + Dk * Dv;  // [Dk]
  float* k = q + Dk;       // [Dk]
  float* v = k + Dk;       // [Dv]
  float* r = v + Dv;       // [Dv]
  float* o = r + Dv;       // [Dv]
  float* g = o + Dv;       // [1] or [Dk]

  operands.load_state(task, S);
  for (std::int64_t t = 0; t < task.num_tokens; ++t) {
    operands.load_log_decays(task, t, 1, g);
    float alpha = std::exp(g[0]);  // 0 for g = -inf: the state is forgotten whole
    for (std::int64_t i = 0; i < Dk; ++i) {
      if (per_channel) alpha = std::exp(g[i]);
      for (std::int64_t j = 0; j < Dv; ++j) S[i * Dv + j] *= alpha;
    }

    for (std::int64_t step = t * steps; step < (t + 1) * steps; ++step) {
      float beta;
      operands.load_keys(task, step, 1, k);
      operands.load_values(task, step, 1, v);
      operands.load_betas(task, step, 1, &beta);

      for (std::int64_t j = 0; j < Dv; ++j) r[j] = v[j];
      for (std::int64_t i = 0; i < Dk && delta_rule; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) r[j] -= S[i * Dv + j] * k[i];
      }

      for (std::int64_t i = 0; i < Dk; ++i) {
        for (std::int64_t j = 0; j < Dv; ++j) S[i * Dv + j] += beta * k[i] * r[j];
      }
    }

    operands.load_queries(task, t, 1, q);
    for (std::int64_t j = 0; j < Dv; ++j) o[j] = 0;
    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) o[j] += S[i * Dv + j] * q[i];
    }
    for (std::int64_t j = 0; j < Dv; ++j) o[j] *= scale;
    operands.store_outputs(task, t, 1, o);
  }
  operands.store_state(task, S);
}

}  // namespace

const Implementation& gated_delta_naive() {
  static const HeadwiseImplementation implementation({
      .description =
          {.name = "cpu/naive",
           .operation = gated_delta_operation(),
           .honours =
               recurrence_options() + recurrence_variants() +
               HonouredFields{"output_slots", "checkpoints", "checkpoint_dtype", "state_rounding"},
           .gates_in_any_form = true,
           .backend = "cpu",
           .form = "naive",
           .summary = "the equations as plain float32 loops; bound by four passes over "
                      "the state per token",
           .resources = "any CPU",
           .rank = 10,
           .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                        "gated_delta:heads=1/2,dim=16x24,seq=9,dtype=bf16,steps=2,decay=channel"}},
      .supports = [](const Problem&) { return Support::yes(); },
      .chunk = [](const Problem&) -> std::int64_t { return 0; },
      .workspace_floats = workspace_floats,
      .head_function = [](InstructionSet, const Problem&) -> HeadFunction { return run_head; },
  });
  return implementation;
}

}  // namespace gdn::cpu
