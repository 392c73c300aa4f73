// Plans hip/fused (fused.hip): chooses the chunk and the number of state rows.
#include "hip/gated_delta/arguments.h"
#include "hip/gated_delta/chunk_choice.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::hip {
namespace {

class Fused final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/fused",
        .operation = gated_delta_operation(),
        .honours = recurrence_options(),
        .backend = "hip",
        .form = "fused",
        .summary = "one workgroup walks a head's chunks, state in registers; bound by VALU issue",
        .resources = "gfx906, up to 39 KB of LDS",
        .rank = 40,
        .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32"}};
    return description;
  }

  Support supports(const Problem& problem) const override { return chunk_support(problem); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    const ChunkChoice choice = choose_chunk(problem);
    const Extent grid{static_cast<std::uint32_t>((problem.value_head_dim + 127) / 128),
                      static_cast<std::uint32_t>(problem.num_value_heads),
                      static_cast<std::uint32_t>(problem.num_sequences())};
    const std::string kernel = "fused_" + choice.kernel_part();
    PlanInfo info;
    info.chunk = choice.chunk;
    info.launches = 1;
    info.choice = "columns=128 rows=" + std::to_string(choice.rows);
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params, grid, kernel](KernelLauncher& launcher) {
          launcher.launch(kernel, grid, {256, 1, 1}, &params, sizeof(params));
        });
  }
};

}  // namespace

const Implementation& gated_delta_fused() {
  static const Fused implementation;
  return implementation;
}

}  // namespace gdn::hip
