// gated_rms_norm_backward: the float64 reference, its work and its limits.
//
// Reverse mode of the norm (docs/contract.md, section 1.5), straight from its equation. Of a row,
// with n = sqrt(mean(x^2) + eps), u = x / n, and g = d_y weight gate(z), the gradient with respect
// to u,
//
//     d_x = (g - u mean(u g)) / n;   d_z = d_y u weight gate'(z)
//     d_weight = sum over rows of d_y u gate(z)
//
// Beside every gradient stand its terms: the square root of its square and of the squares of what
// it sums. d_x cancels where g lies along x, and SiLU's slope s (1 + z (1 - s)), s = sigmoid(z),
// near z = -1.28. Nothing else that is rounded is a difference: z is given.
//
// Limits. d_z has the roundings of y (operations/gated_rms_norm.cpp) and few of its slope, which
// that count has room for. In d_x there are two sums over the row: that of u's squares, and that of
// u g, which is of terms of either sign and as wrong relative to them; so it may be wrong by twice
// as much. A sum of R rows of one sign, one after the other, is wrong by sqrt(R / 3) roundings of
// the result; d_weight is allowed 2 sqrt(R) beside those of its terms, in any order. It is float32
// whatever the tokens are. What is stored adds one rounding of its type.
#include "interface/operations/gated_rms_norm_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/backward_steps.h"
#include "reference/gated_rms_norm.h"
#include "reference/gradients.h"
#include "reference/operation.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

// Where rows and weights are; x_terms: null where x is exact.
template <typename Element, typename Scalar>
struct Rows {
  const Element* x;
  const Scalar* x_terms;
  const std::vector<float>&z, &weight, &d_y;
};

template <typename Element, typename Scalar>
class Backward {
 public:
  Backward(const Case& inputs, const Rows<Element, Scalar>& rows)
      : p_(inputs.problem),
        inputs_(inputs),
        width_(p_.value_head_dim),
        x_(rows.x),
        x_terms_(rows.x_terms),
        z_(rows.z),
        d_y_(rows.d_y),
        weight_(rows.weight) {}

  Arrays<Scalar> run(const EvaluationOptions& options) {
    const auto elements = static_cast<std::int64_t>(d_y_.size());
    d_x_.assign(elements, std::numeric_limits<Scalar>::quiet_NaN());
    d_z_.assign(elements, std::numeric_limits<Scalar>::quiet_NaN());
    d_weight_.assign(width_, Scalar(0));
    // Pairs in as many parts as there are, whatever the threads: sums are in one order.
    constexpr std::int64_t kParts = 256;
    const std::vector<SequenceHead> pairs = pairs_of(p_, options);
    const auto count = static_cast<std::int64_t>(pairs.size());
    std::vector<WeightSums> parts(static_cast<std::size_t>(std::min(count, kParts)));
    parallel_for(static_cast<std::int64_t>(parts.size()), options.threads, [&](std::int64_t part) {
      WeightSums& sums = parts[static_cast<std::size_t>(part)];
      sums.resize(static_cast<std::size_t>(width_));
      for (std::int64_t i = part; i < count; i += kParts) {
        const auto [sequence, head] = pairs[static_cast<std::size_t>(i)];
        const std::int64_t first = inputs_.first_token(sequence);
        for (std::int64_t t = first; t < first + inputs_.length(sequence); ++t) {
          run_row((t * p_.num_value_heads + head) * width_, sums);
        }
      }
    });
    for (std::int64_t j = 0; j < width_; ++j) {
      Sum<Scalar> sum;
      for (const WeightSums& part : parts) sum.add(1, part[static_cast<std::size_t>(j)]);
      d_weight_.store(j, sum);
    }
    Arrays<Scalar> result;
    d_x_.put("d_x", result);
    d_z_.put("d_z", result);
    d_weight_.put("d_weight", result);
    return result;
  }

 private:
  using WeightSums = std::vector<Sum<Scalar>>;

  void run_row(std::int64_t row, WeightSums& d_weight) {
    const Scalar root = norm_root<Scalar>(p_, x_ + row);
    std::vector<Scalar> u(static_cast<std::size_t>(width_)), g(u.size());
    Sum<Scalar> along;                // mean(u g)
    Scalar along_u = 0, along_g = 0;  // squares of what errors of u have in common with u and g
    for (std::size_t j = 0; j < u.size(); ++j) {
      const auto at = static_cast<std::size_t>(row) + j;
      const auto z = Scalar(z_[at]), d_y = Scalar(d_y_[at]), weight = Scalar(weight_[j]);
      const Scalar gate = norm_gate_of(p_.norm_gate, z);
      u[j] = Scalar(x_[at]) / root;
      g[j] = d_y * weight * gate;
      along.add(u[j] / Scalar(width_), {g[j], 0});
      d_weight[j].add(u[j], {d_y * gate, 0});
      const Scalar off = error_of(row, j) / root;  // of u
      along_u += u[j] * off * u[j] * off;
      along_g += g[j] * off * g[j] * off;
      d_weight[j].squares += d_y * gate * off * d_y * gate * off;
      const GateSlope<Scalar> slope = norm_gate_slope(p_.norm_gate, z);
      Sum<Scalar> d_z;
      const Scalar moved = d_y * weight * off;
      d_z.squares = moved * moved * (slope.of_gate * slope.of_gate + slope.of_z * slope.of_z);
      d_z.add(d_y * weight * u[j], {slope.of_gate, 0});
      d_z.add(d_y * weight * u[j], {slope.of_z, 0});
      d_z_.store(row + static_cast<std::int64_t>(j), d_z);
    }
    for (std::size_t j = 0; j < u.size(); ++j) {
      Sum<Scalar> d_x;
      d_x.add(1 / root, {g[j], 0});
      d_x.add(-u[j] / root, along);
      // The product as a whole, which may be more than its summands.
      const Scalar removed = u[j] * along.value / root;
      d_x.squares += removed * removed;
      // What errors of x do: to the root, to u, and to the mean.
      const auto mean = [&](Scalar squares) { return squares / Scalar(width_ * width_); };
      const Scalar off = error_of(row, j) / root;
      d_x.squares +=
          (d_x.value * d_x.value * mean(along_u) +
           (off * along.value * off * along.value + u[j] * u[j] * mean(along_g)) / (root * root));
      d_x_.store(row + static_cast<std::int64_t>(j), d_x);
    }
  }

  Scalar error_of(std::int64_t row, std::size_t j) const {
    return x_terms_ == nullptr ? Scalar(0) : x_terms_[row + static_cast<std::int64_t>(j)];
  }

  const Problem& p_;
  const Case& inputs_;
  std::int64_t width_;
  const Element* x_;
  const Scalar* x_terms_;
  const std::vector<float>&z_, &d_y_, &weight_;
  Gradient<Scalar> d_x_, d_z_, d_weight_;
};

template <typename Scalar>
Arrays<Scalar> evaluate_backward(const Case& inputs, const EvaluationOptions& options) {
  const Rows<float, Scalar> rows{inputs["x"].data(), nullptr, inputs["z"], inputs["weight"],
                                 inputs["d_y"]};
  return Backward<float, Scalar>(inputs, rows).run(options);
}

ErrorLimits backward_limits(const Problem& p, const Conditioning&) {
  const double rows =
      static_cast<double>(p.total_tokens()) * static_cast<double>(p.num_value_heads);
  const double float32 = unit_roundoff(DType::float32), token = unit_roundoff(p.token_dtype);
  const double of_row = norm_roundoffs(p) * float32;
  return {{"d_x", {2 * of_row + token, 0}},
          {"d_z", {of_row + token, 0}},
          {"d_weight", {std::min(of_row + (2 * std::sqrt(rows) + 1) * float32, kLargestLimit), 0}}};
}

}  // namespace

template <typename Scalar>
Arrays<Scalar> norm_gradients(const Case& inputs, const Scalar* x, const Scalar* x_terms,
                              const EvaluationOptions& options) {
  const Rows<Scalar, Scalar> rows{x, x_terms, inputs["z"], inputs["norm_weight"],
                                  inputs["d_output"]};
  return Backward<Scalar, Scalar>(inputs, rows).run(options);
}
template Arrays<float> norm_gradients(const Case&, const float*, const float*,
                                      const EvaluationOptions&);
template Arrays<double> norm_gradients(const Case&, const double*, const double*,
                                       const EvaluationOptions&);
template Arrays<long double> norm_gradients(const Case&, const long double*, const long double*,
                                            const EvaluationOptions&);

const ReferenceOperation& gated_rms_norm_backward_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_rms_norm_backward_operation(),
      .honours = {"norm_gate", "norm_eps"},
      .evaluate_float = evaluate_backward<float>,
      .evaluate_double = evaluate_backward<double>,
      .evaluate_long_double = evaluate_backward<long double>,
      // Three times the forward's, and the squares of every term.
      .flops = [](const Problem& p) { return 6 * gated_norm_flops(p); },
      .conditioning = nullptr,
      .limits = backward_limits,
      .widen = nullptr};
  return operation;
}

}  // namespace gdn::reference
