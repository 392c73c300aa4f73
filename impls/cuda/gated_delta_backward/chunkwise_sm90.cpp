// cuda/chunkwise_sm90 of gated_delta_backward: the chunkwise form of the gradients for Hopper, in kernels each of
// which is one file of chunkwise_sm90/ and gives the formulas there.
//
//   prepare      T = L^-1 and P of every chunk and value head, and factors of its tokens
//   chains       S forwards and D, the gradient of the state, backwards: serial over the chunks of a sequence or of a
//                piece of it, both at once
//   gradients    everything else, of a chunk and key head, summed over its value heads
//   small_betas  d_beta of tokens whose beta leaves nothing to divide by
//   sums         the gates' own gradients from those of decays and betas (sums.cuh)
//
// Products take bfloat16 operands and add up in float32: tokens as they are, and S, D, T, P, V', dV' and what is made
// of them rounded once.
//
// Heads of Dk from 64 to 128, whose keys end in zeros, and of Dv to 512, in slices of 128 columns (record.h).
//
// Workspace: of each chunk, value head and slice 98 KB, S and D above all.
//
// Reached, H200, cold L2: 16/32 heads of 4x8192 tokens 1.84 ms, 2/4 heads of 1x32768 0.30 (chunkwise_sm90/log.md).
#include <memory>

#include "cuda/gated_delta_backward/chunkwise_sm90/form.h"
#include "cuda/gated_delta_backward/chunkwise_sm90/plan.h"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::GDN_CUDA_TARGET {
namespace backward_sm90 {
namespace {

class ChunkwiseSm90 final : public Implementation {
 public:
  explicit ChunkwiseSm90(Form form) : form_(form) {
    const bool is_planned = form == Form::planned;
    description_ = {
        .name = is_planned ? "cuda/chunkwise_sm90" : "cuda/chunkwise_sm90_invariant",
        .operation = gated_delta_backward_operation(),
        .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                    "scale", "gate", "bound", "beta"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "chunkwise",
        .summary =
            is_planned
                ? "wgmma and TMA, bfloat16 operands: the chains of S and of its gradient with "
                  "states in registers, long ones in pieces, then every chunk's gradients at once"
                : "as cuda/chunkwise_sm90, sequences never cut: same bits alone and in a batch",
        .resources = "sm_90a, 227 KB shared memory",
        .min_compute_capability = 90,
        .exact_compute_capability = 90,
        // where sequences are cut depends on how many there are beside
        .batch_invariant = !is_planned,
        .rank = is_planned ? 60 : 50,
        .aligned = {{"q", "k", "v", "d_output", "d_q", "d_k", "d_v"}, 16},
        .examples = {"gated_delta_backward:heads=1/2,dim=128,seq=20+3,h0=normal,dtype=bf16",
                     "gated_delta_backward:heads=1/2,dim=128,seq=70+3+0+130,dtype=bf16,h0=normal,"
                     "gate=logits,beta=logit,norm=1,layout=vk,state=bf16,slots=padding",
                     "gated_delta_backward:heads=1/3,dim=128,seq=64+65,dtype=bf16,gate=bounded,"
                     "beta=logit2,ht=0"}};
    if (is_planned)
      description_.examples.emplace_back(
          "gated_delta_backward:heads=1/1,dim=128,seq=530,dtype=bf16,h0=normal,gates=strong");
  }

  const Description& description() const override { return description_; }

  Support supports(const Problem& problem) const override { return supports_shape(problem); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return backward_sm90::workspace_bytes(problem);
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    return make_plan({.problem = problem,
                      .arguments = arguments,
                      .forward = nullptr,
                      .may_cut = form_ == Form::planned,
                      .name = description_.name},
                     device);
  }

 private:
  Form form_;
  Description description_;
};

}  // namespace

const Implementation& implementation(Form form) {
  static const ChunkwiseSm90 planned(Form::planned), invariant(Form::invariant);
  return form == Form::planned ? planned : invariant;
}

}  // namespace backward_sm90

const Implementation& gated_delta_backward_chunkwise_sm90() {
  return backward_sm90::implementation(backward_sm90::Form::planned);
}

}  // namespace gdn::GDN_CUDA_TARGET
