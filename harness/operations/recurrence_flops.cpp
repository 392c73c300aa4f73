#include "harness/operations/recurrence_flops.h"

#include "harness/operations/active_work.h"

namespace gdn {

FlopCount recurrence_flop_count(const Case& inputs, std::int64_t plan_chunk) {
  const Problem& problem = inputs.problem;
  const double tokens = static_cast<double>(active_work(inputs).tokens);
  const double value_heads = static_cast<double>(problem.num_value_heads);
  const double key_dim = static_cast<double>(problem.key_head_dim);
  const double value_dim = static_cast<double>(problem.value_head_dim);
  FlopCount count;
  count.chunk = plan_chunk > 0 ? plan_chunk : kNominalChunk;
  const double chunk = static_cast<double>(count.chunk);
  const double steps = static_cast<double>(problem.steps);
  // Of the steps, those whose key meets the state and the other keys: none without the delta term.
  const double corrected = problem.update == UpdateRule::delta ? steps : 0;
  count.recurrent = tokens * value_heads * (3 + 2 * steps + 2 * corrected) * key_dim * value_dim;
  count.chunkwise = tokens * value_heads * 2 *
                    ((1 + steps + corrected) * key_dim * value_dim +
                     (1 + corrected) * chunk * (key_dim + value_dim));
  return count;
}

std::string recurrence_flops_text(std::int64_t chunk) {
  const std::string count = std::string(kChunkwiseCount) + ", C = ";
  if (chunk > 0) return count + std::to_string(chunk);
  return count + "chunk (" + std::to_string(kNominalChunk) + " where not chunked); " +
         kVariantCount;
}

}  // namespace gdn
