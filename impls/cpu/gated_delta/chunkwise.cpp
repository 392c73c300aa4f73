// cpu/chunkwise: the chunkwise-WY form, which turns the recurrence over tokens into one over chunks
// and the work within a chunk into matrix products; the algorithm is in chunkwise_kernel.cpp.
//
// Bound by the float32 rate of the matrix products. Larger chunks give larger products but more
// work: a further token of chunk size costs each token 2 Dk + 1.5 Dv multiply-adds.
//
// With one decay per key channel the decays enter the products of the chunk themselves:
// chunkwise_channel_kernel.cpp.
//
// Reached: 1.8 us of processor time per token and value head where naive takes 10.1 and recurrent
// 2.6 (Dk = Dv = 128, float32, T = 4096, 16/32 heads, C = 32, on a 2-core Intel Xeon with AVX-512;
// with AVX2 2.1 us, with neither 5.0, slower than recurrent).
#include "cpu/gated_delta/chunk_size.h"
#include "cpu/gated_delta/headwise.h"
#include "cpu/gated_delta/kernels.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::cpu {
namespace {

std::int64_t workspace_floats(const Problem& problem, std::int64_t C) {
  return problem.decay == DecayPer::channel ? chunkwise_channel_workspace_floats(problem, C)
                                            : chunkwise_workspace_floats(problem, C);
}

}  // namespace

std::int64_t chunkwise_workspace_floats(const Problem& problem, std::int64_t C) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  // As laid out in chunkwise_head; a double and an int64 are two floats each.
  return 4 * C + Dk * Dv + 2 * C * Dk + C * Dv + 2 * C * Dv + 2 * C * C + 3 * C;
}

std::int64_t chunkwise_channel_workspace_floats(const Problem& problem, std::int64_t C) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  // As laid out in chunkwise_channel_head.
  return Dk * Dv + 6 * C * Dk + C * Dv + 2 * C * Dv + 2 * C * C + C + 2 * Dk;
}

const Implementation& gated_delta_chunkwise() {
  static const HeadwiseImplementation implementation({
      .description =
          {.name = "cpu/chunkwise",
           .operation = gated_delta_operation(),
           .honours =
               recurrence_options() + recurrence_variants() +
               HonouredFields{"output_slots", "checkpoints", "checkpoint_dtype", "state_rounding"},
           .gates_in_any_form = true,
           .backend = "cpu",
           .form = "chunkwise",
           .summary = "chunkwise-WY (V' form), Eigen products per chunk of any size in "
                      "16..256; bound by the float32 matrix rate",
           .resources = "any CPU",
           .rank = 30,
           .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
                        "gated_delta:heads=1/2,dim=64,seq=70,h0=normal,dtype=bf16,chunk=32"}},
      .supports = supports_chunk,
      .chunk = chunk_of,
      .workspace_floats = workspace_floats,
      .head_function = [](InstructionSet set, const Problem& problem) -> HeadFunction {
        return problem.decay == DecayPer::channel
                   ? version_for(set, GDN_CPU_VERSIONS(chunkwise_channel_head))
                   : version_for(set, GDN_CPU_VERSIONS(chunkwise_head));
      },
  });
  return implementation;
}

}  // namespace gdn::cpu
