// cpu/recurrent: the token recurrence with the state in cache and its columns in vector registers.
//
// Two passes over the state per token instead of naive's four, in blocks of columns that fit the
// first-level cache; the algorithm is in recurrent_kernel.cpp. Bound by loads and stores of the
// state: three state-sized streams for four multiply-adds per element and token.
//
// Reached: 2.6 us of processor time per token and value head where naive takes 10.1 (Dk = Dv = 128,
// float32, T = 4096, 16/32 heads, on a 2-core Intel Xeon with AVX-512; 4.2 us without).
#include "cpu/gated_delta/headwise.h"
#include "cpu/gated_delta/kernels.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::cpu {
namespace {

std::int64_t workspace_floats(const Problem& problem, std::int64_t /*chunk*/) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  const std::int64_t per_token = Dk + problem.gates_per_head() + problem.steps * (Dk + Dv + 1);
  return Dk * Dv + Dk + kRecurrentTileTokens * per_token;
}

}  // namespace

const Implementation& gated_delta_recurrent() {
  static const HeadwiseImplementation implementation({
      .description = {.name = "cpu/recurrent",
                      .operation = gated_delta_operation(),
                      .honours = recurrence_options() + recurrence_variants() +
                                 HonouredFields{"output_slots", "checkpoints", "checkpoint_dtype",
                                                "state_rounding"},
                      .gates_in_any_form = true,
                      .backend = "cpu",
                      .form = "recurrent",
                      .summary = "token recurrence over column blocks of the state in vector "
                                 "registers; bound by streaming the state through cache",
                      .resources = "any CPU",
                      .rank = 20,
                      .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                                   "gated_delta:heads=1/2,dim=24x40,seq=5x1,h0=normal,dtype=bf16"}},
      .supports = [](const Problem&) { return Support::yes(); },
      .chunk = [](const Problem&) -> std::int64_t { return 0; },
      .workspace_floats = workspace_floats,
      .head_function = [](InstructionSet set, const Problem&) -> HeadFunction {
        return version_for(set, GDN_CPU_VERSIONS(recurrent_head));
      },
  });
  return implementation;
}

}  // namespace gdn::cpu
