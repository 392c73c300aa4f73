#include "cpu/gated_delta/headwise.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "cpu/parallel.h"
#include "interface/error.h"

namespace gdn::cpu {
namespace {

constexpr std::int64_t kFloatsPerLine = 16;  // 64 bytes

int workers_for(const Problem& problem) {
  return static_cast<int>(
      std::min<std::int64_t>(thread_count(), problem.num_sequences() * problem.num_value_heads));
}

class HeadwisePlan final : public Plan {
 public:
  HeadwisePlan(const HeadwiseForm& form, const Problem& problem,
               const GatedDeltaArguments& arguments, Device& device)
      : operands_(problem, arguments), workers_(workers_for(problem)) {
    const InstructionSet set = instruction_set();
    head_function_ = form.head_function(set, problem);
    info_.chunk = form.chunk(problem);
    // Each worker's part starts on its own cache line.
    const std::int64_t floats = form.workspace_floats(problem, info_.chunk);
    worker_floats_ = (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
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
    const std::int64_t heads = operands_.problem().num_value_heads;
    const HeadTask task = operands_.locate(item / heads, item % heads);
    if (task.num_tokens == 0) return;  // its pool row stays bit-identical
    if (task.slot < 0) {
      operands_.store_zero_outputs(task);
    } else {
      head_function_(operands_, task, info_.chunk,
                     workspace_.as<float>() + worker * worker_floats_);
    }
  }

  HeadFunction head_function_ = nullptr;
  GatedDeltaOperands operands_;
  int workers_;
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
  const std::int64_t floats = form_.workspace_floats(problem, form_.chunk(problem));
  return (floats + kFloatsPerLine) * workers_for(problem) *
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
