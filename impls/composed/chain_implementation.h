// A chain (interface/chain.h) out of the implementations of its steps, whatever their backend: each
// step is a plan of its own, and what one hands on to another lies in the plan's workspace:
//
//     gated_delta_layer    qkv -> causal convolution + activation -> [T, channels]
//                          gated_delta on views into it, with l2 norm, gates and scale fused
//                          with gated_norm=1: gated_rms_norm of its output [T, Hv, Dv]
//
// What is handed on is read in place, through token strides. In float32 nothing is rounded between
// the steps. In the token dtype it is rounded once more, which docs/contract.md, section 1.3, allows
// and the layer's limits hold; it costs half the traffic and is what kernels of tensor cores take. An
// output that a caller may ask for (conv_output) is then the intermediate itself.
//
// Bound by the steps, and by one write and one read of each intermediate beside them. Reached, 16/32
// heads of 128, 4x8192 bfloat16 tokens on an H200: 0.678 ms with cuda/fused_sm90 and the token dtype
// between the steps, 0.870 ms with the gated norm behind them (data/measured/h200-2026-11-26). With the norm of q
// and k in the recurrence it was 0.72 to 0.73, and 0.765 before that cost less there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "interface/chain.h"
#include "interface/implementation.h"

namespace gdn {

struct ChainMembers {
  /// One for each step; null for a step that the backend lacks, which problems then cannot ask for.
  std::vector<const Implementation*> steps;
  /// The step whose implementation gives the chain its name, form and requirements.
  std::size_t main_step = 0;
  /// The element type in which the steps hand on: float32, or the tokens' own.
  enum class HandOn { float32, token_dtype } hand_on = HandOn::float32;
  /// Part of a step done by one before it, in what that hands on, where this pays and no caller asks to see it.
  struct Ahead {
    std::size_t step;
    const Implementation* implementation;  ///< which does so
    std::size_t of_step;
    bool (*pays)(const Problem& step, const Problem& of_step, const DeviceInfo& device);
    Problem (*rest)(Problem of_step);  ///< what is left of it
  };
  std::optional<Ahead> ahead = std::nullopt;
  /// Description::examples.
  std::vector<std::string> examples;
};

class ChainImplementation final : public Implementation {
 public:
  /// All steps are of one backend.
  ChainImplementation(const Chain& chain, ChainMembers members);

  const Description& description() const override { return description_; }
  /// The main step's.
  int rank(const Problem& problem) const override;
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  const Chain& chain_;
  ChainMembers members_;
  Description description_;
};

}  // namespace gdn
