// cuda/direct: causal_conv1d as one kernel; conv.cu says how it works and what bounds it.
#include <utility>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"

namespace gdn {
namespace cuda {
namespace {

std::int64_t window_bytes(const Problem& problem) {
  return problem.num_pool_rows() * problem.conv_channels() * (problem.conv_width - 1) *
         static_cast<std::int64_t>(size_of(problem.state_dtype));
}

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

  /// Of a plan with both an output and an intermediate; none otherwise.
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return window_bytes(problem);
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const auto* given = std::get_if<CausalConv1dArguments>(&arguments);
    if (given == nullptr) throw_bad_input("arguments: those of causal_conv1d are expected");
    const ConvParams rounded = make_conv_params(problem, *given);
    if (rounded.token_capacity > 0 && given->intermediate == nullptr) {
      require_pointer(rounded.output, static_cast<std::int64_t>(size_of(rounded.output_dtype)),
                      "conv_output");
    }
    PlanInfo info;
    info.choice = problem.conv_layout == ConvLayout::time ? "time fastest" : "channels fastest";
    std::vector<DeviceBuffer> workspaces;
    std::vector<ConvParams> launches;
    if (given->intermediate == nullptr || rounded.output != nullptr) launches.push_back(rounded);
    if (given->intermediate != nullptr) {
      // Only the last of two launches may move the window: the first writes windows nothing reads.
      if (!launches.empty()) {
        workspaces.push_back(device.allocate(window_bytes(problem)));
        launches.front().window_out = workspaces.back().data();
      }
      ConvParams wide = rounded;
      wide.output = given->intermediate;
      wide.output_dtype = DType::float32;
      wide.output_layout = ConvLayout::channels;
      launches.push_back(wide);
    }
    info.launches = static_cast<int>(launches.size());
    return std::make_unique<LaunchPlan>(device, info, std::move(workspaces),
                                        [launches](cudaStream_t stream) {
                                          for (const ConvParams& params : launches)
                                            enqueue_causal_conv1d(params, stream);
                                        });
  }
};

}  // namespace
}  // namespace cuda

const Implementation& cuda_causal_conv1d_direct() {
  static const cuda::Direct implementation;
  return implementation;
}

}  // namespace gdn
