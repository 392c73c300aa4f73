#include "cpu/gated_delta/headwise.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "cpu/parallel.h"
#include "interface/error.h"

namespace gdn::cpu {
namespace {

int workers_for(const Problem& problem) {
  return static_cast<int>(
      std::min<std::int64_t>(thread_count(), problem.num_sequences() * problem.num_value_heads));
}

// The form's workspace, and the state between the parts of a sequence behind it.
std::int64_t worker_floats(const HeadwiseForm& form, const Problem& problem) {
  const std::int64_t between =
      problem.checkpoints > 0 ? problem.key_head_dim * problem.value_head_dim : 0;
  return in_lines(form.workspace_floats(problem, form.chunk(problem))) + in_lines(between);
}

class HeadwisePlan final : public Plan {
 public:
  HeadwisePlan(const HeadwiseForm& form, const Problem& problem,
               const GatedDeltaArguments& arguments, Device& device)
      : operands_(problem, arguments), workers_(workers_for(problem)) {
    const InstructionSet set = instruction_set();
    head_function_ = form.head_function(set, problem);
    info_.chunk = form.chunk(problem);
    form_floats_ = in_lines(form.workspace_floats(problem, info_.chunk));
    worker_floats_ = worker_floats(form, problem);
    info_.workspace_bytes = worker_floats_ * workers_ * static_cast<std::int64_t>(sizeof(float));
    info_.launches = 1;
    info_.choice = "isa=" + to_string(set) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    body_ = [this](std::int64_t item, int worker) { run_head(item, worker); };
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    const Problem& problem = operands_.problem();
    parallel_for(problem.num_sequences() * problem.num_value_heads, workers_, body_);
  }

 private:
  void run_head(std::int64_t item, int worker) const {
    const Problem& problem = operands_.problem();
    const std::int64_t sequence = item / problem.num_value_heads;
    const HeadTask task = operands_.locate(sequence, item % problem.num_value_heads);
    const bool has_states = task.num_tokens > 0 && task.slot >= 0;
    for (std::int64_t j = 0; j < problem.checkpoints; ++j) {
      if (!has_states || operands_.checkpoint_tokens(sequence, j) == 0)
        operands_.store_checkpoint(sequence, j, task.value_head, nullptr);
    }
    if (task.num_tokens == 0) return;  // its pool row stays bit-identical
    if (task.slot < 0) return operands_.store_zero_outputs(task);
    run_parts(sequence, task, workspace_.as<float>() + worker * worker_floats_);
  }

  // From checkpoint to checkpoint, and to the end.
  void run_parts(std::int64_t sequence, const HeadTask& whole, float* workspace) const {
    float* const between = workspace + form_floats_;
    const std::int64_t checkpoints = operands_.problem().checkpoints;
    HeadTask part = whole;
    std::int64_t done = 0;
    const auto run_to = [&](std::int64_t end, float* state_after) {
      part.first_token = whole.first_token + done;
      part.num_tokens = end - done;
      part.state_before = done > 0 ? between : nullptr;
      part.state_after = state_after;
      head_function_(operands_, part, info_.chunk, workspace);
      done = end;
    };
    for (std::int64_t j = 0; j < checkpoints; ++j) {
      const std::int64_t count = operands_.checkpoint_tokens(sequence, j);
      if (count == 0) continue;
      run_to(count, between);
      operands_.store_checkpoint(sequence, j, whole.value_head, between);
    }
    if (done < whole.num_tokens) return run_to(whole.num_tokens, nullptr);
    part.state_after = nullptr;
    operands_.store_state(part, between);
  }

  HeadFunction head_function_ = nullptr;
  GatedDeltaOperands operands_;
  int workers_;
  std::int64_t form_floats_ = 0;
  std::int64_t worker_floats_ = 0;
  PlanInfo info_;
  DeviceBuffer workspace_;
  std::function<void(std::int64_t, int)> body_;  // made once: run() allocates nothing
};

}  // namespace

Support HeadwiseImplementation::supports(const Problem& problem) const {
  return form_.supports(problem);
}

std::int64_t HeadwiseImplementation::workspace_bytes(const Problem& problem) const {
  return worker_floats(form_, problem) * workers_for(problem) *
         static_cast<std::int64_t>(sizeof(float));
}

std::unique_ptr<Plan> HeadwiseImplementation::plan(const Problem& problem,
                                                   const Arguments& arguments,
                                                   Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  return std::make_unique<HeadwisePlan>(form_, problem, gated_delta_arguments(problem, arguments),
                                        device);
}

}  // namespace gdn::cpu
