// gated_delta_layer in two passes, around any backend's causal_conv1d and gated_delta:
//
//     pass 1    qkv -> causal convolution + activation -> float32 intermediate [T, channels]
//     pass 2    gated_delta on views into it, with l2 norm, gates and scale fused
//
// The intermediate is float32, so nothing is rounded to the token dtype between the passes; q, k
// and v are its channels [q: Hk Dk | k: Hk Dk | v: Hv Dv], read in place through token strides. It
// costs one write and one read of 4 bytes per channel and token; what bounds the layer is its
// second pass.
#pragma once

#include "interface/implementation.h"

namespace gdn {

class TwoPassLayer final : public Implementation {
 public:
  /// `delta` makes the second pass: the layer takes its name, form and requirements. Both passes
  /// are of one backend.
  TwoPassLayer(const Implementation& convolution, const Implementation& delta);

  const Description& description() const override { return description_; }
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  /// If conv_output is given, the convolution's result is written there too, rounded to
  /// the token dtype in the problem's conv_layout.
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  const Implementation& convolution_;
  const Implementation& delta_;
  Description description_;
};

}  // namespace gdn
