#include "cuda/gated_delta_verify/drafts.h"

#include <vector>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "interface/operations/gated_delta_verify.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

CommitCall commit_call(const Draft& draft) {
  const GatedDeltaParams& p = draft.params;
  const auto element_bytes = static_cast<std::int64_t>(size_of(p.pool.dtype));
  return {.sequence_offsets = p.sequence_offsets,
          .slot_index = p.slot_index,
          .accepted = draft.accepted,
          .pool = p.pool.data,
          .pool_row_bytes = p.pool.row_stride * element_bytes,
          .kept = draft.kept};
}

class DraftPlan final : public LaunchPlan {
 public:
  DraftPlan(Device& device, PlanInfo info, std::vector<DeviceBuffer> workspaces,
            std::vector<Enqueue> phases, const DraftForm& form, const Draft& draft)
      : LaunchPlan(device, std::move(info), std::move(workspaces), std::move(phases)),
        form_(form),
        problem_(draft.problem),
        draft_{problem_, draft.params, draft.accepted, draft.kept} {}

  std::unique_ptr<PhaseGroup> group(std::span<Plan* const> plans, int phase,
                                    Device& device) const override {
    const bool commits = phase == static_cast<int>(DraftPhase::commit) && problem_.final_state &&
                         problem_.num_sequences() > 0;
    if (!commits) return nullptr;
    std::vector<CommitCall> calls;
    for (const Plan* const plan : plans) {
      const auto* const other = dynamic_cast<const DraftPlan*>(plan);
      if (other == nullptr || &other->form_ != &form_) return nullptr;
      calls.push_back(commit_call(other->draft_));
    }
    DeviceBuffer there = on_device(calls, device);
    auto enqueue =
        form_.commits(draft_, there.as<CommitCall>(), static_cast<std::int64_t>(calls.size()));
    return std::make_unique<LaunchGroup>(device, std::move(there), std::move(enqueue));
  }

 private:
  const DraftForm& form_;  ///< of an implementation, which outlives its plans
  Problem problem_;
  Draft draft_;
};

}  // namespace

std::vector<std::string> tile_draft_examples() {
  return {"gated_delta_verify:heads=2/4,dim=128,seq=4+3+1,h0=normal,dtype=bf16",
          "gated_delta_verify:heads=2/"
          "4,dim=128,seq=4+3,h0=normal,dtype=bf16,state=bf16,layout=vk",
          "gated_delta_verify:heads=1/3,dim=96x80,seq=7+1+0+4+5,h0=normal,dtype=f32,"
          "state=bf16,layout=vk,slots=permuted,gate=logits,norm=1",
          "gated_delta_verify:heads=2/2,dim=64,seq=3+2+4,h0=normal,dtype=f16,steps=2,"
          "decay=channel,layout=vk",
          "gated_delta_verify:heads=1/2,dim=192x136,seq=2+1+9,h0=normal,dtype=bf16,"
          "slots=padding,pool_pad=16,norm=1,gate=logits,beta=logit",
          "gated_delta_verify:heads=1/2,dim=256x72,seq=2+5,h0=normal,dtype=f32,state=f16,"
          "norm=1,decay=channel",
          "gated_delta_verify:heads=2/6,dim=96x24,seq=3x3,dtype=f16,update=additive,"
          "steps=2"};
}

DraftImplementation::DraftImplementation(const DraftForm& form)
    : form_(form),
      description_({.name = form.name,
                    .operation = gated_delta_verify_operation(),
                    .honours = form.honours,
                    .gates_in_any_form = true,
                    .backend = "cuda",
                    .form = form.form,
                    .summary = form.summary,
                    .resources = "",
                    .min_compute_capability = 80,
                    .rank = form.rank,
                    .aligned = tile_alignment(),
                    .examples = form.examples}) {}

std::unique_ptr<Plan> DraftImplementation::plan(const Problem& problem, const Arguments& arguments,
                                                Device& device) const {
  require_runnable(*this, problem, device);
  const GatedDeltaParams params = make_params(problem, arguments);
  require_tile_alignment(params, problem);
  std::vector<DeviceBuffer> workspaces;
  workspaces.push_back(device.allocate(form_.kept_bytes(problem)));

  PlanInfo info;
  info.choice = "keeps=" + form_.keeps;
  std::vector<LaunchPlan::Enqueue> phases(2, [](cudaStream_t) {});
  const Draft draft = {problem, params, gated_delta_verify_arguments(problem, arguments).accepted,
                       workspaces[0].as<char>()};
  if (problem.num_sequences() > 0) {
    DraftLaunches launches = form_.launches(draft);
    info.launches = problem.final_state ? 2 : 1;
    if (launches.chunk > 0) info.choice += " chunk=" + std::to_string(launches.chunk);
    info.choice += " values=" + std::to_string(launches.block_values) +
                   " threads=" + std::to_string(launches.threads);
    phases[static_cast<int>(DraftPhase::verify)] = std::move(launches.verify);
    if (problem.final_state) {
      phases[static_cast<int>(DraftPhase::commit)] = std::move(launches.commit);
    }
  }
  return std::make_unique<DraftPlan>(device, info, std::move(workspaces), std::move(phases), form_,
                                     draft);
}

}  // namespace gdn::GDN_CUDA_TARGET
