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

#include "reference/gated_rms_norm.h"
#include "reference/gradients.h"
#include "reference/operation.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

template <typename Scalar>
class Backward {
 public:
  explicit Backward(const Case& inputs)
      : p_(inputs.problem),
        inputs_(inputs),
        width_(p_.value_head_dim),
        x_(inputs["x"]),
        z_(inputs["z"]),
        d_y_(inputs["d_y"]),
        weight_(inputs["weight"]) {}

  Arrays<Scalar> run(const EvaluationOptions& options) {
    const auto elements = static_cast<std::int64_t>(x_.size());
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
    const Scalar root = norm_root<Scalar>(p_, x_.data() + row);
    std::vector<Scalar> u(static_cast<std::size_t>(width_)), g(u.size());
    Sum<Scalar> along;  // mean(u g)
    for (std::size_t j = 0; j < u.size(); ++j) {
      const auto at = static_cast<std::size_t>(row) + j;
      const auto z = Scalar(z_[at]), d_y = Scalar(d_y_[at]), weight = Scalar(weight_[j]);
      const Scalar gate = norm_gate_of(p_.norm_gate, z);
      u[j] = Scalar(x_[at]) / root;
      g[j] = d_y * weight * gate;
      along.add(u[j] / Scalar(width_), {g[j], 0});
      d_weight[j].add(u[j], {d_y * gate, 0});
      const GateSlope<Scalar> slope = norm_gate_slope(p_.norm_gate, z);
      Sum<Scalar> d_z;
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
      d_x_.store(row + static_cast<std::int64_t>(j), d_x);
    }
  }

  const Problem& p_;
  const Case& inputs_;
  std::int64_t width_;
  const std::vector<float>&x_, &z_, &d_y_, &weight_;
  Gradient<Scalar> d_x_, d_z_, d_weight_;
};

template <typename Scalar>
Arrays<Scalar> evaluate_backward(const Case& inputs, const EvaluationOptions& options) {
  return Backward<Scalar>(inputs).run(options);
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
