// The short causal convolution of docs/contract.md, section 1.2, and the window of raw inputs it
// carries from call to call, in a wide scalar.
#pragma once

#include <vector>

#include "interface/case.h"

namespace gdn::reference {

template <typename Scalar>
struct ConvResult {
  std::vector<Scalar> output;  ///< [T, channels] or [channels, T] (Problem::conv_layout)
  std::vector<Scalar> state;   ///< conv_state after the call; empty: there is no pool
  std::vector<Scalar> checkpoint_windows;  ///< empty: the problem has none
};

/// y[t,c] = act(bias_c + sum_j weight[c,j] ext[t+j,c]), ext = the sequence's window, oldest first,
/// followed by the sequence; Problem::window_order says at which place of a row an input lies,
/// Problem::conv_window whether zeros stand in the window's place, and whether it is written
/// (Problem::initial_state and final_state concern the recurrent state). Rows no
/// sequence owns keep their values; sequences with slot -1 read and write no window and their outputs
/// are zeros.
/// The result does not depend on Problem::conv_state_in_place: the old window is read before the
/// new one is written.
template <typename Scalar>
ConvResult<Scalar> causal_conv1d(const Case& inputs, int threads);

/// Two operations for every multiply-add.
double convolution_flops(const Problem& problem);

}  // namespace gdn::reference
