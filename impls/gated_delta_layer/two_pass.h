// gated_delta_layer in two passes, around any backend's causal_conv1d and gated_delta:
//
//     pass 1    qkv -> causal convolution + activation -> intermediate [T, channels]
//     pass 2    gated_delta on views into it, with l2 norm, gates and scale fused
//
// q, k and v are the intermediate's channels [q: Hk Dk | k: Hk Dk | v: Hv Dv], read in place through
// token strides. In float32 nothing is rounded between the passes. In the token dtype q, k and v are
// rounded once more, which docs/contract.md, section 1.3, allows and the layer's limits hold; it costs
// half the traffic and is what kernels of tensor cores take. Then conv_output, where it is asked for,
// is the intermediate itself.
//
// Bound by the second pass, and by one write and one read of the intermediate beside it. Reached, 16/32
// heads of 128, 4x8192 bfloat16 tokens on an H200: 0.925 ms with cuda/fused_sm90 and the token dtype
// between the passes, 4.76 ms with cuda/recurrent_staged and float32 (data/measured/h200-2026-11-24).
#pragma once

#include "interface/implementation.h"

namespace gdn {

/// The element type in which the first pass hands on its result.
enum class Between { float32, token_dtype };

class TwoPassLayer final : public Implementation {
 public:
  /// `delta` makes the second pass: the layer takes its name, form and requirements. Both passes
  /// are of one backend.
  TwoPassLayer(const Implementation& convolution, const Implementation& delta,
               Between between = Between::float32);

  const Description& description() const override { return description_; }
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  /// If conv_output is given, the convolution's result is written there too, rounded to the token
  /// dtype in the problem's conv_layout.
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  const Implementation& convolution_;
  const Implementation& delta_;
  Between between_;
  Description description_;
};

}  // namespace gdn
