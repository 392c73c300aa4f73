// The recurrence over all heads of a batch: what gated_delta and the layer have in common.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "reference/conditioning.h"
#include "reference/gated_delta.h"
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

/// The operands of a value head from token `first` of the batch on; how many tokens is the caller's.
template <typename Element, typename Scalar>
HeadInputs<Element, Scalar> head_inputs(const Problem& p, const QkvSource<Element>& source,
                                        const Gates<Scalar>& gates, std::int64_t first,
                                        std::int64_t value_head) {
  const std::int64_t key_head = value_head / p.value_heads_per_key_head();  // the grouped map
  const auto view = [&](const Element* data, std::int64_t heads, std::int64_t head,
                        std::int64_t dim, std::int64_t token_stride) {
    return VectorsView<Element>{data + first * token_stride + head * dim * source.element_stride,
                                token_stride, heads * dim * source.element_stride,
                                source.element_stride};
  };
  HeadInputs<Element, Scalar> head;
  head.steps = p.steps;
  head.query =
      view(source.query, p.num_key_heads, key_head, p.key_head_dim, source.query_token_stride);
  head.key = view(source.key, p.num_key_heads, key_head, p.key_head_dim, source.key_token_stride);
  head.value = view(source.value, p.num_value_heads, value_head, p.value_head_dim,
                    source.value_token_stride);
  head.log_decay = {
      gates.log_decay.data() + first * p.gates_per_token() + value_head * p.gates_per_head(),
      p.gates_per_token(), 0, 1};
  head.beta = {gates.beta.data() + first * p.betas_per_token() + value_head, p.betas_per_token(),
               p.num_value_heads, 1};
  return head;
}

template <typename Scalar>
Scalar effective_scale(const Problem& p) {
  return p.scale ? Scalar(*p.scale) : Scalar(1) / std::sqrt(Scalar(p.key_head_dim));
}

/// Writes "output" and "final_state" of the pairs that `options` names, the state being that after the
/// tokens which are carried (Case::carried_tokens). Element: float as stored, or the wide scalar that the
/// convolution of a layer left.
template <typename Element, typename Scalar>
void run_recurrence(const Case& inputs, const QkvSource<Element>& source, bool normalize_qk,
                    const EvaluationOptions& options, Arrays<Scalar>& result);

/// The state that a pair begins with, where that is not what the pool holds of it.
using InitialStateOf = std::function<HeadState<double>(const SequenceHead&)>;

/// Of the recurrence on these queries, keys (divided by sqrt(sum x^2 + 1e-6) if `normalise`) and
/// values. Chunks of Problem::chunk rows (64 if 0), rounded down to whole tokens. The gates of every
/// pair are read; of the triangular systems at most 256, evenly spread over the pairs and their
/// chunks; the readout of every pair of a short sequence, which is about the work of evaluating it.
/// `initial_state`: null, or what the readouts begin with.
template <typename Element>
Conditioning measure_recurrence_conditioning(const Case& inputs, const QkvSource<Element>& source,
                                             bool normalise, const EvaluationOptions& options,
                                             const InitialStateOf& initial_state = nullptr);

/// S^T k and beta k r^T of each step, and S^T q: two operations for every multiply-add.
double recurrence_flops(const Problem& problem);

}  // namespace gdn::reference
