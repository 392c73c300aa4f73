#include "harness/run/execute.h"

#include <algorithm>
#include <utility>

#include "interface/error.h"

namespace gdn {

PlannedCase::PlannedCase(const Implementation& implementation, const Case& inputs, Device& device,
                         const DeviceCaseOptions& options)
    : problem_(inputs.problem), device_(device), guarded_(device) {
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

bool listed(const std::vector<std::string>& operands, const std::string& operand) {
  return std::find(operands.begin(), operands.end(), operand) != operands.end();
}

// Outputs that no phase up to this one writes.
std::vector<std::string> written_later(const OperationSchema& schema, std::size_t phase) {
  std::vector<std::string> operands;
  for (const Operand& operand : schema.operands) {
    const bool written =
        std::any_of(schema.phases.begin(), schema.phases.begin() + phase + 1,
                    [&](const Phase& before) { return listed(before.writes, operand.name); });
    if (!written) operands.push_back(operand.name);
  }
  return operands;
}

// What the phase has no use for: inputs that it does not read, be it that only others do, and what is
// updated in place up to the first phase that reads or writes it; from then on it may be a result.
std::vector<std::string> hidden_from(const OperationSchema& schema, std::size_t phase) {
  std::vector<std::string> operands;
  for (const Operand& operand : schema.operands) {
    const auto in_use = [&](const Phase& one) {
      return listed(one.reads, operand.name) || listed(one.writes, operand.name);
    };
    const auto at = schema.phases.begin() + phase;
    const bool used = operand.role == Role::in_place
                          ? std::any_of(schema.phases.begin(), at + 1, in_use)
                          : in_use(*at);
    if (!used) operands.push_back(operand.name);
  }
  return operands;
}

}  // namespace

Outputs PlannedCase::run_in_phases(const Case& inputs, HiddenIndices indices) {
  on_device_->refill(inputs);
  const OperationSchema& schema = *problem_.operation;
  for (std::size_t i = 0; i < schema.phases.size(); ++i) {
    const Phase& phase = schema.phases[i];
    on_device_->show(inputs, phase.reads);
    on_device_->show(inputs, phase.writes);
    on_device_->hide(inputs, hidden_from(schema, i), indices);
    guarded_.enqueue_only([&] { plan_->run_phase(static_cast<int>(i)); });
    device_.synchronize();
    guarded_.check_guards();
    const std::string early = on_device_->first_written(written_later(schema, i));
    if (!early.empty()) {
      throw Error(ErrorKind::device_failure,
                  "the phase '" + phase.name + "' wrote " + early + ", which is a later one's");
    }
    on_device_->check_guards();
  }
  return on_device_->download();
}

PlannedTogether::PlannedTogether(const Implementation& implementation,
                                 std::vector<PlannedCase*> cases)
    : cases_(std::move(cases)) {
  std::vector<PlannedProblem> plans;
  for (const PlannedCase* const one : cases_) plans.push_back({&one->problem_, one->plan_.get()});
  const auto phases = static_cast<int>(implementation.description().operation->phases.size());
  for (int phase = 0; phase < phases; ++phase) {
    groups_.push_back(group_phase(implementation, plans, phase, cases_.front()->guarded_));
  }
}

// All phases; what no run may do is found in the workspaces of every case.
void PlannedTogether::enqueue_only(std::size_t guards_of) {
  if (guards_of < cases_.size()) {
    cases_[guards_of]->guarded_.enqueue_only([&] { enqueue_only(guards_of + 1); });
    return;
  }
  for (const auto& group : groups_) group->run();
}

bool PlannedTogether::capture() {
  replay_ = cases_.front()->device_.capture([this] { enqueue_only(0); });
  return replay_ != nullptr;
}

std::vector<Outputs> PlannedTogether::run() {
  for (PlannedCase* const one : cases_) one->on_device_->reset_async();
  if (replay_ != nullptr) {
    replay_();
  } else {
    enqueue_only(0);
  }
  cases_.front()->device_.synchronize();
  std::vector<Outputs> outputs;
  for (PlannedCase* const one : cases_) {
    one->guarded_.check_guards();
    one->on_device_->check_guards();
    outputs.push_back(one->on_device_->download());
  }
  return outputs;
}

Outputs execute(const Implementation& implementation, const Case& inputs, Device& device,
                PlanInfo* plan_info) {
  PlannedCase planned(implementation, inputs, device);
  if (plan_info != nullptr) *plan_info = planned.info();
  return planned.run();
}

}  // namespace gdn
