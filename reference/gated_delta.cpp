#include "reference/gated_delta.h"

#include <cmath>

namespace gdn::reference {
namespace {

template <typename Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

template <typename Element, typename Scalar>
void load(const VectorsView<Element>& view, std::int64_t token, std::int64_t step,
          Vector<Scalar>& destination) {
  const Element* source = view.data + token * view.token_stride + step * view.step_stride;
  for (Eigen::Index e = 0; e < destination.size(); ++e) {
    destination[e] = static_cast<Scalar>(source[e * view.element_stride]);
  }
}

/// What it was divided by.
template <typename Scalar>
Scalar normalize(Vector<Scalar>& x) {
  const Scalar length = std::sqrt(x.squaredNorm() + Scalar(1e-6L));
  x /= length;
  return length;
}

/// S <- diag(exp(g)) S, g being log_decay: one number for all rows, or one per row.
template <typename Scalar>
void apply_decay(const Vector<Scalar>& log_decay, HeadState<Scalar>& state) {
  const Vector<Scalar> decays = log_decay.unaryExpr([](Scalar g) { return std::exp(g); });
  const Vector<Scalar> decay =
      decays.size() == 1 ? Vector<Scalar>::Constant(state.rows(), decays[0]) : decays;
  // A full reset forgets whatever the state held, infinities included (0 * inf is NaN).
  for (Eigen::Index i = 0; i < state.rows(); ++i) {
    if (decay[i] == Scalar(0)) state.row(i).setZero();
  }
  state.array().colwise() *= decay.array();
}

}  // namespace

template <typename Element, typename Scalar>
void gated_delta_head(const HeadInputs<Element, Scalar>& inputs, const HeadOptions<Scalar>& options,
                      HeadState<Scalar>& state, Scalar* output, std::int64_t output_token_stride,
                      const HeadUpdates<Scalar>& updates) {
  Vector<Scalar> q(state.rows());
  Vector<Scalar> k(state.rows());
  Vector<Scalar> v(state.cols());
  Vector<Scalar> beta(1);
  Vector<Scalar> log_decay(options.decay == DecayPer::channel ? state.rows() : 1);
  for (std::int64_t t = 0; t < inputs.num_tokens; ++t) {
    load(inputs.log_decay, t, 0, log_decay);
    apply_decay(log_decay, state);
    for (std::int64_t step = 0; step < inputs.steps; ++step) {
      load(inputs.key, t, step, k);
      load(inputs.value, t, step, v);
      load(inputs.beta, t, step, beta);
      const Scalar length = options.normalize_qk ? normalize(k) : Scalar(1);
      // The equations never mix columns of S: column j is the recurrence of value element j alone.
      for (Eigen::Index j = 0; j < state.cols(); ++j) {
        auto s = state.col(j);
        const Scalar r = options.update == UpdateRule::delta ? v[j] - s.dot(k) : v[j];
        if (updates.update != nullptr) {
          const Scalar factor = beta[0] / length;
          const Scalar terms = std::sqrt(v[j] * v[j] + s.cwiseProduct(k).squaredNorm());
          updates.update[t * updates.token_stride + j] = factor * r;
          updates.terms[t * updates.token_stride + j] = std::abs(factor) * terms;
        }
        s += (beta[0] * r) * k;
      }
    }
    load(inputs.query, t, 0, q);
    if (options.normalize_qk) normalize(q);
    for (Eigen::Index j = 0; j < state.cols(); ++j) {
      output[t * output_token_stride + j] = options.scale * state.col(j).dot(q);
    }
  }
}

#define GDN_INSTANTIATE(Element, Scalar)                                                         \
  template void gated_delta_head(const HeadInputs<Element, Scalar>&, const HeadOptions<Scalar>&, \
                                 HeadState<Scalar>&, Scalar*, std::int64_t,                      \
                                 const HeadUpdates<Scalar>&);
GDN_INSTANTIATE(float, float)  // of stored vectors (and, for float, of a layer's convolution)
GDN_INSTANTIATE(float, double)
GDN_INSTANTIATE(float, long double)
GDN_INSTANTIATE(double, double)  // of a layer's convolution, not rounded in between
GDN_INSTANTIATE(long double, long double)
#undef GDN_INSTANTIATE

}  // namespace gdn::reference
