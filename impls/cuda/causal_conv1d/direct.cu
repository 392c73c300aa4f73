// cuda/direct: causal_conv1d as one kernel; conv.cu says how it works and what bounds it.
#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"

namespace gdn {
namespace cuda {
namespace {

class Direct final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/direct",
        .operation = Operation::causal_conv1d,
        .backend = "cuda",
        .form = "direct",
        .summary = "tokens in tiles, four channels per thread; bound by device memory",
        .resources = "",
        .min_compute_capability = 80};
    return description;
  }

  Support supports(const Problem& problem) const override {
    if (problem.operation != Operation::causal_conv1d) return Support::no("only causal_conv1d");
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const auto* given = std::get_if<CausalConv1dArguments>(&arguments);
    if (given == nullptr) throw_bad_input("arguments: those of causal_conv1d are expected");
    const ConvParams params = make_conv_params(problem, *given);
    if (params.token_capacity > 0) {
      require_pointer(params.output, static_cast<std::int64_t>(size_of(params.output_dtype)),
                      "conv_output");
    }
    PlanInfo info;
    info.launches = 1;
    info.choice = problem.conv_layout == ConvLayout::time ? "time fastest" : "channels fastest";
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params](cudaStream_t stream) { enqueue_causal_conv1d(params, stream); });
  }
};

}  // namespace
}  // namespace cuda

const Implementation& cuda_causal_conv1d_direct() {
  static const cuda::Direct implementation;
  return implementation;
}

}  // namespace gdn
