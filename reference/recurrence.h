// The recurrence over all heads of a batch: what gated_delta and the layer have in common.
#pragma once

#include <cstdint>

#include "reference/reference.h"

namespace gdn::reference {

/// Where q, k and v of the heads lie in the arrays they come from.
template <typename Element>
struct QkvSource {
  const Element* query;
  const Element* key;
  const Element* value;
  std::int64_t query_token_stride;
  std::int64_t key_token_stride;
  std::int64_t value_token_stride;
  std::int64_t element_stride;
};

/// The operands q, k and v, as every operation has them that is handed these.
QkvSource<float> source_of_qkv(const Case& inputs);

/// Writes "output" and "final_state" of the pairs that `options` names, the state being that after the
/// tokens which are carried (Case::carried_tokens). Element: float as stored, or the wide scalar that the
/// convolution of a layer left.
template <typename Element, typename Scalar>
void run_recurrence(const Case& inputs, const QkvSource<Element>& source, bool normalize_qk,
                    const EvaluationOptions& options, Arrays<Scalar>& result);

/// S^T k and beta k r^T of each step, and S^T q: two operations for every multiply-add.
double recurrence_flops(const Problem& problem);

}  // namespace gdn::reference
