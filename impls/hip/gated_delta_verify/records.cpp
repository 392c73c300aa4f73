// hip/records of gated_delta_verify: see records.hip.
#include "hip/gated_delta/recurrent_plan.h"
#include "hip/gated_delta_verify/params.h"
#include "interface/operations/gated_delta_verify.h"

namespace gdn::hip {
namespace {

/// What is kept of a token of the problem, in floats.
struct RecordFloats {
  std::int64_t keys, updates, decays;
  explicit RecordFloats(const Problem& problem)
      : keys(problem.steps * problem.num_key_heads * problem.key_head_dim),
        updates(problem.steps * problem.num_value_heads * problem.value_head_dim),
        decays(problem.num_value_heads * problem.gates_per_head()) {}
};

std::int64_t bytes_of(const Problem& problem, std::int64_t floats_per_token) {
  return problem.total_tokens() * floats_per_token * static_cast<std::int64_t>(sizeof(float));
}

class Records final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/records",
        .operation = gated_delta_verify_operation(),
        .honours = recurrence_options() + recurrence_variants(),
        .backend = "hip",
        .form = "records",
        .summary =
            "keeps what each draft token did to the state and replays it at commit, the state "
            "in registers; bound by state traffic",
        .resources = "gfx906",
        .rank = 20,
        .examples = {
            "gated_delta_verify:heads=1/2,dim=64,seq=4+3,h0=normal,dtype=f32",
            "gated_delta_verify:heads=1/2,dim=128x48,seq=5+0+2,h0=normal,dtype=f16,norm=1,"
            "slots=padding",
            "gated_delta_verify:heads=1/2,dim=132x20,seq=3+4,h0=normal,dtype=bf16,layout=vk",
            "gated_delta_verify:heads=1/2,dim=16x24,seq=5+2+3,h0=normal,dtype=bf16,steps=2,"
            "decay=channel"}};
    return description;
  }

  Support supports(const Problem& problem) const override { return Recurrent::rows_fit(problem); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    const RecordFloats floats(problem);
    return bytes_of(problem, floats.keys + floats.updates + floats.decays);
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    DraftParams params = make_draft_params(problem, arguments);
    const RecordFloats floats(problem);
    std::vector<DeviceBuffer> workspaces;
    const auto place_of = [&](std::int64_t floats_per_token) {
      workspaces.push_back(device.allocate(bytes_of(problem, floats_per_token)));
      return workspaces.back().as<float>();
    };
    params.keys = place_of(floats.keys);
    params.updates = place_of(floats.updates);
    params.decays = place_of(floats.decays);

    const bool variants =
        problem.steps > 1 || params.decay_per_channel != 0 || params.additive != 0;
    const Recurrent::Launch launch = Recurrent::launch_of(
        variants ? Recurrent::dpp_version() : Recurrent::columns_version(), problem, params.delta);
    const std::string form = "_" + launch.version.name + "_" + std::to_string(launch.rows);
    const auto enqueue = [params, launch](const std::string& kernel) {
      return [params, launch, kernel](KernelLauncher& launcher) {
        launcher.launch(kernel, launch.grid, launch.block, &params, sizeof(params));
      };
    };
    std::vector<LaunchPlan::Enqueue> phases = {
        enqueue("verify" + form + "_" + kernel_suffix(problem.token_dtype)),
        enqueue("commit" + form)};
    PlanInfo info;
    info.launches = 2;
    if (!problem.final_state) {
      phases[static_cast<int>(DraftPhase::commit)] = [](KernelLauncher&) {};
      info.launches = 1;
    }
    info.choice =
        "keeps=records columns_per_wave=" + std::to_string(launch.version.columns_per_wave);
    return std::make_unique<LaunchPlan>(device, info, std::move(workspaces), std::move(phases));
  }

 private:
  static DraftParams make_draft_params(const Problem& problem, const Arguments& arguments) {
    DraftParams d{};
    d.delta = make_params(problem, arguments);
    d.accepted = gated_delta_verify_arguments(problem, arguments).accepted;
    d.num_key_heads = static_cast<std::int32_t>(problem.num_key_heads);
    d.value_heads_per_key_head = static_cast<std::int32_t>(problem.value_heads_per_key_head());
    d.steps = static_cast<std::int32_t>(problem.steps);
    d.decay_per_channel = problem.decay == DecayPer::channel ? 1 : 0;
    d.additive = problem.update == UpdateRule::additive ? 1 : 0;
    return d;
  }
};

}  // namespace

const Implementation& gated_delta_verify_records() {
  static const Records implementation;
  return implementation;
}

}  // namespace gdn::hip
