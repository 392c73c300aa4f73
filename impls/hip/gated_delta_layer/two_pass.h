// gated_delta_layer in two passes over the tokens, around any HIP form of gated_delta: the
// convolution with its activation to a float32 intermediate [T, channels], then gated_delta on
// views into it, with l2 norm, gates and scale fused. The intermediate is never rounded to the
// token dtype.
#pragma once

#include "interface/implementation.h"

namespace gdn::hip {

class TwoPassLayer final : public Implementation {
 public:
  /// `delta` makes the second pass; the layer takes its name and form.
  explicit TwoPassLayer(const Implementation& delta);
  const Description& description() const override { return description_; }
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  const Implementation& delta_;
  Description description_;
};

}  // namespace gdn::hip
