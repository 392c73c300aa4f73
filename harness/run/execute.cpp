#include "harness/run/execute.h"

#include <algorithm>

#include "interface/error.h"

namespace gdn {

PlannedCase::PlannedCase(const Implementation& implementation, const Case& inputs, Device& device,
                         const DeviceCaseOptions& options)
    : operation_(inputs.problem.operation), device_(device), guarded_(device) {
  require_supported(implementation, inputs.problem);
  const Problem& p = inputs.problem;
  require_device_memory(p, implementation.workspace_bytes(p), device);
  on_device_ = std::make_unique<DeviceCase>(inputs, device, options);
  plan_ = implementation.plan(inputs.problem, on_device_->arguments(), guarded_);
}

bool PlannedCase::capture() {
  replay_ = device_.capture([this] { guarded_.enqueue_only([this] { plan_->run(); }); });
  return replay_ != nullptr;
}

Outputs PlannedCase::run(CheckInputs inputs) {
  on_device_->reset_async();
  if (replay_ != nullptr) {
    replay_();
  } else {
    guarded_.enqueue_only([this] { plan_->run(); });
  }
  device_.synchronize();
  guarded_.check_guards();
  on_device_->check_guards(inputs);
  return on_device_->download();
}

namespace {

bool names(const std::vector<std::string>& operands, const std::string& operand) {
  return std::find(operands.begin(), operands.end(), operand) != operands.end();
}

// Operands that `list` of none of these phases names.
std::vector<std::string> not_named(const OperationSchema& schema, std::size_t first,
                                   std::size_t last, std::vector<std::string> Phase::*list) {
  std::vector<std::string> operands;
  for (const Operand& operand : schema.operands) {
    bool named = false;
    for (std::size_t i = first; i < last; ++i) {
      named = named || names(schema.phases[i].*list, operand.name);
    }
    if (!named) operands.push_back(operand.name);
  }
  return operands;
}

}  // namespace

Outputs PlannedCase::run_in_phases() {
  const std::size_t phases = operation_->phases.size();
  on_device_->reset_async();
  for (std::size_t i = 0; i < phases; ++i) {
    guarded_.enqueue_only([&] { plan_->run_phase(static_cast<int>(i)); });
    device_.synchronize();
    guarded_.check_guards();
    const std::string early =
        on_device_->first_written(not_named(*operation_, 0, i + 1, &Phase::writes));
    if (!early.empty()) {
      throw Error(ErrorKind::device_failure, "the phase '" + operation_->phases[i].name +
                                                 "' wrote " + early + ", which is a later one's");
    }
    on_device_->check_guards(i == 0 ? CheckInputs::now : CheckInputs::later);
    on_device_->forget_async(not_named(*operation_, i + 1, phases, &Phase::reads));
  }
  return on_device_->download();
}

Outputs execute(const Implementation& implementation, const Case& inputs, Device& device,
                PlanInfo* plan_info) {
  PlannedCase planned(implementation, inputs, device);
  if (plan_info != nullptr) *plan_info = planned.info();
  return planned.run();
}

}  // namespace gdn
