#include "reference/gated_delta.h"

#include <cmath>

namespace gdn::reference {
namespace {

template <typename Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

template <typename Element, typename Scalar>
void load(const VectorsView<Element>& view, std::int64_t token, Vector<Scalar>& destination) {
  const Element* source = view.data + token * view.token_stride;
  for (Eigen::Index e = 0; e < destination.size(); ++e) {
    destination[e] = static_cast<Scalar>(source[e * view.element_stride]);
  }
}

template <typename Scalar>
void normalize(Vector<Scalar>& x) {
  x /= std::sqrt(x.squaredNorm() + Scalar(1e-6L));
}

}  // namespace

template <typename Element, typename Scalar>
void gated_delta_head(std::int64_t num_tokens, VectorsView<Element> query, VectorsView<Element> key,
                      VectorsView<Element> value, const Scalar* log_decay, const Scalar* beta,
                      std::int64_t gate_token_stride, const HeadOptions<Scalar>& options,
                      HeadState<Scalar>& state, Scalar* output, std::int64_t output_token_stride) {
  Vector<Scalar> q(state.rows());
  Vector<Scalar> k(state.rows());
  Vector<Scalar> v(state.cols());
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    load(query, t, q);
    load(key, t, k);
    load(value, t, v);
    if (options.normalize_qk) {
      normalize(q);
      normalize(k);
    }
    const Scalar decay = std::exp(log_decay[t * gate_token_stride]);
    const Scalar beta_t = beta[t * gate_token_stride];
    // A full reset forgets whatever the state held, infinities included (0 * inf is NaN).
    if (decay == Scalar(0)) state.setZero();
    // The equations never mix columns of S: column j is the recurrence of value element j alone.
    for (Eigen::Index j = 0; j < state.cols(); ++j) {
      auto s = state.col(j);
      s *= decay;
      const Scalar r = v[j] - s.dot(k);
      s += (beta_t * r) * k;
      output[t * output_token_stride + j] = options.scale * s.dot(q);
    }
  }
}

#define GDN_INSTANTIATE(Element, Scalar)                                                           \
  template void gated_delta_head(std::int64_t, VectorsView<Element>, VectorsView<Element>,         \
                                 VectorsView<Element>, const Scalar*, const Scalar*, std::int64_t, \
                                 const HeadOptions<Scalar>&, HeadState<Scalar>&, Scalar*,          \
                                 std::int64_t);
GDN_INSTANTIATE(float, float)  // of stored vectors (and, for float, of a layer's convolution)
GDN_INSTANTIATE(float, double)
GDN_INSTANTIATE(float, long double)
GDN_INSTANTIATE(double, double)  // of a layer's convolution, not rounded in between
GDN_INSTANTIATE(long double, long double)
#undef GDN_INSTANTIATE

}  // namespace gdn::reference
