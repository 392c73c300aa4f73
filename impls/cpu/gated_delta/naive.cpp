// cpu/naive: the equations of the gated delta rule as plain loops, one token at a time.
//
//     S <- exp(g) S;   r = v - S^T k;   S <- S + beta k r^T;   o = scale * S^T q
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

namespace gdn {
namespace {

using cpu::GatedDeltaOperands;
using cpu::HeadTask;

std::int64_t workspace_floats(const Problem& problem, std::int64_t /*chunk*/) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  return Dk * Dv + 2 * Dk + 3 * Dv;
}

void run_head(const GatedDeltaOperands& operands, const HeadTask& task, std::int64_t /*chunk*/,
              float* workspace) {
  const std::int64_t Dk = operands.problem().key_head_dim;
  const std::int64_t Dv = operands.problem().value_head_dim;
  const float scale = operands.scale();

  float* S = workspace;    // [Dk, Dv]
  float* q = S + Dk * Dv;  // [Dk]
  float* k = q + Dk;       // [Dk]
  float* v = k + Dk;       // [Dv]
  float* r = v + Dv;       // [Dv]
  float* o = r + Dv;       // [Dv]

  operands.load_state(task, S);
  for (std::int64_t t = 0; t < task.num_tokens; ++t) {
    float g, beta;
    operands.load_queries(task, t, 1, q);
    operands.load_keys(task, t, 1, k);
    operands.load_values(task, t, 1, v);
    operands.load_gates(task, t, 1, &g, &beta);

    const float alpha = std::exp(g);  // 0 for g = -inf: the state is forgotten whole
    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) S[i * Dv + j] *= alpha;
    }

    for (std::int64_t j = 0; j < Dv; ++j) r[j] = v[j];
    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) r[j] -= S[i * Dv + j] * k[i];
    }

    for (std::int64_t i = 0; i < Dk; ++i) {
      for (std::int64_t j = 0; j < Dv; ++j) S[i * Dv + j] += beta * k[i] * r[j];
    }

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

const Implementation& cpu_gated_delta_naive() {
  static const cpu::HeadwiseImplementation implementation({
      .description = {.name = "cpu/naive",
                      .operation = Operation::gated_delta,
                      .backend = "cpu",
                      .form = "naive",
                      .summary = "the equations as plain float32 loops; bound by four passes over "
                                 "the state per token",
                      .resources = "any CPU"},
      .supports = [](const Problem&) { return Support::yes(); },
      .chunk = [](const Problem&) -> std::int64_t { return 0; },
      .workspace_floats = workspace_floats,
      .head_function = [](cpu::InstructionSet) -> cpu::HeadFunction { return run_head; },
  });
  return implementation;
}

}  // namespace gdn
