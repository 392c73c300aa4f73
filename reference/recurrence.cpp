#include "reference/recurrence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/parallel.h"
#include "reference/pool_state.h"

namespace gdn::reference {
namespace {

template <typename Scalar>
class Recurrence {
 public:
  Recurrence(const Case& inputs, bool normalize_qk, const EvaluationOptions& options)
      : inputs_(inputs),
        problem_(inputs.problem),
        normalize_qk_(normalize_qk),
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

    HeadState<Scalar> state = initial_state_of<Scalar>(inputs_, inputs_.slot(n), h);
    HeadInputs<Element, Scalar> head = head_inputs(p, source, gates_, first, h);
    const HeadOptions<Scalar> options{p.update, p.decay, normalize_qk_, effective_scale<Scalar>(p)};
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
      store_state(p, state, checkpoint_begin(n, j, h), checkpoints_);
    }
    run_to(carried);
    const bool is_kept = p.final_state && carried > 0 && inputs_.output_slot(n) >= 0;
    if (is_kept) store_state(p, state, pool_state_begin(p, inputs_.output_slot(n), h), states_);
    run_to(inputs_.length(n));
  }

  std::int64_t checkpoint_begin(std::int64_t sequence, std::int64_t checkpoint,
                                std::int64_t head) const {
    const std::int64_t row = sequence * problem_.checkpoints + checkpoint;
    return (row * problem_.num_value_heads + head) * state_elements();
  }

  const Case& inputs_;
  const Problem& problem_;
  bool normalize_qk_;
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
