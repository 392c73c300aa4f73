// The recurrence itself: one (sequence, value head), token by token.
#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace gdn::reference {

/// Where one head's vectors of one sequence lie: element e of token t at
/// data[t * token_stride + e * element_stride]. Scalar inputs (float as stored; or the wide scalar
/// that the convolution of a layer left).
template <typename Element>
struct VectorsView {
  const Element* data = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t element_stride = 1;
};

template <typename Scalar>
struct HeadOptions {
  bool normalize_qk = false;  ///< divide q and k by sqrt(sum x^2 + 1e-6) first
  Scalar scale = 1;
};

/// State of one head: Dk x Dv, column j belonging to value element j. (Eigen is column-major, so a
/// column is contiguous.)
template <typename Scalar>
using HeadState = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;

/// Runs `num_tokens` tokens, updating `state` and writing the outputs ([Dv] per token, at
/// output_token_stride). log_decay and beta: one value per token, at gate_token_stride.
template <typename Element, typename Scalar>
void gated_delta_head(std::int64_t num_tokens, VectorsView<Element> query, VectorsView<Element> key,
                      VectorsView<Element> value, const Scalar* log_decay, const Scalar* beta,
                      std::int64_t gate_token_stride, const HeadOptions<Scalar>& options,
                      HeadState<Scalar>& state, Scalar* output, std::int64_t output_token_stride);

}  // namespace gdn::reference
