// gated_delta_layer_backward out of implementations of its steps of one backend, whatever they are: each
// a plan of its own, and what one hands on to another lies in the plan's workspace, in the token dtype (but
// of float16, see below):
//
//     causal_conv1d            qkv -> conv_output [T, channels], of which q, k and v are views
//     with gated_norm=1:
//       gated_delta            -> its output [T, Hv, Dv]
//       gated_rms_norm_backward  d_output -> d_x, the gradient of that output; d_z, d_norm_weight
//     gated_delta_backward     -> d_q, d_k, d_v; the gradients of gates, betas and the initial state
//     one launch of copies     d_q, d_k, d_v -> channels of conv_output's gradient
//     causal_conv1d_backward   -> d_qkv, d_conv_weight, d_conv_bias, d_initial_window
//
// Nothing that the forward call made need be kept: its convolution and its recurrence are computed again,
// without writing a window or a state. conv_output is not read once the recurrence's gradients are there,
// so that its own gradient takes its place.
//
// What the steps hand on may leave float16, which ends at 65504, where nothing that the call writes does. The
// norm's d_x is divided by the size of a row of the recurrence's output, and what it goes into is small where
// that row is: beside a row of 1e-3 it is beyond 1e5 and d_qkv near 100. Without the norm, d_q of a large
// state meets the taps of the convolution. So a call of float16 tokens runs in float32 where its steps take
// that: all of it, since a step has one type for what it reads and what it writes, between a launch of copies
// before it and one behind. bfloat16 has float32's range.
//
// Bound by its steps, and by the copies, which read and write conv_output's gradient once more.
#pragma once

#include <string>
#include <vector>

#include "interface/implementation.h"

namespace gdn {

struct LayerBackwardMembers {
  const Implementation& convolution;     ///< of causal_conv1d
  const Implementation& recurrence;      ///< of gated_delta
  const Implementation& norm_gradients;  ///< of gated_rms_norm_backward
  /// Of gated_delta_backward: it gives the whole its name, form and rank.
  const Implementation& recurrence_gradients;
  const Implementation& convolution_gradients;  ///< of causal_conv1d_backward
  /// Description::examples.
  std::vector<std::string> examples;
};

class LayerBackwardImplementation final : public Implementation {
 public:
  explicit LayerBackwardImplementation(LayerBackwardMembers members);

  const Description& description() const override { return description_; }
  /// The recurrence's gradients'.
  int rank(const Problem& problem) const override;
  /// A refusal names the step that refuses.
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  bool runs_in_float32(const Problem& problem) const;
  Support supports_steps(const Problem& problem) const;

  LayerBackwardMembers members_;
  Description description_;
};

}  // namespace gdn
