// gated_rms_norm: the float64 reference, its work and its limits.
//
// Limits. Nothing in the operation amplifies a rounding: the squares are summed without
// cancellation, the root halves a relative error, products keep it, and z reaches the gate exactly.
// So there is no conditioning, and a unit may be wrong by what float32 arithmetic rounds on the way
//
//     sum of squares                 (1 + 2 sqrt(Dv)) u; half of it behind the root
//     mean, eps, root, quotient      4 u
//     exponential, 1 + e, quotient   6 u: an exponential of two units in the last place is 4 u
//     three products                 3 u
//
// which (16 + sqrt(Dv)) u of float32 covers, and by one rounding to the type of y. A sum of n terms
// of one sign, one after the other, is wrong by sqrt(n) / 3 u in the root mean square, which the
// root halves; trees by less. The limit is six times that: the worst of many rows is near four. An
// exponential must keep its relative accuracy where z is far below zero: exp2(z log2(e)) with the
// product rounded to float32 is wrong by 1.44 |z| u there, which units feel whose every z is.
#include "interface/operations/gated_rms_norm.h"

#include <limits>

#include "reference/gated_rms_norm.h"
#include "reference/operation.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

template <typename Scalar>
Arrays<Scalar> evaluate_norm(const Case& inputs, const EvaluationOptions& options) {
  const Problem& p = inputs.problem;
  const std::int64_t width = p.value_head_dim;
  const std::vector<float>& x = inputs["x"];
  const std::vector<float>& z = inputs["z"];
  const std::vector<float>& weight = inputs["weight"];
  std::vector<Scalar> y(x.size(), std::numeric_limits<Scalar>::quiet_NaN());
  const std::vector<SequenceHead> pairs = pairs_of(p, options);
  parallel_for(static_cast<std::int64_t>(pairs.size()), options.threads, [&](std::int64_t i) {
    const auto [sequence, head] = pairs[static_cast<std::size_t>(i)];
    const std::int64_t first = inputs.first_token(sequence);
    for (std::int64_t t = first; t < first + inputs.length(sequence); ++t) {
      const auto row = static_cast<std::size_t>((t * p.num_value_heads + head) * width);
      gated_norm_row(p, x.data() + row, z.data() + row, weight.data(), y.data() + row);
    }
  });
  Arrays<Scalar> result;
  result["y"] = std::move(y);
  return result;
}

ErrorLimits norm_limits(const Problem& p, const Conditioning&) {
  return {{"y",
           {norm_roundoffs(p) * unit_roundoff(DType::float32) +
                unit_roundoff(p.effective_output_dtype()),
            0}}};
}

}  // namespace

const ReferenceOperation& gated_rms_norm_reference() {
  static const ReferenceOperation operation = {.operation = gated_rms_norm_operation(),
                                               .honours = {"out", "norm_gate", "norm_eps"},
                                               .evaluate_float = evaluate_norm<float>,
                                               .evaluate_double = evaluate_norm<double>,
                                               .evaluate_long_double = evaluate_norm<long double>,
                                               .flops = gated_norm_flops,
                                               .conditioning = nullptr,
                                               .limits = norm_limits,
                                               .widen = nullptr};
  return operation;
}

}  // namespace gdn::reference
