// gated_delta_backward: the float64 reference, its work and its limits.
//
// Reverse mode of the token recurrence (docs/contract.md, section 1.1), straight from its equations.
// With R = alpha S the state after the decay, r = v - R^T k, S' = R + beta k r^T, o = scale S'^T q, and
// D the gradient with respect to S', which starts as d_final_state, a token gives from the last one to
// the first
//
//     D <- D + scale q d_o^T;   d_q = scale S' d_o;   w = D^T k;   d_beta = w . r;   d_v = beta w
//     d_k = beta (D r - R w);   D <- D - beta k w^T;  d_g = <R, D>;  d_alpha = <S, D>;  D <- alpha D
//
// and at the beginning D is d_initial_state. (The product rule on each equation; Yang et al.,
// "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", arXiv 2406.06484,
// appendix B, is the same in chunks.) d_alpha has no factor alpha, so that it is the one-sided
// derivative at a full reset too, where d_g is exactly zero.
//
// Beside every gradient but d_v's and the state's stand its terms: the square root of its square and
// of the squares of the products that it sums. Errors are relative to these, since a gradient that is
// a difference (d_g of decays near 1, d_beta of repeated keys, anything of a single token) may cancel
// to any degree.
//
// Limits. A backward call is two recurrences of one conditioning, S forward and D in reverse: the
// transition of D is the transpose of S's. Each is allowed what gated_delta is (recurrence_limits.cpp),
// and a gradient is a product of the two, so that the relative errors add: twice its limit. Sums over
// tokens and states get no more. What is stored adds one rounding of its type. Measured: `verify` of
// cpu/naive stays within a tenth of these on every problem of the suites quick and stress.
#include "interface/operations/gated_delta_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "interface/gate_arithmetic.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/backward_steps.h"
#include "reference/gated_delta.h"
#include "reference/gradients.h"
#include "reference/operation.h"
#include "reference/parallel.h"
#include "reference/recurrence.h"

namespace gdn::reference {
namespace {

template <typename Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

// d log_decay / d decay_logit = -exp(A_log) sigmoid(x) as one exponential: neither factor's overflow
// or underflow makes infinity times zero.
template <typename Scalar>
Scalar decay_per_logit(Scalar A_log, Scalar x) {
  return -std::exp(A_log - gate_arithmetic::softplus(-x));
}

// d log_decay / d its logit, and / d A_log.
template <typename Scalar>
struct GateSlopes {
  Scalar of_logit;
  Scalar of_A_log;
};
// Of y = exp(A_log) x.
template <typename Scalar>
GateSlopes<Scalar> bounded_slopes(Scalar A_log, Scalar x, Scalar bound) {
  const Scalar rate = gate_arithmetic::finite_rate(A_log), y = rate * x;
  const Scalar slope = -bound * gate_arithmetic::sigmoid(y) * gate_arithmetic::sigmoid(-y);
  // Where it has saturated nothing is left, however large the other factor is.
  return slope == 0 ? GateSlopes<Scalar>{0, 0} : GateSlopes<Scalar>{slope * rate, slope * y};
}

// Element: float as stored, or the wide scalar that other steps left.
template <typename Element, typename Scalar>
class Backward {
 public:
  Backward(const Case& inputs, const RecurrenceStep<Element, Scalar>& step)
      : inputs_(inputs),
        p_(inputs.problem),
        given_(step),
        gates_(decode_gates<Scalar>(inputs)),
        scale_(p_.scale ? Scalar(*p_.scale) : Scalar(1) / std::sqrt(Scalar(p_.key_head_dim))) {}

  Arrays<Scalar> run(const EvaluationOptions& options) {
    const std::int64_t keys = p_.total_tokens() * p_.num_key_heads * p_.key_head_dim;
    const std::int64_t heads = p_.total_tokens() * p_.num_value_heads;
    for (auto* of_keys : {&d_q_, &d_q_terms_, &d_k_, &d_k_terms_}) assign(*of_keys, keys);
    for (auto* of_values : {&d_v_, &d_v_terms_}) assign(*of_values, heads * p_.value_head_dim);
    for (auto* of_heads : {&d_gate_, &d_gate_terms_, &d_beta_, &d_beta_terms_}) {
      assign(*of_heads, heads);
    }
    for (auto* of_states : {&d_initial_, &d_initial_terms_}) {
      assign(*of_states, p_.num_pool_rows() * p_.state_row_stride());
    }
    const auto pairs = static_cast<std::size_t>(p_.num_sequences() * p_.num_value_heads);
    d_A_log_.assign(pairs, {});
    d_dt_bias_.assign(pairs, {});
    for_groups(options, [&](std::int64_t sequence, std::int64_t key_head) {
      run_group(sequence, key_head);
    });
    return results();
  }

  // What the forward call made, and sqrt of the squares of the products that each element sums.
  Arrays<Scalar> outputs(const EvaluationOptions& options) {
    std::vector<Scalar> values, terms;
    for (auto* of_values : {&values, &terms}) {
      assign(*of_values, p_.total_tokens() * p_.num_value_heads * p_.value_head_dim);
    }
    for_groups(options, [&](std::int64_t sequence, std::int64_t key_head) {
      const std::int64_t group = p_.value_heads_per_key_head();
      for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
        read_out(sequence, h, values, terms);
      }
    });
    Arrays<Scalar> result;
    result["output"] = std::move(values);
    result["output_terms"] = std::move(terms);
    return result;
  }

 private:
  // body(sequence, key head) of those that the pairs are of.
  template <typename Body>
  void for_groups(const EvaluationOptions& options, const Body& body) const {
    std::set<std::pair<std::int64_t, std::int64_t>> wanted;
    for (const SequenceHead& pair : pairs_of(p_, options)) {
      wanted.insert({pair.sequence, pair.value_head / p_.value_heads_per_key_head()});
    }
    const std::vector<std::pair<std::int64_t, std::int64_t>> groups(wanted.begin(), wanted.end());
    parallel_for(static_cast<std::int64_t>(groups.size()), options.threads, [&](std::int64_t i) {
      const auto& [sequence, key_head] = groups[static_cast<std::size_t>(i)];
      body(sequence, key_head);
    });
  }

  void read_out(std::int64_t sequence, std::int64_t head, std::vector<Scalar>& values,
                std::vector<Scalar>& terms) const {
    const std::int64_t first = inputs_.first_token(sequence), slot = inputs_.slot(sequence);
    const auto Dv = static_cast<std::size_t>(p_.value_head_dim);
    HeadState<Scalar> state = state_of(
        "initial_state", slot >= 0 && p_.initial_state != InitialState::absent, slot, head);
    for (std::int64_t t = first; t < first + inputs_.length(sequence); ++t) {
      const std::size_t at = at_head(t, head) * Dv;
      if (slot >= 0) state = step(state, t, head);
      const Vector<Scalar> q = scale_ * query_of(t, head / p_.value_heads_per_key_head()).unit;
      const Vector<Scalar> o = state.transpose() * q;
      const Vector<Scalar> squares =
          state.array().square().matrix().transpose() * q.array().square().matrix();
      for (std::size_t j = 0; j < Dv; ++j) {
        const auto in_row = static_cast<Eigen::Index>(j);
        values[at + j] = slot < 0 ? Scalar(0) : o[in_row];
        terms[at + j] = slot < 0 ? Scalar(0) : std::sqrt(squares[in_row]);
      }
    }
  }

  static void assign(std::vector<Scalar>& values, std::int64_t count) {
    values.assign(static_cast<std::size_t>(count), std::numeric_limits<Scalar>::quiet_NaN());
  }

  // A row of q or k as it is, and divided by `length` where the problem says so.
  struct Row {
    Vector<Scalar> unit;
    Scalar length = 1;
  };
  Row query_of(std::int64_t token, std::int64_t key_head) const {
    return row_of(given_.source.query + token * given_.source.query_token_stride, key_head);
  }
  Row key_of(std::int64_t token, std::int64_t key_head) const {
    return row_of(given_.source.key + token * given_.source.key_token_stride, key_head);
  }
  Row row_of(const Element* token, std::int64_t key_head) const {
    const std::int64_t Dk = p_.key_head_dim;
    Row row{strided(token + key_head * Dk * given_.source.element_stride, Dk)};
    if (!given_.normalize_qk) return row;
    row.length = std::sqrt(row.unit.squaredNorm() + Scalar(1e-6L));
    row.unit /= row.length;
    return row;
  }
  Vector<Scalar> strided(const Element* x, std::int64_t count) const {
    const Eigen::InnerStride<> stride(given_.source.element_stride);
    return Eigen::Map<const Vector<Element>, 0, Eigen::InnerStride<>>(x, count, stride)
        .template cast<Scalar>();
  }
  Vector<Scalar> value_of(std::int64_t token, std::int64_t head) const {
    const std::int64_t Dv = p_.value_head_dim;
    return strided(given_.source.value + token * given_.source.value_token_stride +
                       head * Dv * given_.source.element_stride,
                   Dv);
  }
  Vector<Scalar> d_output_of(std::int64_t token, std::int64_t head) const {
    const std::int64_t Dv = p_.value_head_dim;
    const Element* x = given_.d_output.values + (token * p_.num_value_heads + head) * Dv;
    return Eigen::Map<const Vector<Element>>(x, Dv).template cast<Scalar>();
  }
  // The squares of its terms beside those of its values.
  Vector<Scalar> d_output_squares_of(std::int64_t token, std::int64_t head) const {
    const std::int64_t Dv = p_.value_head_dim;
    Vector<Scalar> squares(Dv);
    for (std::int64_t j = 0; j < Dv; ++j) {
      squares[j] = given_.d_output.squares((token * p_.num_value_heads + head) * Dv + j);
    }
    return squares;
  }
  Scalar decay_of(std::int64_t token, std::int64_t head) const {
    return std::exp(gates_.log_decay[at_head(token, head)]);
  }
  std::size_t at_head(std::int64_t token, std::int64_t head) const {
    return static_cast<std::size_t>(token * p_.num_value_heads + head);
  }
  std::size_t pool_index(std::int64_t slot, std::int64_t head, Eigen::Index i,
                         Eigen::Index j) const {
    const std::int64_t Dk = p_.key_head_dim, Dv = p_.value_head_dim;
    const std::int64_t in_head = p_.state_layout == StateLayout::kv ? i * Dv + j : j * Dk + i;
    return static_cast<std::size_t>(slot * p_.state_row_stride() + head * Dk * Dv + in_head);
  }
  HeadState<Scalar> state_of(const char* name, bool is_read, std::int64_t slot,
                             std::int64_t head) const {
    HeadState<Scalar> state = HeadState<Scalar>::Zero(p_.key_head_dim, p_.value_head_dim);
    for (Eigen::Index i = 0; is_read && i < state.rows(); ++i) {
      for (Eigen::Index j = 0; j < state.cols(); ++j) {
        state(i, j) = Scalar(inputs_[name][pool_index(slot, head, i, j)]);
      }
    }
    return state;
  }

  static HeadState<Scalar> decayed(const HeadState<Scalar>& state, Scalar alpha) {
    // A full reset forgets whatever the state held, infinities included.
    if (alpha == Scalar(0)) return HeadState<Scalar>::Zero(state.rows(), state.cols());
    return alpha * state;
  }

  // The forward step of a token: the state after it.
  HeadState<Scalar> step(const HeadState<Scalar>& before, std::int64_t t, std::int64_t head) const {
    HeadState<Scalar> state = decayed(before, decay_of(t, head));
    const Vector<Scalar> k = key_of(t, head / p_.value_heads_per_key_head()).unit;
    const Vector<Scalar> r = value_of(t, head) - state.transpose() * k;
    state += (gates_.beta[at_head(t, head)] * k) * r.transpose();
    return state;
  }

  // Gradients with respect to the rows of q and k as they are used, over the group's value heads.
  struct KeyGradients {
    std::vector<Vector<Scalar>> value;    // one a token
    std::vector<Vector<Scalar>> squares;  // of the products in it
  };

  void run_group(std::int64_t sequence, std::int64_t key_head) {
    const std::int64_t first = inputs_.first_token(sequence), length = inputs_.length(sequence);
    const std::int64_t group = p_.value_heads_per_key_head();
    const Vector<Scalar> zero = Vector<Scalar>::Zero(p_.key_head_dim);
    const std::vector<Vector<Scalar>> zeros(static_cast<std::size_t>(length), zero);
    KeyGradients of_q{zeros, zeros}, of_k{zeros, zeros};
    for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
      if (inputs_.slot(sequence) < 0) {
        store_zeros(first, length, h);
      } else {
        run_head(sequence, h, of_q, of_k);
      }
    }
    for (std::int64_t t = 0; t < length; ++t) {
      store_key(query_of(first + t, key_head), of_q, t, first + t, key_head, d_q_, d_q_terms_);
      store_key(key_of(first + t, key_head), of_k, t, first + t, key_head, d_k_, d_k_terms_);
    }
  }

  void store_zeros(std::int64_t first, std::int64_t length, std::int64_t head) {
    for (std::int64_t t = first; t < first + length; ++t) {
      const std::size_t at = at_head(t, head);
      d_gate_[at] = d_gate_terms_[at] = d_beta_[at] = d_beta_terms_[at] = 0;
      for (std::int64_t j = 0; j < p_.value_head_dim; ++j) store_value(t, head, j, {});
    }
  }
  void store_value(std::int64_t token, std::int64_t head, Eigen::Index j, const Sum<Scalar>& sum) {
    const auto at = at_head(token, head) * static_cast<std::size_t>(p_.value_head_dim) +
                    static_cast<std::size_t>(j);
    d_v_[at] = sum.value;
    d_v_terms_[at] = sum.terms();
  }

  // From the gradient of y = x / n, n = sqrt(|x|^2 + eps), to that of x: (dy - y (y . dy)) / n.
  void store_key(const Row& row, const KeyGradients& gradients, std::int64_t in_sequence,
                 std::int64_t token, std::int64_t key_head, std::vector<Scalar>& values,
                 std::vector<Scalar>& terms) {
    Vector<Scalar> value = gradients.value[static_cast<std::size_t>(in_sequence)];
    Vector<Scalar> squares = gradients.squares[static_cast<std::size_t>(in_sequence)];
    if (given_.normalize_qk) {
      const Scalar along = row.unit.dot(value);
      const Vector<Scalar> unit_squares = row.unit.array().square();
      const Scalar along_squares = along * along + unit_squares.dot(squares);
      squares = ((squares.array() + value.array().square() + along_squares * unit_squares.array()) /
                 (row.length * row.length))
                    .matrix()
                    .eval();
      value = ((value - along * row.unit) / row.length).eval();
    }
    const std::int64_t Dk = p_.key_head_dim;
    for (std::int64_t i = 0; i < Dk; ++i) {
      const auto at = static_cast<std::size_t>((token * p_.num_key_heads + key_head) * Dk + i);
      values[at] = value[i];
      terms[at] = Sum<Scalar>{value[i], squares[i]}.terms();
    }
  }

  // D, and where the outputs' gradients have terms of their own, what these are in it, as errors that are
  // independent of one another: 1 - beta k k^T lets no more of them pass than there are.
  struct StateGradient {
    HeadState<Scalar> value, squares;
    bool has_squares() const { return squares.size() > 0; }
  };

  // Forward with a checkpoint every sqrt(length) tokens, then the segments in reverse.
  void run_head(std::int64_t sequence, std::int64_t head, KeyGradients& of_q, KeyGradients& of_k) {
    const std::int64_t first = inputs_.first_token(sequence), length = inputs_.length(sequence);
    const std::int64_t slot = inputs_.slot(sequence);
    const auto segment = static_cast<std::int64_t>(
        std::ceil(std::sqrt(static_cast<double>(std::max<std::int64_t>(length, 1)))));
    std::vector<HeadState<Scalar>> checkpoints;
    HeadState<Scalar> state =
        state_of("initial_state", p_.initial_state != InitialState::absent, slot, head);
    for (std::int64_t t = 0; t < length; ++t) {
      if (t % segment == 0) checkpoints.push_back(state);
      state = step(state, first + t, head);
    }
    StateGradient D{state_of("d_final_state", p_.final_state, slot, head), {}};
    if (given_.d_output.terms != nullptr) {
      D.squares = HeadState<Scalar>::Zero(p_.key_head_dim, p_.value_head_dim);
    }
    std::vector<HeadState<Scalar>> states;
    for (std::int64_t begin = (length - 1) / segment * segment; length > 0 && begin >= 0;
         begin -= segment) {
      const std::int64_t end = std::min(begin + segment, length);
      states = {checkpoints[static_cast<std::size_t>(begin / segment)]};
      for (std::int64_t t = begin; t < end; ++t) {
        states.push_back(step(states.back(), first + t, head));
      }
      for (std::int64_t t = end - 1; t >= begin; --t) {
        const auto in_segment = static_cast<std::size_t>(t - begin);
        step_back(sequence, head, t, states[in_segment], states[in_segment + 1], D, of_q, of_k);
      }
    }
    for (Eigen::Index i = 0; i < D.value.rows(); ++i) {
      for (Eigen::Index j = 0; j < D.value.cols(); ++j) {
        const std::size_t at = pool_index(slot, head, i, j);
        d_initial_[at] = D.value(i, j);
        d_initial_terms_[at] =
            Sum<Scalar>{D.value(i, j), D.has_squares() ? D.squares(i, j) : Scalar(0)}.terms();
      }
    }
  }

  void step_back(std::int64_t sequence, std::int64_t head, std::int64_t in_sequence,
                 const HeadState<Scalar>& before, const HeadState<Scalar>& after,
                 StateGradient& gradient, KeyGradients& of_q, KeyGradients& of_k) {
    HeadState<Scalar>& D = gradient.value;
    const std::int64_t token = inputs_.first_token(sequence) + in_sequence;
    const std::int64_t key_head = head / p_.value_heads_per_key_head();
    const auto at_token = static_cast<std::size_t>(in_sequence);
    const Scalar alpha = decay_of(token, head), beta = gates_.beta[at_head(token, head)];
    const Vector<Scalar> q = query_of(token, key_head).unit;
    const Vector<Scalar> k = key_of(token, key_head).unit;
    const Vector<Scalar> v = value_of(token, head);
    const Vector<Scalar> d_o = scale_ * d_output_of(token, head);
    const HeadState<Scalar> R = decayed(before, alpha);
    const Vector<Scalar> r = v - R.transpose() * k;
    const auto squared = [](const auto& x) { return x.array().square().matrix().eval(); };
    const Vector<Scalar> k2 = squared(k);
    const Vector<Scalar> r2 = squared(v) + squared(R).transpose() * k2;

    D += q * d_o.transpose();
    of_q.value[at_token] += after * d_o;
    Vector<Scalar> d_o2 = squared(d_o);
    HeadState<Scalar> D2 = squared(D);
    if (gradient.has_squares()) {
      const Vector<Scalar> more = scale_ * scale_ * d_output_squares_of(token, head);
      d_o2 += more;
      gradient.squares += squared(q) * more.transpose();
      D2 += gradient.squares;
    }
    of_q.squares[at_token] += squared(after) * d_o2;

    const Vector<Scalar> w = D.transpose() * k;
    const Vector<Scalar> w2 = D2.transpose() * k2;
    for (Eigen::Index j = 0; j < v.size(); ++j) {
      store_value(token, head, j, Sum<Scalar>{w[j], w2[j]}.scaled(beta));
    }
    store_beta(token, head, {w.dot(r), w2.dot(r2)});
    of_k.value[at_token] += beta * (D * r - R * w);
    of_k.squares[at_token] += beta * beta * (D2 * r2 + squared(R) * w2);

    D -= (beta * k) * w.transpose();
    const HeadState<Scalar> left2 = D2 + (beta * beta * k2) * w2.transpose();
    const auto against = [&](const HeadState<Scalar>& state) {
      return Sum<Scalar>{state.cwiseProduct(D).sum(), squared(state).cwiseProduct(left2).sum()};
    };
    store_gate(sequence, token, head, against(R), against(before));
    D = decayed(D, alpha);
    if (!gradient.has_squares()) return;
    HeadState<Scalar>& E = gradient.squares;
    const Vector<Scalar> all = E.transpose() * k2;
    for (Eigen::Index i = 0; i < E.rows(); ++i) {
      const Scalar own = 1 - 2 * beta * k2[i];
      E.row(i) =
          (own * E.row(i) + beta * beta * k2[i] * all.transpose()).cwiseMax(Scalar(0)).eval();
    }
    E = decayed(E, alpha * alpha);
  }

  void store_beta(std::int64_t token, std::int64_t head, Sum<Scalar> sum) {
    const std::size_t at = at_head(token, head);
    if (p_.beta_encoding != BetaEncoding::beta) {
      const Scalar x = inputs_[beta_name(p_)][at];
      const Scalar most = p_.beta_encoding == BetaEncoding::logit2 ? 2 : 1;
      sum = sum.scaled(most * gate_arithmetic::sigmoid(x) * gate_arithmetic::sigmoid(-x));
    }
    d_beta_[at] = sum.value;
    d_beta_terms_[at] = sum.terms();
  }

  void store_gate(std::int64_t sequence, std::int64_t token, std::int64_t head,
                  const Sum<Scalar>& of_log_decay, const Sum<Scalar>& of_decay) {
    const std::size_t at = at_head(token, head);
    Sum<Scalar> sum = of_log_decay;
    switch (p_.gate_encoding) {
      case GateEncoding::log_decay:
        break;
      case GateEncoding::decay:
        sum = of_decay;
        break;
      case GateEncoding::neg_log_decay:
        sum = of_log_decay.scaled(Scalar(-1));
        break;
      case GateEncoding::logits:
      case GateEncoding::bounded: {
        const auto h = static_cast<std::size_t>(head);
        const Scalar A_log = inputs_["A_log"][h];
        const Scalar x = Scalar(inputs_[gate_name(p_)][at]) + Scalar(inputs_["dt_bias"][h]);
        // After a full reset nothing depends on the gate, whatever its own derivative is.
        const bool forgotten = !(of_log_decay.squares > 0);
        const bool bounded = p_.gate_encoding == GateEncoding::bounded;
        const auto slopes =
            bounded ? bounded_slopes(A_log, x, Scalar(p_.decay_bound))
                    : GateSlopes<Scalar>{decay_per_logit(A_log, x), gates_.log_decay[at]};
        sum = forgotten ? Sum<Scalar>{} : sum.scaled(slopes.of_logit);
        const Sum<Scalar> of_rate =
            forgotten ? Sum<Scalar>{} : of_log_decay.scaled(slopes.of_A_log);
        const auto pair = static_cast<std::size_t>(sequence * p_.num_value_heads + head);
        d_A_log_[pair].value += of_rate.value;
        d_A_log_[pair].squares += of_rate.value * of_rate.value + of_rate.squares;
        d_dt_bias_[pair].value += sum.value;
        d_dt_bias_[pair].squares += sum.value * sum.value + sum.squares;
        break;
      }
    }
    d_gate_[at] = sum.value;
    d_gate_terms_[at] = sum.terms();
  }

  Arrays<Scalar> results() {
    Arrays<Scalar> result;
    const auto put = [&](const std::string& name, std::vector<Scalar>& values,
                         std::vector<Scalar>& terms) {
      result[name] = std::move(values);
      result[name + "_terms"] = std::move(terms);
    };
    put("d_q", d_q_, d_q_terms_);
    put("d_k", d_k_, d_k_terms_);
    put("d_v", d_v_, d_v_terms_);
    put(gate_gradient_name(p_), d_gate_, d_gate_terms_);
    put(beta_gradient_name(p_), d_beta_, d_beta_terms_);
    put("d_initial_state", d_initial_, d_initial_terms_);
    if (!entry_of(p_.gate_encoding).has_rate_and_bias) return result;
    const auto over_batch = [&](const char* name, const std::vector<Sum<Scalar>>& sums) {
      std::vector<Scalar> values, terms;
      for (std::int64_t h = 0; h < p_.num_value_heads; ++h) {
        Sum<Scalar> sum;
        for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
          const auto& of_pair = sums[static_cast<std::size_t>(n * p_.num_value_heads + h)];
          sum.value += of_pair.value;
          sum.squares += of_pair.squares;
        }
        values.push_back(sum.value);
        terms.push_back(sum.terms());
      }
      put(name, values, terms);
    };
    over_batch("d_A_log", d_A_log_);
    over_batch("d_dt_bias", d_dt_bias_);
    return result;
  }

  const Case& inputs_;
  const Problem& p_;
  RecurrenceStep<Element, Scalar> given_;
  Gates<Scalar> gates_;
  Scalar scale_;
  std::vector<Scalar> d_q_, d_q_terms_, d_k_, d_k_terms_, d_v_, d_v_terms_;
  std::vector<Scalar> d_gate_, d_gate_terms_, d_beta_, d_beta_terms_;
  std::vector<Scalar> d_initial_, d_initial_terms_;
  std::vector<Sum<Scalar>> d_A_log_, d_dt_bias_;  // [N, Hv]
};

template <typename Scalar>
Arrays<Scalar> evaluate_backward(const Case& inputs, const EvaluationOptions& options) {
  const RecurrenceStep<float, Scalar> step{
      source_of_qkv(inputs), inputs.problem.normalize_qk, {inputs["d_output"].data()}};
  return Backward<float, Scalar>(inputs, step).run(options);
}

Conditioning measure_backward(const Case& inputs, const Arrays<double>&,
                              const EvaluationOptions& options) {
  Conditioning conditioning = measure_recurrence_conditioning(inputs, source_of_qkv(inputs),
                                                              inputs.problem.normalize_qk, options);
  conditioning.readouts.clear();  // gradients are judged by their terms instead
  return conditioning;
}

// The outputs of a problem, each with the rounding of its own type.
ErrorLimits backward_limits(const Problem& p, const Conditioning& conditioning) {
  Conditioning without_readout = conditioning;
  without_readout.readouts.clear();
  const double compute = recurrence_limits(p, without_readout, 2)["output"].relative_l2;
  ErrorLimits limits;
  for (const Operand& operand : p.operation->operands) {
    if (!operand.is_output() || !is_present(operand, p)) continue;
    const bool in_tokens = unit_roundoff(operand.dtype(p)) <= unit_roundoff(p.token_dtype);
    const double rounding = in_tokens ? 0 : unit_roundoff(operand.dtype(p));
    limits[operand.output_name()] = {std::min(compute + rounding, kLargestLimit), 0};
  }
  return limits;
}

// Where a call is cut, D is rounded as d_final_state of the earlier tokens' call, and S as the initial
// state of the later tokens': of a product of the two each rounding counts, twice as for an output that
// may cancel (widen_recurrence_limits).
void widen_backward(ErrorLimits& limits, const Problem& p, const Conditioning& conditioning,
                    double roundings) {
  const double together = std::min(roundings, std::max(1.0, conditioning.memory_tokens));
  const double rounding = 4 * unit_roundoff(p.state_dtype) * std::sqrt(together);
  for (auto& [name, limit] : limits) {
    limit.relative_l2 = std::min(limit.relative_l2 + rounding, kLargestLimit);
  }
}

}  // namespace

template <typename Element, typename Scalar>
Arrays<Scalar> recurrence_outputs(const Case& inputs, const RecurrenceStep<Element, Scalar>& step,
                                  const EvaluationOptions& options) {
  return Backward<Element, Scalar>(inputs, step).outputs(options);
}
template <typename Element, typename Scalar>
Arrays<Scalar> recurrence_gradients(const Case& inputs, const RecurrenceStep<Element, Scalar>& step,
                                    const EvaluationOptions& options) {
  return Backward<Element, Scalar>(inputs, step).run(options);
}
#define GDN_INSTANTIATE(Scalar)                                                                    \
  template Arrays<Scalar> recurrence_outputs(const Case&, const RecurrenceStep<Scalar, Scalar>&,   \
                                             const EvaluationOptions&);                            \
  template Arrays<Scalar> recurrence_gradients(const Case&, const RecurrenceStep<Scalar, Scalar>&, \
                                               const EvaluationOptions&)
GDN_INSTANTIATE(float);
GDN_INSTANTIATE(double);
GDN_INSTANTIATE(long double);
#undef GDN_INSTANTIATE

const ReferenceOperation& gated_delta_backward_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_delta_backward_operation(),
      .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm", "scale",
                  "gate", "bound", "beta"},
      .evaluate_float = evaluate_backward<float>,
      .evaluate_double = evaluate_backward<double>,
      .evaluate_long_double = evaluate_backward<long double>,
      // Forward twice, and in reverse five products of the state's size and as many of their terms.
      .flops =
          [](const Problem& p) {
            return 34.0 * static_cast<double>(p.total_tokens() * p.num_value_heads) *
                   static_cast<double>(p.key_head_dim * p.value_head_dim);
          },
      .conditioning = measure_backward,
      .conditioning_text = recurrence_conditioning_text,
      .limits = backward_limits,
      .widen = widen_backward};
  return operation;
}

}  // namespace gdn::reference
