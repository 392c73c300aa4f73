// Plans hip/rows (rows.hip).
#include <algorithm>

#include "hip/gated_rms_norm/plan_params.h"
#include "hip/gated_rms_norm_backward/params.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_rms_norm_backward.h"

namespace gdn::hip {
namespace {

constexpr std::int64_t kRowsPerBlock = kNormThreads / kNormLanes;
// Some waves for each of the 60 units; groups stride over the rows beyond. Each group leaves sums.
constexpr std::int64_t kMostBlocks = 480;

std::int64_t num_blocks(const Problem& problem) {
  const std::int64_t rows = problem.total_tokens() * problem.num_value_heads;
  return std::clamp<std::int64_t>((rows + kRowsPerBlock - 1) / kRowsPerBlock, 1, kMostBlocks);
}

bool takes_held_packets(const Problem& problem, const GatedRmsNormBackwardArguments& a) {
  constexpr std::int64_t kMostHeld = kNormLanes * kNormPacket * kNormHeldPackets;
  return takes_packets(problem, a.forward) && problem.value_head_dim <= kMostHeld &&
         a.d_y_token_stride % kNormPacket == 0 && is_of_packets(problem, a.d_y);
}

class Rows final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/rows",
        .operation = gated_rms_norm_backward_operation(),
        .honours = {"norm_gate", "norm_eps"},
        .backend = "hip",
        .form = "rows",
        .summary =
            "half a wave per row, read three times, d_weight by a second launch; bound by "
            "memory traffic",
        .resources = "gfx906",
        .rank = 10,
        .examples = {"gated_rms_norm_backward:heads=2/4,dim=64,seq=20+3,dtype=f32",
                     "gated_rms_norm_backward:heads=1/5,dim=16x21,seq=9+1,dtype=bf16,"
                     "norm_gate=sigmoid"}};
    return description;
  }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return num_blocks(problem) * kRowsPerBlock * problem.value_head_dim *
           static_cast<std::int64_t>(sizeof(float));
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedRmsNormBackwardArguments given =
        gated_rms_norm_backward_arguments(problem, arguments);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(workspace_bytes(problem)));
    NormGradientParams params{};
    params.norm = norm_params(problem, given.forward);
    params.norm.blocks = static_cast<std::int32_t>(num_blocks(problem));
    params.d_y = given.d_y;
    params.d_y_token_stride = given.d_y_token_stride;
    params.d_x = given.d_x;
    params.d_z = given.d_z;
    params.d_weight = given.d_weight;
    params.parts = workspaces.back().as<float>();
    const bool packets = takes_held_packets(problem, given);
    const std::string kernel = (packets ? "norm_gradients_packets_" : "norm_gradients_elements_") +
                               short_name(problem.token_dtype);
    const auto sum_blocks = static_cast<std::uint32_t>(
        (problem.value_head_dim + kNormSumColumns - 1) / kNormSumColumns);
    PlanInfo info;
    info.launches = 2;
    info.choice = packets ? "packet=4" : "packet=1";
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, kernel, sum_blocks](KernelLauncher& launcher) {
          launcher.launch(kernel, {static_cast<std::uint32_t>(params.norm.blocks), 1, 1},
                          {kNormThreads, 1, 1}, &params, sizeof(params));
          launcher.launch("norm_gradients_sum", {sum_blocks, 1, 1}, {kNormThreads, 1, 1}, &params,
                          sizeof(params));
        });
  }
};

}  // namespace

const Implementation& gated_rms_norm_backward_rows() {
  static const Rows implementation;
  return implementation;
}

}  // namespace gdn::hip
