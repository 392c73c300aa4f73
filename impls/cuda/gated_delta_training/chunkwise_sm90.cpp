// cuda/chunkwise_sm90 of gated_delta_training: forward and backward of a step for Hopper, in the kernels of
// cuda/chunkwise_sm90 of gated_delta_backward (gated_delta_backward/chunkwise_sm90/). The forward call is their chain
// forwards, which makes the outputs too, and leaves the gradients T, P, S and V' of every chunk: from the one to the
// other 98 KB of each chunk and value head are kept. The gradients are told nothing of the outputs' gradients before the
// forward call has ended.
//
// Bound by: memory. Reached, H200, cold L2: 16/32 heads of 4x8192 tokens 1.97 to 2.02 ms, 2/4 heads of 1x32768 0.33 to
// 0.34 (gated_delta_backward/chunkwise_sm90/log.md).
#include "cuda/gated_delta_training/chunkwise_sm90.h"

#include <memory>

#include "cuda/gated_delta_backward/chunkwise_sm90/plan.h"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/gated_delta_training.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

class TrainingSm90 final : public Implementation {
 public:
  explicit TrainingSm90(backward_sm90::Form form) : form_(form) {
    const bool is_planned = form == backward_sm90::Form::planned;
    description_ = backward_sm90::implementation(form).description();
    description_.operation = gated_delta_training_operation();
    description_.summary =
        is_planned ? "wgmma and TMA, bfloat16 operands: the chain of the forward call leaves the "
                     "states that the gradients need"
                   : "as cuda/chunkwise_sm90, sequences never cut: same bits alone and in a batch";
    description_.aligned.operands.emplace_back("output");
    description_.examples = {
        "gated_delta_training:heads=1/1,dim=128,seq=9+3,dtype=bf16,h0=normal",
        "gated_delta_training:heads=1/2,dim=128,seq=9+0+70,dtype=bf16,slots=padding,norm=1"};
  }

  const Description& description() const override { return description_; }

  Support supports(const Problem& problem) const override {
    Support support = backward_sm90::supports_shape(problem);
    if (!support) support.reason = "gated_delta_backward: " + support.reason;
    return support;
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return backward_sm90::workspace_bytes(backward_of(problem));
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    require_operands(problem, arguments);
    const backward_sm90::ForwardArrays forward{
        arguments.output("output"),
        problem.final_state ? arguments.output("final_state") : nullptr};
    const Problem of_gradients = backward_of(problem);
    const Arguments given = arguments.shared_with(gated_delta_backward_operation());
    return backward_sm90::make_plan({.problem = of_gradients,
                                     .arguments = given,
                                     .forward = &forward,
                                     .may_cut = form_ == backward_sm90::Form::planned,
                                     .name = description_.name},
                                    device);
  }

 private:
  backward_sm90::Form form_;
  Description description_;
};

}  // namespace

const Implementation& training_sm90(backward_sm90::Form form) {
  static const TrainingSm90 planned(backward_sm90::Form::planned),
      invariant(backward_sm90::Form::invariant);
  return form == backward_sm90::Form::planned ? planned : invariant;
}

const Implementation& gated_delta_training_chunkwise_sm90() {
  return training_sm90(backward_sm90::Form::planned);
}

}  // namespace gdn::GDN_CUDA_TARGET
