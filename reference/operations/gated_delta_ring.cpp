// gated_delta_ring: the float64 reference, its work and its limits.
//
// The state that the tokens begin with is made of the pool's and the records, one after the other:
//     S <- decay_i S + key_i update_i^T
// and the tokens then run as those of gated_delta. Outputs and states have that operation's limits, the
// cancellation of a readout being measured from the state with the records in it. An update is beta (v - S^T k)
// and may cancel: its error is relative to the sizes of these terms, and an error of S^T k is that of an output.
// A decay multiplies everything that follows, so that its error is relative to 1.
#include "interface/operations/gated_delta_ring.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "interface/batch_part.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/operation.h"
#include "reference/parallel.h"
#include "reference/pool_state.h"
#include "reference/recurrence.h"

namespace gdn::reference {

const ReferenceOperation& gated_delta_ring_reference();

namespace {

/// The records of a batch, by their places in the rings.
class Rings {
 public:
  explicit Rings(const Case& inputs) : inputs_(inputs), p_(inputs.problem) {}

  std::int64_t length(std::int64_t sequence) const { return index("ring_length", sequence); }
  bool folds(std::int64_t sequence) const { return ring_folds(p_, index("ring_fold", sequence)); }
  /// Record i of a sequence: those behind its last one are the tokens'.
  std::int64_t place(std::int64_t sequence, std::int64_t i) const {
    return (index("ring_first", sequence) + i) % ring_places(p_);
  }
  /// Element of the operand where the vector of a head of the record at `place` begins.
  std::size_t at(const char* operand, std::int64_t sequence, std::int64_t place, std::int64_t heads,
                 std::int64_t head, std::int64_t dim) const {
    const std::int64_t row = row_stride(p_.operation->at(operand), p_) * inputs_.slot(sequence);
    return static_cast<std::size_t>(row + (place * heads + head) * dim);
  }
  std::size_t key_at(std::int64_t sequence, std::int64_t place, std::int64_t key_head) const {
    return at("ring_key", sequence, place, p_.num_key_heads, key_head, p_.key_head_dim);
  }
  std::size_t update_at(std::int64_t sequence, std::int64_t place, std::int64_t head) const {
    return at("ring_update", sequence, place, p_.num_value_heads, head, p_.value_head_dim);
  }
  std::size_t decay_at(std::int64_t sequence, std::int64_t place, std::int64_t head) const {
    return at("ring_decay", sequence, place, p_.num_value_heads, head, 1);
  }

  /// The state with the records in it.
  template <typename Scalar>
  HeadState<Scalar> state(const SequenceHead& pair) const {
    const std::int64_t n = pair.sequence;
    const std::int64_t h = pair.value_head;
    HeadState<Scalar> S = initial_state_of<Scalar>(inputs_, inputs_.slot(n), h);
    const std::int64_t key_head = h / p_.value_heads_per_key_head();
    const std::vector<float>& keys = inputs_["ring_key"];
    const std::vector<float>& updates = inputs_["ring_update"];
    const std::vector<float>& decays = inputs_["ring_decay"];
    for (std::int64_t i = 0; i < length(n); ++i) {
      const std::int64_t from = place(n, i);
      const std::size_t key = key_at(n, from, key_head);
      const std::size_t update = update_at(n, from, h);
      const auto decay = Scalar(decays[decay_at(n, from, h)]);
      // A full reset forgets whatever the state held, infinities included.
      if (decay == Scalar(0)) S.setZero();
      for (Eigen::Index b = 0; b < S.cols(); ++b) {
        const auto u = Scalar(updates[update + static_cast<std::size_t>(b)]);
        for (Eigen::Index a = 0; a < S.rows(); ++a) {
          S(a, b) = decay * S(a, b) + Scalar(keys[key + static_cast<std::size_t>(a)]) * u;
        }
      }
    }
    return S;
  }

 private:
  std::int64_t index(const char* operand, std::int64_t sequence) const {
    return inputs_.other_indices[operand][static_cast<std::size_t>(sequence)];
  }

  const Case& inputs_;
  const Problem& p_;
};

template <typename Scalar>
class RingRecurrence {
 public:
  explicit RingRecurrence(const Case& inputs)
      : inputs_(inputs),
        p_(inputs.problem),
        rings_(inputs),
        source_(source_of_qkv(inputs)),
        gates_(decode_gates<Scalar>(inputs)) {}

  Arrays<Scalar> run(const EvaluationOptions& options) {
    output_.assign(
        static_cast<std::size_t>(p_.total_tokens() * p_.num_value_heads * p_.value_head_dim),
        std::numeric_limits<Scalar>::quiet_NaN());
    states_ = with_rows_forgotten("initial_state");
    updates_ = with_rows_forgotten("ring_update");
    decays_ = with_rows_forgotten("ring_decay");
    // Of records that the call leaves alone no error is allowed.
    update_terms_.assign(updates_.size(), Scalar(0));
    decay_terms_.assign(decays_.size(), Scalar(0));
    const std::vector<SequenceHead> pairs = pairs_of(p_, options);
    parallel_for(static_cast<std::int64_t>(pairs.size()), options.threads,
                 [&](std::int64_t i) { run_pair(pairs[static_cast<std::size_t>(i)]); });
    Arrays<Scalar> result;
    result["output"] = std::move(output_);
    result["final_state"] = std::move(states_);
    result["ring_key"] = ring_keys();
    result["ring_update"] = std::move(updates_);
    result["ring_update_terms"] = std::move(update_terms_);
    result["ring_decay"] = std::move(decays_);
    result["ring_decay_terms"] = std::move(decay_terms_);
    return result;
  }

 private:
  // What the call writes of a pool starts as NaN, so that it stays so of pairs that are not evaluated.
  std::vector<Scalar> with_rows_forgotten(const char* name) const {
    const std::vector<float>& before = inputs_[name];
    std::vector<Scalar> pool(before.begin(), before.end());
    const Operand& operand = p_.operation->at(name);
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      if (!writes_row(operand, inputs_, n)) continue;
      const auto row = pool.begin() + inputs_.slot(n) * row_stride(operand, p_);
      std::fill(row, row + row_elements(operand, p_), std::numeric_limits<Scalar>::quiet_NaN());
    }
    return pool;
  }

  // Of all sequences: copies cost nothing to evaluate.
  std::vector<Scalar> ring_keys() const {
    const std::vector<float>& before = inputs_["ring_key"];
    std::vector<Scalar> keys(before.begin(), before.end());
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      if (inputs_.slot(n) < 0) continue;
      for (std::int64_t t = 0; t < inputs_.length(n); ++t) {
        const std::int64_t to = rings_.place(n, rings_.length(n) + t);
        const auto token =
            inputs_["k"].begin() + (inputs_.first_token(n) + t) * p_.keys_per_token();
        std::copy(token, token + p_.keys_per_token(),
                  keys.begin() + static_cast<std::ptrdiff_t>(rings_.key_at(n, to, 0)));
      }
    }
    return keys;
  }

  // The records of a head as the call found them, which it leaves but for those of its tokens.
  void keep_records(std::int64_t n, std::int64_t h) {
    for (std::int64_t place = 0; place < ring_places(p_); ++place) {
      const std::size_t update = rings_.update_at(n, place, h);
      const auto begin = inputs_["ring_update"].begin() + static_cast<std::ptrdiff_t>(update);
      std::copy(begin, begin + p_.value_head_dim,
                updates_.begin() + static_cast<std::ptrdiff_t>(update));
      const std::size_t decay = rings_.decay_at(n, place, h);
      decays_[decay] = Scalar(inputs_["ring_decay"][decay]);
    }
  }

  void run_pair(const SequenceHead& pair) {
    const std::int64_t n = pair.sequence;
    const std::int64_t h = pair.value_head;
    const std::int64_t first = inputs_.first_token(n);
    const std::int64_t output_stride = p_.num_value_heads * p_.value_head_dim;
    Scalar* output = output_.data() + first * output_stride + h * p_.value_head_dim;
    if (inputs_.slot(n) < 0) {
      for (std::int64_t t = 0; t < inputs_.length(n); ++t) {
        std::fill_n(output + t * output_stride, p_.value_head_dim, Scalar(0));
      }
      return;
    }
    if (inputs_.length(n) == 0) return;

    keep_records(n, h);
    HeadState<Scalar> state = rings_.state<Scalar>(pair);
    if (rings_.folds(n)) store_state(p_, state, pool_state_begin(p_, inputs_.slot(n), h), states_);
    HeadInputs<float, Scalar> head = head_inputs(p_, source_, gates_, first, h);
    head.num_tokens = 1;
    const HeadOptions<Scalar> options{p_.update, p_.decay, p_.normalize_qk,
                                      effective_scale<Scalar>(p_)};
    for (std::int64_t t = 0; t < inputs_.length(n); ++t) {
      const std::int64_t to = rings_.place(n, rings_.length(n) + t);
      const std::size_t update = rings_.update_at(n, to, h);
      const std::size_t decay = rings_.decay_at(n, to, h);
      decays_[decay] = std::exp(*head.log_decay.data);
      decay_terms_[decay] = 1;
      gated_delta_head(head, options, state, output + t * output_stride, output_stride,
                       {&updates_[update], &update_terms_[update], 0});
      head.skip(1);
    }
  }

  const Case& inputs_;
  const Problem& p_;
  Rings rings_;
  QkvSource<float> source_;
  Gates<Scalar> gates_;
  std::vector<Scalar> output_, states_, updates_, update_terms_, decays_, decay_terms_;
};

template <typename Scalar>
Arrays<Scalar> evaluate_ring(const Case& inputs, const EvaluationOptions& options) {
  return RingRecurrence<Scalar>(inputs).run(options);
}

Conditioning measure_ring(const Case& inputs, const Arrays<double>&,
                          const EvaluationOptions& options) {
  const Rings rings(inputs);
  return measure_recurrence_conditioning(
      inputs, source_of_qkv(inputs), inputs.problem.normalize_qk, options,
      [&](const SequenceHead& pair) { return rings.state<double>(pair); });
}

constexpr double kDecayLimit = 50 * 0x1p-24;  // of an exponential of float32 gates

ErrorLimits ring_limits(const Problem& p, const Conditioning& conditioning) {
  ErrorLimits limits = recurrence_limits(p, conditioning, 1);
  const double rounding = unit_roundoff(ring_update_dtype(p));
  limits["ring_update"] = {std::min(limits["output"].relative_l2 + rounding, kLargestLimit), 0};
  limits["ring_decay"] = {kDecayLimit, 0};
  return limits;
}

// Records are rounded as final states are, and an update sees their errors as an output does.
void widen_ring_limits(ErrorLimits& limits, const Problem& p, const Conditioning& conditioning,
                       double roundings) {
  const double before = limits["output"].relative_l2;
  widen_recurrence_limits(limits, p, conditioning, roundings);
  OutputLimit& update = limits["ring_update"];
  update.relative_l2 =
      std::min(update.relative_l2 + limits["output"].relative_l2 - before, kLargestLimit);
}

}  // namespace

const ReferenceOperation& gated_delta_ring_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_delta_ring_operation(),
      .honours = recurrence_options() + HonouredFields{"logits", "ring"},
      .evaluate_float = evaluate_ring<float>,
      .evaluate_double = evaluate_ring<double>,
      .evaluate_long_double = evaluate_ring<long double>,
      // As many passes over the state again for the records of a ring that is half full.
      .flops =
          [](const Problem& p) {
            return recurrence_flops(p) + static_cast<double>(ring_places(p) * p.num_sequences()) *
                                             static_cast<double>(p.num_value_heads) *
                                             static_cast<double>(p.key_head_dim * p.value_head_dim);
          },
      .conditioning = measure_ring,
      .conditioning_text = recurrence_conditioning_text,
      .limits = ring_limits,
      .widen = widen_ring_limits};
  return operation;
}

}  // namespace gdn::reference
