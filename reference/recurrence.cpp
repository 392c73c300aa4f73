#include "reference/recurrence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/gated_delta.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

// Element (i, j) of a head's state within its slab of a pool row ([Dk, Dv] or [Dv, Dk]).
Eigen::Index slab_index(const Problem& p, Eigen::Index i, Eigen::Index j) {
  return p.state_layout == StateLayout::kv ? i * p.value_head_dim + j : j * p.key_head_dim + i;
}

template <typename Scalar>
class Recurrence {
 public:
  Recurrence(const Case& inputs, bool normalize_qk, const EvaluationOptions& options)
      : inputs_(inputs),
        problem_(inputs.problem),
        normalize_qk_(normalize_qk),
        initial_states_(inputs["initial_state"].data()),
        gates_(decode_gates<Scalar>(inputs)),
        pairs_(pairs_of(problem_, options)) {}

  template <typename Element>
  void run(const QkvSource<Element>& source, int threads, Arrays<Scalar>& result) {
    output_.assign(problem_.total_tokens() * problem_.num_value_heads * problem_.value_head_dim,
                   std::numeric_limits<Scalar>::quiet_NaN());
    const std::vector<float>& states = inputs_["initial_state"];
    states_.assign(states.begin(), states.end());
    forget_written_states();
    checkpoints_.assign(static_cast<std::size_t>(problem_.num_sequences() * problem_.checkpoints *
                                                 problem_.num_value_heads * state_elements()),
                        std::numeric_limits<Scalar>::quiet_NaN());
    parallel_for(static_cast<std::int64_t>(pairs_.size()), threads,
                 [&](std::int64_t i) { run_pair(source, pairs_[static_cast<std::size_t>(i)]); });
    result["output"] = std::move(output_);
    result["final_state"] = std::move(states_);
    if (problem_.checkpoints > 0) result["checkpoint_states"] = std::move(checkpoints_);
  }

 private:
  std::int64_t state_elements() const { return problem_.key_head_dim * problem_.value_head_dim; }

  // The state slabs this call writes start as NaN, so that those of pairs not evaluated stay NaN.
  void forget_written_states() {
    if (!problem_.final_state) return;
    const std::int64_t used = problem_.state_row_stride() - problem_.pool_row_padding;
    for (std::int64_t n = 0; n < problem_.num_sequences(); ++n) {
      if (inputs_.output_slot(n) < 0 || inputs_.carried_tokens(n) == 0) continue;
      const auto row = states_.begin() + inputs_.output_slot(n) * problem_.state_row_stride();
      std::fill(row, row + used, std::numeric_limits<Scalar>::quiet_NaN());
    }
  }

  template <typename Element>
  void run_pair(const QkvSource<Element>& source, const SequenceHead& pair) {
    const Problem& p = problem_;
    const std::int64_t n = pair.sequence;
    const std::int64_t h = pair.value_head;
    const std::int64_t first = inputs_.sequence_offsets[n];
    const std::int64_t output_stride = p.num_value_heads * p.value_head_dim;
    for (std::int64_t j = 0; j < p.checkpoints; ++j) {
      std::fill_n(checkpoints_.begin() + checkpoint_begin(n, j, h), state_elements(), Scalar(0));
    }
    Scalar* output = output_.data() + first * output_stride + h * p.value_head_dim;
    if (inputs_.slot(n) < 0) {
      for (std::int64_t t = 0; t < inputs_.length(n); ++t) {
        std::fill_n(output + t * output_stride, p.value_head_dim, Scalar(0));
      }
      return;
    }
    if (inputs_.length(n) == 0) return;

    const auto slab_of = [&](std::int64_t slot) {
      return slot * p.state_row_stride() + h * state_elements();
    };
    const std::int64_t slab_begin = slab_of(inputs_.slot(n));
    HeadState<Scalar> state = HeadState<Scalar>::Zero(p.key_head_dim, p.value_head_dim);
    if (p.initial_state != InitialState::absent) {
      for (Eigen::Index i = 0; i < state.rows(); ++i) {
        for (Eigen::Index j = 0; j < state.cols(); ++j) {
          state(i, j) = Scalar(initial_states_[slab_begin + slab_index(p, i, j)]);
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
    const HeadOptions<Scalar> options{p.update, p.decay, normalize_qk_, effective_scale()};
    const std::int64_t carried = inputs_.carried_tokens(n);
    std::int64_t done = 0;
    const auto run_to = [&](std::int64_t end) {
      head.num_tokens = end - done;
      gated_delta_head(head, options, state, output + done * output_stride, output_stride);
      head.skip(end - done);
      done = end;
    };
    for (std::int64_t j = 0; j < p.checkpoints; ++j) {
      const std::int64_t count =
          inputs_
              .other_indices["checkpoint_tokens"][static_cast<std::size_t>(n * p.checkpoints + j)];
      if (count == 0) continue;
      run_to(count);
      store(state, checkpoints_, checkpoint_begin(n, j, h));
    }
    run_to(carried);
    const bool is_kept = p.final_state && carried > 0 && inputs_.output_slot(n) >= 0;
    if (is_kept) store(state, states_, slab_of(inputs_.output_slot(n)));
    run_to(inputs_.length(n));
  }

  std::int64_t checkpoint_begin(std::int64_t sequence, std::int64_t checkpoint,
                                std::int64_t head) const {
    const std::int64_t row = sequence * problem_.checkpoints + checkpoint;
    return (row * problem_.num_value_heads + head) * state_elements();
  }

  void store(const HeadState<Scalar>& state, std::vector<Scalar>& states, std::int64_t begin) {
    for (Eigen::Index i = 0; i < state.rows(); ++i) {
      for (Eigen::Index j = 0; j < state.cols(); ++j) {
        states[static_cast<std::size_t>(begin + slab_index(problem_, i, j))] = state(i, j);
      }
    }
  }

  Scalar effective_scale() const {
    return problem_.scale ? Scalar(*problem_.scale)
                          : Scalar(1) / std::sqrt(Scalar(problem_.key_head_dim));
  }

  const Case& inputs_;
  const Problem& problem_;
  bool normalize_qk_;
  const float* initial_states_;
  Gates<Scalar> gates_;
  std::vector<SequenceHead> pairs_;
  std::vector<Scalar> output_;
  std::vector<Scalar> states_;
  std::vector<Scalar> checkpoints_;
};

}  // namespace

QkvSource<float> source_of_qkv(const Case& inputs) {
  const Problem& p = inputs.problem;
  return {inputs["q"].data(),
          inputs["k"].data(),
          inputs["v"].data(),
          p.num_key_heads * p.key_head_dim,
          p.keys_per_token(),
          p.values_per_token(),
          1};
}

double recurrence_flops(const Problem& problem) {
  // Multiply-adds per state element and token.
  const double per_step = problem.update == UpdateRule::delta ? 2 : 1;
  const double per_element = per_step * static_cast<double>(problem.steps) + 1;
  return 2.0 * per_element * static_cast<double>(problem.total_tokens()) *
         static_cast<double>(problem.num_value_heads) *
         static_cast<double>(problem.key_head_dim * problem.value_head_dim);
}

template <typename Element, typename Scalar>
void run_recurrence(const Case& inputs, const QkvSource<Element>& source, bool normalize_qk,
                    const EvaluationOptions& options, Arrays<Scalar>& result) {
  Recurrence<Scalar>(inputs, normalize_qk, options).run(source, options.threads, result);
}

template void run_recurrence(const Case&, const QkvSource<float>&, bool, const EvaluationOptions&,
                             Arrays<float>&);
template void run_recurrence(const Case&, const QkvSource<float>&, bool, const EvaluationOptions&,
                             Arrays<double>&);
template void run_recurrence(const Case&, const QkvSource<float>&, bool, const EvaluationOptions&,
                             Arrays<long double>&);
template void run_recurrence(const Case&, const QkvSource<double>&, bool, const EvaluationOptions&,
                             Arrays<double>&);
template void run_recurrence(const Case&, const QkvSource<long double>&, bool,
                             const EvaluationOptions&, Arrays<long double>&);

}  // namespace gdn::reference
