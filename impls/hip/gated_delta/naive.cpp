// Plans hip/naive (naive.hip): one wave per 64 state columns.
#include "hip/gated_delta/arguments.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::hip {
namespace {

class Naive final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/naive",
        .operation = gated_delta_operation(),
        .honours = recurrence_options(),
        .backend = "hip",
        .form = "naive",
        .summary = "one lane per state column, state in global memory; bound by state traffic",
        .resources = "gfx906",
        .rank = 10,
        .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32"}};
    return description;
  }

  Support supports(const Problem&) const override { return Support::yes(); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return problem.num_sequences() * problem.num_value_heads * problem.key_head_dim *
           problem.value_head_dim * static_cast<std::int64_t>(sizeof(float));
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    GatedDeltaParams params = make_params(problem, arguments);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(workspace_bytes(problem)));
    params.workspace = workspaces.front().as<float>();
    const Extent grid{static_cast<std::uint32_t>((problem.value_head_dim + 63) / 64),
                      static_cast<std::uint32_t>(problem.num_value_heads),
                      static_cast<std::uint32_t>(problem.num_sequences())};
    PlanInfo info;
    info.launches = 1;
    info.choice = "threads=64";
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, grid,
         kernel = "naive_" + kernel_suffix(problem.token_dtype)](KernelLauncher& launcher) {
          launcher.launch(kernel, grid, {64, 1, 1}, &params, sizeof(params));
        });
  }
};

}  // namespace

const Implementation& gated_delta_naive() {
  static const Naive implementation;
  return implementation;
}

}  // namespace gdn::hip
