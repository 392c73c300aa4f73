// Plans hip/fused (fused.hip): chooses the chunk, the number of state rows and, for states inside the call, the
// kernels that store them (fused_checkpoints.hip).
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
        .honours = recurrence_options() + HonouredFields{"checkpoints", "checkpoint_dtype"},
        .backend = "hip",
        .form = "fused",
        .summary = "one workgroup walks a head's chunks, state in registers; bound by VALU issue",
        .resources = "gfx906, up to 39 KB of LDS",
        .rank = 40,
        .examples = {
            "gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
            "gated_delta:heads=1/2,dim=64x72,seq=20+3+0+70,h0=normal,dtype=bf16,slots=padding,"
            "layout=vk,checkpoints=3,checkpoint_dtype=bf16",
            "gated_delta:heads=1/1,dim=136x36,seq=37+1,dtype=f16,state=bf16,ht=0,norm=1,"
            "checkpoints=4,checkpoint_dtype=f32"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    if (Support support = chunk_support(problem); !support) return support;
    return checkpoint_chunk_support(problem);
  }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const CheckpointParams params = make_checkpoint_params(problem, arguments);
    const std::size_t bytes = checkpoint_params_bytes(problem);
    const ChunkChoice choice = choose_chunk(problem);
    const Extent grid{static_cast<std::uint32_t>((problem.value_head_dim + 127) / 128),
                      static_cast<std::uint32_t>(problem.num_value_heads),
                      static_cast<std::uint32_t>(problem.num_sequences())};
    const std::string kernel = checkpoint_prefix(problem) + "fused_" + choice.kernel_part();
    PlanInfo info;
    info.chunk = choice.chunk;
    info.launches = 1;
    info.choice = "columns=128 rows=" + std::to_string(choice.rows);
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params, bytes, grid, kernel](KernelLauncher& launcher) {
          launcher.launch(kernel, grid, {256, 1, 1}, &params, bytes);
        });
  }
};

}  // namespace

const Implementation& gated_delta_fused() {
  static const Fused implementation;
  return implementation;
}

}  // namespace gdn::hip
