#include "cpu/gated_delta_backward/groupwise.h"

#include <algorithm>
#include <functional>
#include <string>

#include "cpu/parallel.h"
#include "interface/error.h"

namespace gdn::cpu {
namespace {

int group_workers(const Problem& p) {
  return static_cast<int>(
      std::min<std::int64_t>(thread_count(), p.num_sequences() * p.num_key_heads));
}

// A worker's part of the workspace: the form's, then d_q and d_k of a sequence, and a row of them.
std::int64_t group_floats(const GradientForm& form, const Problem& p) {
  return in_lines(form.workspace_floats(p, form.chunk(p))) +
         in_lines((2 * p.total_tokens() + 1) * p.key_head_dim);
}
std::int64_t gate_sums_bytes(const Problem& p) {
  return p.num_sequences() * p.num_value_heads * static_cast<std::int64_t>(sizeof(GateSums));
}
std::int64_t group_workspace_bytes(const GradientForm& form, const Problem& p) {
  return group_floats(form, p) * group_workers(p) * static_cast<std::int64_t>(sizeof(float));
}

class GradientPlan final : public Plan {
 public:
  GradientPlan(const GradientForm& form, const Problem& problem,
               const GatedDeltaBackwardArguments& arguments, Device& device)
      : operands_(problem, arguments), workers_(group_workers(problem)) {
    const InstructionSet set = instruction_set();
    function_ = form.function(set);
    info_.chunk = form.chunk(problem);
    form_floats_ = in_lines(form.workspace_floats(problem, info_.chunk));
    worker_floats_ = group_floats(form, problem);
    info_.workspace_bytes = group_workspace_bytes(form, problem) + gate_sums_bytes(problem);
    info_.launches = 1;
    info_.choice = "isa=" + to_string(set) + " threads=" + std::to_string(workers_);
    workspace_ = device.allocate(group_workspace_bytes(form, problem));
    sums_ = device.allocate(gate_sums_bytes(problem));
    body_ = [this](std::int64_t item, int worker) {
      const std::int64_t heads = operands_.problem().num_key_heads;
      run_group(item / heads, item % heads, workspace_.as<float>() + worker * worker_floats_);
    };
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    const Problem& p = operands_.problem();
    parallel_for(p.num_sequences() * p.num_key_heads, workers_, body_);
    operands_.store_sums(sums_.as<GateSums>());
  }

 private:
  void run_group(std::int64_t sequence, std::int64_t key_head, float* workspace) const {
    const Problem& p = operands_.problem();
    const std::int64_t group = p.value_heads_per_key_head();
    HeadTask task = operands_.forward().locate(sequence, key_head * group);
    float* const x = workspace + form_floats_;
    float* const d_query = x + p.key_head_dim;
    float* const d_key = d_query + task.num_tokens * p.key_head_dim;
    std::fill_n(d_query, 2 * task.num_tokens * p.key_head_dim, 0.0f);
    for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
      task.value_head = h;
      GateSums& sums = sums_.as<GateSums>()[sequence * p.num_value_heads + h];
      sums = {};
      if (task.slot < 0) {
        operands_.store_zeros(task);
      } else {
        function_(operands_, task, info_.chunk, workspace, d_query, d_key, sums);
      }
    }
    operands_.store_d_queries_and_keys(task, d_query, d_key, x);
  }

  GradientFunction function_ = nullptr;
  GatedDeltaBackwardOperands operands_;
  int workers_;
  std::int64_t form_floats_ = 0;
  std::int64_t worker_floats_ = 0;
  PlanInfo info_;
  DeviceBuffer workspace_;
  DeviceBuffer sums_;                            // [N, Hv] GateSums
  std::function<void(std::int64_t, int)> body_;  // made once: run() allocates nothing
};

}  // namespace

std::int64_t GradientImplementation::workspace_bytes(const Problem& problem) const {
  return group_workspace_bytes(form_, problem) + gate_sums_bytes(problem);
}

std::unique_ptr<Plan> GradientImplementation::plan(const Problem& problem,
                                                   const Arguments& arguments,
                                                   Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  return std::make_unique<GradientPlan>(form_, problem,
                                        gated_delta_backward_arguments(problem, arguments), device);
}

}  // namespace gdn::cpu
