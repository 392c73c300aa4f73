#include "composed/training_implementation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/gated_delta_training.h"

namespace gdn {
namespace {

HonouredFields honoured_by_both(const HonouredFields& a, const HonouredFields& b) {
  HonouredFields both;
  std::copy_if(a.begin(), a.end(), std::back_inserter(both), [&](const std::string& field) {
    return std::find(b.begin(), b.end(), field) != b.end();
  });
  return both;
}

Alignment aligned_for_both(const Alignment& a, const Alignment& b) {
  Alignment both{{}, std::max(a.bytes, b.bytes)};
  for (const Alignment* alignment : {&a, &b}) {
    for (const std::string& name : alignment->operands) {
      const bool is_new =
          std::find(both.operands.begin(), both.operands.end(), name) == both.operands.end();
      const bool is_operand = gated_delta_training_operation().find(name) != nullptr;
      if (is_new && is_operand) both.operands.push_back(name);
    }
  }
  return both;
}

std::string words_of_both(const std::string& a, const std::string& b, const char* between) {
  return a == b || b.empty() ? a : a.empty() ? b : a + between + b;
}

Support member_supports(const Implementation& member, const Problem& problem) {
  Support support = description_support(member.description(), problem);
  if (support) support = member.supports(problem);
  if (!support) support.reason = to_string(problem.operation) + ": " + support.reason;
  return support;
}

// Of every row that a sequence owns, what the sequence begins with, in the final state's pool.
StridedCopy beginnings(const Problem& problem, const Arguments& given) {
  const Operand& state = problem.operation->at("final_state");
  StridedCopy copy;
  copy.to = given.output("final_state");
  copy.to_type = copy.from_type = own_type(state, problem);
  copy.rank = 2;
  copy.extents = {problem.num_sequences(), row_elements(state, problem)};
  copy.to_strides = {row_stride(state, problem), 1};
  copy.rows = given.indices("slot_index");
  if (is_read(problem.operation->at("initial_state"), problem)) {
    copy.from = given.input("initial_state");
    copy.from_strides = copy.to_strides;
  } else {
    // The first offset is 0, whose bits are zero of every type: an element for all.
    copy.from = given.input("sequence_offsets");
  }
  return copy;
}

class TrainingPlan final : public Plan {
 public:
  TrainingPlan(const TrainingMembers& members, const Problem& problem, const Arguments& given,
               Device& device)
      : device_(device) {
    Arguments of_forward = given.shared_with(gated_delta_operation());
    if (problem.final_state) {
      copies_.push_back(beginnings(problem, given));
      of_forward.set_in_place("initial_state", given.output("final_state"));
    }
    forward_ = members.forward.plan(forward_of(problem), of_forward, device);
    backward_ = members.backward.plan(backward_of(problem),
                                      given.shared_with(gated_delta_backward_operation()), device);
    const PlanInfo& first = forward_->info();
    const PlanInfo& second = backward_->info();
    info_.chunk = second.chunk;  // most of the work is the gradients'
    info_.workspace_bytes = first.workspace_bytes + second.workspace_bytes;
    info_.launches = static_cast<int>(copies_.size()) + first.launches + second.launches;
    info_.choice = members.forward.description().name + ": " + first.choice + "; " +
                   members.backward.description().name + ": " + second.choice;
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    device_.enqueue_copies(copies_, device_.native_stream());
    forward_->run();
    backward_->run();
  }

 private:
  Device& device_;
  std::vector<StridedCopy> copies_;
  std::unique_ptr<Plan> forward_, backward_;
  PlanInfo info_;
};

}  // namespace

TrainingImplementation::TrainingImplementation(TrainingMembers members)
    : members_(std::move(members)), description_(members_.backward.description()) {
  const Description& forward = members_.forward.description();
  const Description backward = description_;
  description_.operation = gated_delta_training_operation();
  if (!members_.name.empty()) description_.name = members_.name;
  description_.honours = honoured_by_both(backward.honours, forward.honours);
  description_.gates_in_any_form = backward.gates_in_any_form && forward.gates_in_any_form;
  description_.summary = "gated_delta " + forward.name + ", then gated_delta_backward " +
                         backward.name + ", which computes the states again";
  description_.resources = words_of_both(forward.resources, backward.resources, "; ");
  description_.min_compute_capability =
      std::max(forward.min_compute_capability, backward.min_compute_capability);
  description_.exact_compute_capability =
      std::max(forward.exact_compute_capability, backward.exact_compute_capability);
  description_.bitwise_repeatable = forward.bitwise_repeatable && backward.bitwise_repeatable;
  description_.batch_invariant = forward.batch_invariant && backward.batch_invariant;
  description_.aligned = aligned_for_both(forward.aligned, backward.aligned);
  description_.examples = members_.examples;
}

int TrainingImplementation::rank(const Problem& problem) const {
  return members_.backward.rank(backward_of(problem)) - (members_.name.empty() ? 0 : 1);
}

Support TrainingImplementation::supports(const Problem& problem) const {
  const Support forward = member_supports(members_.forward, forward_of(problem));
  return forward ? member_supports(members_.backward, backward_of(problem)) : forward;
}

std::int64_t TrainingImplementation::workspace_bytes(const Problem& problem) const {
  return members_.forward.workspace_bytes(forward_of(problem)) +
         members_.backward.workspace_bytes(backward_of(problem));
}

std::unique_ptr<Plan> TrainingImplementation::plan(const Problem& problem,
                                                   const Arguments& arguments,
                                                   Device& device) const {
  require_supported(*this, problem);
  if (const Support support = runs_on(*this, device.info()); !support) {
    throw Error(ErrorKind::device_unavailable, support.reason);
  }
  require_operands(problem, arguments);
  return std::make_unique<TrainingPlan>(members_, problem, arguments, device);
}

}  // namespace gdn
