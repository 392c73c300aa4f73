// The state of one head in its row of the pool, in either layout.
#pragma once

#include <cstdint>
#include <vector>

#include "interface/case.h"
#include "reference/gated_delta.h"

namespace gdn::reference {

/// Where the state of a head begins in the pool, or in an array of as many rows.
inline std::int64_t pool_state_begin(const Problem& p, std::int64_t slot, std::int64_t head) {
  return slot * p.state_row_stride() + head * p.key_head_dim * p.value_head_dim;
}

/// Element (i, j) of a state that begins at `begin`.
inline std::size_t pool_state_place(const Problem& p, std::int64_t begin, std::int64_t i,
                                    std::int64_t j) {
  const std::int64_t in_head =
      p.state_layout == StateLayout::kv ? i * p.value_head_dim + j : j * p.key_head_dim + i;
  return static_cast<std::size_t>(begin + in_head);
}

/// The initial state of a head in the row; zeros where the problem has none.
template <typename Scalar>
HeadState<Scalar> initial_state_of(const Case& inputs, std::int64_t slot, std::int64_t head) {
  const Problem& p = inputs.problem;
  HeadState<Scalar> state = HeadState<Scalar>::Zero(p.key_head_dim, p.value_head_dim);
  if (p.initial_state == InitialState::absent) return state;
  const std::vector<float>& pool = inputs["initial_state"];
  const std::int64_t begin = pool_state_begin(p, slot, head);
  for (Eigen::Index i = 0; i < state.rows(); ++i) {
    for (Eigen::Index j = 0; j < state.cols(); ++j) {
      state(i, j) = Scalar(pool[pool_state_place(p, begin, i, j)]);
    }
  }
  return state;
}

template <typename Scalar>
void store_state(const Problem& p, const HeadState<Scalar>& state, std::int64_t begin,
                 std::vector<Scalar>& states) {
  for (Eigen::Index i = 0; i < state.rows(); ++i) {
    for (Eigen::Index j = 0; j < state.cols(); ++j) {
      states[pool_state_place(p, begin, i, j)] = state(i, j);
    }
  }
}

}  // namespace gdn::reference
