// The planner the three versions of the recurrent form share (recurrent.hip): they differ in how a
// wave sums and in how many state columns it holds.
#pragma once

#include <algorithm>
#include <string>

#include "hip/gated_delta/arguments.h"
#include "hip/kernel_launcher.h"

namespace gdn::hip {

class Recurrent final : public Implementation {
 public:
  /// `sum` is the version's part of the kernel names: "shuffle", "dpp" or "columns".
  Recurrent(std::string name, std::string sum, int columns_per_wave, std::string summary)
      : sum_(std::move(sum)), columns_per_wave_(columns_per_wave) {
    description_.name = std::move(name);
    description_.operation = Operation::gated_delta;
    description_.backend = "hip";
    description_.form = "recurrent";
    description_.summary = std::move(summary);
    description_.resources = "gfx906";
  }

  const Description& description() const override { return description_; }

  Support supports(const Problem& problem) const override {
    if (problem.operation != Operation::gated_delta) return Support::no("only gated_delta");
    if (problem.key_head_dim > 256) {
      return Support::no("Dk=" + std::to_string(problem.key_head_dim) +
                         " is more than the 256 rows a wave holds");
    }
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    constexpr std::uint32_t kWaves = 4, kThreads = 256;
    const auto tile = static_cast<std::int64_t>(columns_per_wave_) * kWaves;
    const Extent grid{static_cast<std::uint32_t>((problem.value_head_dim + tile - 1) / tile),
                      static_cast<std::uint32_t>(problem.num_value_heads),
                      static_cast<std::uint32_t>(problem.num_sequences())};
    const int rows = problem.key_head_dim <= 64 ? 64 : problem.key_head_dim <= 128 ? 128 : 256;
    const std::string kernel =
        "recurrent_" + sum_ + "_" + std::to_string(rows) + "_" + kernel_suffix(problem.token_dtype);
    PlanInfo info;
    info.launches = 1;
    info.choice = "columns_per_wave=" + std::to_string(columns_per_wave_);
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params, grid, kernel](KernelLauncher& launcher) {
          launcher.launch(kernel, grid, {kThreads, 1, 1}, &params, sizeof(params));
        });
  }

 private:
  Description description_;
  std::string sum_;
  int columns_per_wave_;
};

}  // namespace gdn::hip
