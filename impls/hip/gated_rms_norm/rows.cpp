// Plans hip/rows (rows.hip).
#include <algorithm>

#include "hip/dtype.h"
#include "hip/gated_rms_norm/plan_params.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_rms_norm.h"

namespace gdn::hip {
namespace {

// More than fill the card; groups stride over the rows beyond.
constexpr std::int64_t kMostBlocks = 1 << 16;

class Rows final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/rows",
        .operation = gated_rms_norm_operation(),
        .honours = {"out", "norm_gate", "norm_eps"},
        .backend = "hip",
        .form = "rows",
        .summary = "half a wave per row, read twice; bound by memory traffic",
        .resources = "gfx906",
        .rank = 10,
        .examples = {"gated_rms_norm:heads=2/4,dim=64,seq=20+3,dtype=f32",
                     "gated_rms_norm:heads=1/5,dim=16x21,seq=9+1,dtype=bf16,norm_gate=sigmoid,"
                     "out=f32"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedRmsNormArguments given = gated_rms_norm_arguments(problem, arguments);
    constexpr std::int64_t kRowsPerBlock = kNormThreads / kNormLanes;
    const std::int64_t rows = problem.total_tokens() * problem.num_value_heads;
    NormParams params = norm_params(problem, given);
    params.y = given.y;
    params.blocks = static_cast<std::int32_t>(
        std::clamp<std::int64_t>((rows + kRowsPerBlock - 1) / kRowsPerBlock, 1, kMostBlocks));
    params.output_element = element_of(problem.effective_output_dtype());
    const bool packets = takes_packets(problem, given);
    const std::string kernel =
        (packets ? "norm_packets_" : "norm_elements_") + short_name(problem.token_dtype);
    PlanInfo info;
    info.launches = 1;
    info.choice = packets ? "packet=4" : "packet=1";
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{}, [params, kernel](KernelLauncher& launcher) {
          launcher.launch(kernel, {static_cast<std::uint32_t>(params.blocks), 1, 1},
                          {kNormThreads, 1, 1}, &params, sizeof(params));
        });
  }
};

}  // namespace

const Implementation& gated_rms_norm_rows() {
  static const Rows implementation;
  return implementation;
}

}  // namespace gdn::hip
