// Plans hip/direct (direct.hip).
#include "hip/causal_conv1d/convolution.h"
#include "interface/error.h"

namespace gdn {
namespace hip {
namespace {

class Direct final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/direct",
        .operation = Operation::causal_conv1d,
        .backend = "hip",
        .form = "direct",
        .summary = "width products per channel and token; bound by memory traffic",
        .resources = "gfx906"};
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
    PlanInfo info;
    info.launches = kConvLaunches;
    info.choice = "tile=64x64";
    return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                        convolution(problem, *given, nullptr));
  }
};

}  // namespace
}  // namespace hip

const Implementation& hip_causal_conv1d_direct() {
  static const hip::Direct implementation;
  return implementation;
}

}  // namespace gdn
