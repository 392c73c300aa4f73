#include "harness/run/execute.h"

#include "interface/error.h"

namespace gdn {

PlannedCase::PlannedCase(const Implementation& implementation, const Case& inputs, Device& device,
                         const DeviceCaseOptions& options)
    : device_(device), guarded_(device) {
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

Outputs execute(const Implementation& implementation, const Case& inputs, Device& device,
                PlanInfo* plan_info) {
  PlannedCase planned(implementation, inputs, device);
  if (plan_info != nullptr) *plan_info = planned.info();
  return planned.run();
}

}  // namespace gdn
