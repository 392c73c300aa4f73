// cpu/chunkwise of gated_delta_backward: the gradients by the chunkwise-WY form, whose work within a chunk is
// matrix products; the formulas are in chunkwise_kernel.cpp.
//
// Bound by the float32 rate of the matrix products. The state before every chunk and V' of every token are kept
// for a worker's head: 4 (Dk Dv / C + Dv) bytes a token.
//
// Reached: 36 ms where cpu/naive takes 265 and the forward cpu/chunkwise 11 (Dk = Dv = 128, float32, T = 1024, 2/4
// heads, C = 32, on two processors of an AMD EPYC with AVX-512, shared with other work).
#include <algorithm>

#include "cpu/gated_delta/chunk_size.h"
#include "cpu/gated_delta_backward/groupwise.h"
#include "cpu/gated_delta_backward/kernels.h"

namespace gdn::cpu {

std::int64_t chunkwise_gradients_floats(const Problem& problem, std::int64_t C) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  const std::int64_t tokens = problem.total_tokens(), chunks = (tokens + C - 1) / C;
  // As laid out in ChunkGradients; a double and an int64 are two floats each. The first state is there without
  // tokens, too.
  return 11 * C + 3 * Dk * Dv + 6 * C * Dk + 3 * C * Dv + 6 * C * C +
         std::max<std::int64_t>(chunks, 1) * Dk * Dv + tokens * Dv;
}

const Implementation& gated_delta_backward_chunkwise() {
  static const GradientImplementation implementation({
      .description =
          {.name = "cpu/chunkwise",
           .operation = gated_delta_backward_operation(),
           .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                       "scale", "gate", "bound", "beta"},
           .gates_in_any_form = true,
           .backend = "cpu",
           .form = "chunkwise",
           .summary = "the gradients of the WY form, Eigen products per chunk of any size in "
                      "16..256; bound by the float32 matrix rate",
           .resources = "any CPU",
           .rank = 30,
           .examples = {"gated_delta_backward:heads=1/2,dim=16x24,seq=70+3,dtype=f32,h0=normal",
                        "gated_delta_backward:heads=1/2,dim=32,seq=40,dtype=bf16,gate=logits,"
                        "beta=logit,norm=1,chunk=16"}},
      .supports = supports_chunk,
      .chunk = chunk_of,
      .workspace_floats = chunkwise_gradients_floats,
      .function = [](InstructionSet set) -> GradientFunction {
        return version_for(set, GDN_CPU_VERSIONS(chunkwise_gradients));
      },
  });
  return implementation;
}

}  // namespace gdn::cpu
