// The planner the three versions of the recurrent form share (recurrent.hip): they differ in how
// the lanes of a wave share the state. What is launched for a problem also serves
// gated_delta_verify and gated_delta_ring.
#pragma once

#include <algorithm>
#include <string>

#include "hip/gated_delta/arguments.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::hip {

class Recurrent final : public Implementation {
 public:
  /// How the lanes of a wave share the state.
  struct Version {
    std::string name;  ///< part of the kernel names
    int waves;         ///< of a workgroup
    int columns_per_wave;
  };
  static Version shuffle_version() { return {"shuffle", 4, 1}; }
  static Version dpp_version() { return {"dpp", 4, 1}; }
  static Version columns_version() { return {"columns", 1, 32}; }

  /// What runs a problem.
  struct Launch {
    Version version;
    int rows;  ///< of the state that a wave holds, part of the kernel names
    Extent grid;
    Extent block;
  };
  static Launch launch_of(const Version& asked, const Problem& problem,
                          const GatedDeltaParams& params) {
    const int rows = problem.key_head_dim <= 64 ? 64 : problem.key_head_dim <= 128 ? 128 : 256;
    // "columns" moves elements in packets and its state takes a register for two of its rows; where
    // it cannot, "dpp" takes its place.
    const bool possible = params.packets != 0 && rows <= 128;
    const Version version = asked.columns_per_wave == 1 || possible ? asked : dpp_version();
    const auto tile = static_cast<std::int64_t>(version.columns_per_wave) * version.waves;
    return {version,
            rows,
            {static_cast<std::uint32_t>((problem.value_head_dim + tile - 1) / tile),
             static_cast<std::uint32_t>(problem.num_value_heads),
             static_cast<std::uint32_t>(problem.num_sequences())},
            {static_cast<std::uint32_t>(64 * version.waves), 1, 1}};
  }
  static Support rows_fit(const Problem& problem) {
    if (problem.key_head_dim > 256) {
      return Support::no("Dk=" + std::to_string(problem.key_head_dim) +
                         " is more than the 256 rows a wave holds");
    }
    return Support::yes();
  }

  Recurrent(std::string name, Version version, std::string summary, int rank)
      : version_(std::move(version)) {
    description_.name = std::move(name);
    description_.operation = gated_delta_operation();
    description_.honours = recurrence_options();
    if (version_.name != shuffle_version().name) {  // compiled without
      description_.honours = description_.honours +
                             HonouredFields{"checkpoints", "checkpoint_dtype", "state_rounding"};
    }
    description_.backend = "hip";
    description_.form = "recurrent";
    description_.summary = std::move(summary);
    description_.resources = "gfx906";
    description_.rank = rank;
    description_.examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32"};
    if (version_.name == shuffle_version().name) return;
    description_.examples.insert(
        description_.examples.end(),
        {"gated_delta:heads=1/"
         "2,dim=64x72,seq=20+3+0+9,h0=normal,dtype=bf16,slots=padding,layout=vk,"
         "checkpoints=3,checkpoint_dtype=bf16",
         "gated_delta:heads=1/1,dim=136x36,seq=7+1,dtype=f32,state=bf16,ht=0,norm=1,checkpoints=4,"
         "checkpoint_dtype=f32",
         "gated_delta:heads=1/2,dim=128,seq=5x1,h0=normal,dtype=bf16,state=f16,slots=padding,"
         "state_rounding=stochastic",
         "gated_delta:heads=1/1,dim=136x36,seq=7+1,h0=normal,dtype=f32,state=bf16,layout=vk,"
         "checkpoints=2,state_rounding=stochastic"});
  }

  const Description& description() const override { return description_; }

  Support supports(const Problem& problem) const override { return rows_fit(problem); }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const CheckpointParams params = make_checkpoint_params(problem, arguments);
    const std::size_t bytes = checkpoint_params_bytes(problem);
    const Launch launch = launch_of(version_, problem, params.delta);
    const std::string kernel = checkpoint_prefix(problem) + "recurrent_" + launch.version.name +
                               "_" + std::to_string(launch.rows) + "_" +
                               kernel_suffix(problem.token_dtype);
    PlanInfo info;
    info.launches = 1;
    info.choice = "columns_per_wave=" + std::to_string(launch.version.columns_per_wave);
    return std::make_unique<LaunchPlan>(device, info, std::vector<DeviceBuffer>{},
                                        [params, bytes, launch, kernel](KernelLauncher& launcher) {
                                          launcher.launch(kernel, launch.grid, launch.block,
                                                          &params, bytes);
                                        });
  }

 private:
  Description description_;
  Version version_;
};

}  // namespace gdn::hip
