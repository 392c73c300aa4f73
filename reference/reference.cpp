#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "interface/error.h"
#include "reference/causal_conv1d.h"
#include "reference/gated_delta.h"
#include "reference/gates.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

// Where the heads' vectors lie in the arrays they come from.
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

// Element (i, j) of a head's state within its slab of a pool row ([Dk, Dv] or [Dv, Dk]).
Eigen::Index slab_index(const Problem& p, Eigen::Index i, Eigen::Index j) {
  return p.state_layout == StateLayout::kv ? i * p.value_head_dim + j : j * p.key_head_dim + i;
}

template <typename Scalar>
class GatedDelta {
 public:
  GatedDelta(const Case& inputs, const EvaluationOptions& options)
      : inputs_(inputs),
        problem_(inputs.problem),
        gates_(decode_gates<Scalar>(inputs)),
        pairs_(pairs_of(problem_, options)) {}

  template <typename Element>
  void run(const QkvSource<Element>& source, int threads, WideOutputs<Scalar>& result) const {
    result.output.assign(
        problem_.total_tokens() * problem_.num_value_heads * problem_.value_head_dim,
        std::numeric_limits<Scalar>::quiet_NaN());
    result.state_pool.assign(inputs_.state_pool.begin(), inputs_.state_pool.end());
    forget_written_states(result);
    parallel_for(static_cast<std::int64_t>(pairs_.size()), threads, [&](std::int64_t i) {
      run_pair(source, pairs_[static_cast<std::size_t>(i)], result);
    });
  }

 private:
  // The state slabs this call writes start as NaN, so that those of pairs not evaluated stay NaN.
  void forget_written_states(WideOutputs<Scalar>& result) const {
    if (!problem_.final_state) return;
    const std::int64_t used = problem_.state_row_stride() - problem_.pool_row_padding;
    for (std::int64_t n = 0; n < problem_.num_sequences(); ++n) {
      if (slot(n) < 0 || length(n) == 0) continue;
      const auto row = result.state_pool.begin() + slot(n) * problem_.state_row_stride();
      std::fill(row, row + used, std::numeric_limits<Scalar>::quiet_NaN());
    }
  }

  template <typename Element>
  void run_pair(const QkvSource<Element>& source, const SequenceHead& pair,
                WideOutputs<Scalar>& result) const {
    const Problem& p = problem_;
    const std::int64_t n = pair.sequence;
    const std::int64_t h = pair.value_head;
    const std::int64_t first = inputs_.sequence_offsets[n];
    const std::int64_t output_stride = p.num_value_heads * p.value_head_dim;
    Scalar* output = result.output.data() + first * output_stride + h * p.value_head_dim;
    if (slot(n) < 0) {
      for (std::int64_t t = 0; t < length(n); ++t) {
        std::fill_n(output + t * output_stride, p.value_head_dim, Scalar(0));
      }
      return;
    }
    if (length(n) == 0) return;

    const std::int64_t slab_begin =
        slot(n) * p.state_row_stride() + h * p.key_head_dim * p.value_head_dim;
    HeadState<Scalar> state = HeadState<Scalar>::Zero(p.key_head_dim, p.value_head_dim);
    if (p.initial_state != InitialState::absent) {
      for (Eigen::Index i = 0; i < state.rows(); ++i) {
        for (Eigen::Index j = 0; j < state.cols(); ++j) {
          state(i, j) = Scalar(inputs_.state_pool[slab_begin + slab_index(p, i, j)]);
        }
      }
    }
    const std::int64_t key_head = h / p.value_heads_per_key_head();  // the grouped map
    const auto view = [&](const Element* data, std::int64_t heads, std::int64_t head,
                          std::int64_t dim, std::int64_t token_stride) {
      return VectorsView<Element>{data + first * token_stride + head * dim * source.element_stride,
                                  token_stride, heads * dim * source.element_stride,
                                  source.element_stride};
    };
    HeadInputs<Element, Scalar> head;
    head.num_tokens = length(n);
    head.steps = p.steps;
    head.query =
        view(source.query, p.num_key_heads, key_head, p.key_head_dim, source.query_token_stride);
    head.key = view(source.key, p.num_key_heads, key_head, p.key_head_dim, source.key_token_stride);
    head.value =
        view(source.value, p.num_value_heads, h, p.value_head_dim, source.value_token_stride);
    head.log_decay = {
        gates_.log_decay.data() + first * p.gates_per_token() + h * p.gates_per_head(),
        p.gates_per_token(), 0, 1};
    head.beta = {gates_.beta.data() + first * p.betas_per_token() + h, p.betas_per_token(),
                 p.num_value_heads, 1};
    const HeadOptions<Scalar> options{p.update, p.decay,
                                      p.normalize_qk || p.operation == Operation::gated_delta_layer,
                                      effective_scale()};
    gated_delta_head(head, options, state, output, output_stride);
    if (!p.final_state) return;
    for (Eigen::Index i = 0; i < state.rows(); ++i) {
      for (Eigen::Index j = 0; j < state.cols(); ++j) {
        result.state_pool[slab_begin + slab_index(p, i, j)] = state(i, j);
      }
    }
  }

  std::int64_t slot(std::int64_t n) const {
    return inputs_.slot_index.empty() ? n : inputs_.slot_index[n];
  }
  std::int64_t length(std::int64_t n) const {
    return inputs_.sequence_offsets[n + 1] - inputs_.sequence_offsets[n];
  }
  Scalar effective_scale() const {
    return problem_.scale ? Scalar(*problem_.scale)
                          : Scalar(1) / std::sqrt(Scalar(problem_.key_head_dim));
  }

  const Case& inputs_;
  const Problem& problem_;
  Gates<Scalar> gates_;
  std::vector<SequenceHead> pairs_;
};

}  // namespace

template <typename Scalar>
Gates<Scalar> decode_gates(const Case& inputs) {
  const Problem& p = inputs.problem;
  const GateValues& gate = inputs.gate;
  Gates<Scalar> gates;
  gates.log_decay.resize(gate.values.size());
  gates.beta.resize(inputs.beta.values.size());
  for (std::size_t i = 0; i < gate.values.size(); ++i) {
    const Scalar x = Scalar(gate.values[i]);
    // Which of a token's gates: dt_bias has one value for each, A_log one per head.
    const std::size_t of_token = i % static_cast<std::size_t>(p.gates_per_token());
    switch (gate.encoding) {
      case GateEncoding::log_decay:
        gates.log_decay[i] = x;
        break;
      case GateEncoding::decay:
        gates.log_decay[i] = std::log(x);
        break;
      case GateEncoding::neg_log_decay:
        gates.log_decay[i] = -x;
        break;
      case GateEncoding::logits:
        gates.log_decay[i] = log_decay_from_logit(Scalar(gate.A_log[of_token / p.gates_per_head()]),
                                                  x + Scalar(gate.dt_bias[of_token]));
        break;
    }
  }
  for (std::size_t i = 0; i < inputs.beta.values.size(); ++i) {
    const Scalar x = Scalar(inputs.beta.values[i]);
    gates.beta[i] = inputs.beta.encoding == BetaEncoding::beta ? x : sigmoid(x);
  }
  return gates;
}

template <typename Scalar>
WideOutputs<Scalar> evaluate(const Case& inputs, const EvaluationOptions& options) {
  validate(inputs);
  const Problem& p = inputs.problem;
  const std::int64_t key_dims = p.num_key_heads * p.key_head_dim;
  WideOutputs<Scalar> result;
  if (p.operation == Operation::gated_delta) {
    const QkvSource<float> source{inputs.query.data(),
                                  inputs.key.data(),
                                  inputs.value.data(),
                                  key_dims,
                                  p.keys_per_token(),
                                  p.values_per_token(),
                                  1};
    GatedDelta<Scalar>(inputs, options).run(source, options.threads, result);
    return result;
  }
  ConvResult<Scalar> conv = causal_conv1d<Scalar>(inputs, options.threads);
  result.conv_output = std::move(conv.output);
  result.conv_state = std::move(conv.state);
  if (p.operation == Operation::gated_delta_layer) {
    // Channels [q: Hk*Dk | k: Hk*Dk | v: Hv*Dv] of the convolution's output, not rounded in
    // between.
    const bool channels_fastest = p.conv_layout == ConvLayout::channels;
    const std::int64_t token_stride = channels_fastest ? p.conv_channels() : 1;
    const std::int64_t channel_stride = channels_fastest ? 1 : p.total_tokens();
    const Scalar* channels = result.conv_output.data();
    const QkvSource<Scalar> source{channels,
                                   channels + key_dims * channel_stride,
                                   channels + 2 * key_dims * channel_stride,
                                   token_stride,
                                   token_stride,
                                   token_stride,
                                   channel_stride};
    GatedDelta<Scalar>(inputs, options).run(source, options.threads, result);
  }
  return result;
}

template WideOutputs<float> evaluate(const Case&, const EvaluationOptions&);
template WideOutputs<double> evaluate(const Case&, const EvaluationOptions&);
template WideOutputs<long double> evaluate(const Case&, const EvaluationOptions&);
template Gates<float> decode_gates(const Case&);
template Gates<double> decode_gates(const Case&);
template Gates<long double> decode_gates(const Case&);

}  // namespace gdn::reference
