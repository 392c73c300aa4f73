// The recurrence itself: one (sequence, value head), token by token.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "interface/problem.h"

namespace gdn::reference {

/// Where one head's vectors of one sequence lie: element e of step j of token t at
/// data[t * token_stride + j * step_stride + e * element_stride]. Scalar inputs (float as stored;
/// or the wide scalar that the convolution of a layer left).
template <typename Element>
struct VectorsView {
  const Element* data = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t step_stride = 0;
  std::int64_t element_stride = 1;
};

/// What one head of one sequence is made of, with n = steps of a token (Problem::steps).
template <typename Element, typename Scalar>
struct HeadInputs {
  std::int64_t num_tokens = 0;
  std::int64_t steps = 1;
  VectorsView<Element> query;     ///< one per token: step_stride is not used
  VectorsView<Element> key;       ///< n per token
  VectorsView<Element> value;     ///< n per token
  VectorsView<Scalar> log_decay;  ///< one vector per token: of one element, or of Dk
  VectorsView<Scalar> beta;       ///< n per token, of one element

  /// The views begin that many tokens later.
  void skip(std::int64_t tokens) {
    query.data += tokens * query.token_stride;
    key.data += tokens * key.token_stride;
    value.data += tokens * value.token_stride;
    log_decay.data += tokens * log_decay.token_stride;
    beta.data += tokens * beta.token_stride;
  }
};

template <typename Scalar>
struct HeadOptions {
  UpdateRule update = UpdateRule::delta;
  DecayPer decay = DecayPer::head;
  bool normalize_qk = false;  ///< divide q and k by sqrt(sum x^2 + 1e-6) first
  Scalar scale = 1;
};

/// State of one head: Dk x Dv, column j belonging to value element j. (Eigen is column-major, so a
/// column is contiguous.)
template <typename Scalar>
using HeadState = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;

/// What each token adds to the state, where that is wanted and a token is one step:
/// S <- exp(g) S + k update^T, the key as it is stored, so that the update holds what normalises it. [Dv] per
/// token, at token_stride; and the size of the terms each is the sum of.
template <typename Scalar>
struct HeadUpdates {
  Scalar* update = nullptr;
  Scalar* terms = nullptr;
  std::int64_t token_stride = 0;
};

/// Runs all tokens, updating `state` and writing the outputs ([Dv] per token, at
/// output_token_stride).
template <typename Element, typename Scalar>
void gated_delta_head(const HeadInputs<Element, Scalar>& inputs, const HeadOptions<Scalar>& options,
                      HeadState<Scalar>& state, Scalar* output, std::int64_t output_token_stride,
                      const HeadUpdates<Scalar>& updates = {});

}  // namespace gdn::reference
