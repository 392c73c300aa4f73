#include "cpu/gated_delta_verify/drafts.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cpu/instruction_set.h"
#include "cpu/parallel.h"
#include "interface/error.h"
#include "interface/operations/gated_delta_verify.h"

namespace gdn::cpu {
namespace {

constexpr std::int64_t kDraftFloatsPerLine = 16;  // 64 bytes

int draft_workers(const Problem& problem) {
  return static_cast<int>(
      std::min<std::int64_t>(thread_count(), problem.num_sequences() * problem.num_value_heads));
}

// Each worker's part starts on its own cache line.
std::int64_t draft_worker_floats(const Problem& problem) {
  return (draft_workspace_floats(problem) + kDraftFloatsPerLine - 1) / kDraftFloatsPerLine *
         kDraftFloatsPerLine;
}

std::int64_t all_draft_floats(const DraftForm& form, const Problem& problem) {
  return draft_worker_floats(problem) * draft_workers(problem) +
         problem.total_tokens() * problem.num_value_heads * form.kept_floats(problem);
}

class DraftPlan final : public Plan {
 public:
  DraftPlan(const DraftForm& form, const Problem& problem,
            const GatedDeltaVerifyArguments& arguments, Device& device)
      : form_(form),
        operands_(problem, arguments.draft),
        accepted_(arguments.accepted),
        workers_(draft_workers(problem)),
        worker_floats_(draft_worker_floats(problem)),
        kept_floats_(form.kept_floats(problem)) {
    info_.workspace_bytes =
        all_draft_floats(form, problem) * static_cast<std::int64_t>(sizeof(float));
    info_.launches = 2;
    info_.choice = "keeps=" + form.keeps + " isa=" + to_string(instruction_set()) +
                   " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(info_.workspace_bytes);
    verify_ = [this](std::int64_t item, int worker) { verify_head(item, worker); };
    commit_ = [this](std::int64_t item, int worker) { commit_head(item, worker); };
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    run_phase(static_cast<int>(DraftPhase::verify));
    run_phase(static_cast<int>(DraftPhase::commit));
  }

  void run_phase(int phase) override {
    const Problem& problem = operands_.problem();
    parallel_for(problem.num_sequences() * problem.num_value_heads, workers_,
                 phase == static_cast<int>(DraftPhase::verify) ? verify_ : commit_);
  }

 private:
  HeadTask locate(std::int64_t item) const {
    const std::int64_t heads = operands_.problem().num_value_heads;
    return operands_.locate(item / heads, item % heads);
  }
  float* worker_part(int worker) const { return workspace_.as<float>() + worker * worker_floats_; }
  // [T, Hv, kept_floats] behind the workers' parts.
  KeptTokens kept(const HeadTask& task) const {
    const std::int64_t heads = operands_.problem().num_value_heads;
    float* const all = worker_part(workers_);
    return {all + (task.first_token * heads + task.value_head) * kept_floats_,
            heads * kept_floats_};
  }

  void verify_head(std::int64_t item, int worker) const {
    const HeadTask task = locate(item);
    if (task.num_tokens == 0) return;
    if (task.slot < 0) {
      operands_.store_zero_outputs(task);
    } else {
      form_.verify(operands_, task, kept(task), worker_part(worker));
    }
  }

  void commit_head(std::int64_t item, int worker) const {
    const HeadTask task = locate(item);
    const std::int64_t accepted = accepted_[item / operands_.problem().num_value_heads];
    if (accepted == 0 || task.slot < 0) return;  // its pool row stays bit-identical
    form_.commit(operands_, task, accepted, kept(task), worker_part(worker));
  }

  const DraftForm& form_;
  GatedDeltaOperands operands_;
  IndexArray accepted_;
  int workers_;
  std::int64_t worker_floats_;
  std::int64_t kept_floats_;
  PlanInfo info_;
  DeviceBuffer workspace_;
  // Made once: a run allocates nothing.
  std::function<void(std::int64_t, int)> verify_;
  std::function<void(std::int64_t, int)> commit_;
};

}  // namespace

std::int64_t draft_workspace_floats(const Problem& problem) {
  const std::int64_t Dk = problem.key_head_dim, Dv = problem.value_head_dim;
  return Dk * Dv + 2 * Dk + 2 * Dv + problem.gates_per_head();
}

std::int64_t DraftImplementation::workspace_bytes(const Problem& problem) const {
  return all_draft_floats(form_, problem) * static_cast<std::int64_t>(sizeof(float));
}

std::unique_ptr<Plan> DraftImplementation::plan(const Problem& problem, const Arguments& arguments,
                                                Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  return std::make_unique<DraftPlan>(form_, problem,
                                     gated_delta_verify_arguments(problem, arguments), device);
}

}  // namespace gdn::cpu
