#include "held/held_plan.h"

#include <algorithm>
#include <utility>

#include "held/conversion.h"
#include "interface/error.h"

namespace gdn {
namespace {

/// Whether addresses and the distance of tokens are what the implementation asks for.
bool is_aligned(const ArrayPointer& pointer, const LaidTensor& laid, const Alignment& asked) {
  const auto& names = asked.operands;
  if (std::find(names.begin(), names.end(), laid.operand->name) == names.end()) return true;
  const auto is_multiple = [&](std::uintptr_t bytes) {
    return bytes % static_cast<std::uintptr_t>(asked.bytes) == 0;
  };
  return is_multiple(reinterpret_cast<std::uintptr_t>(pointer.read)) &&
         is_multiple(reinterpret_cast<std::uintptr_t>(pointer.written)) &&
         is_multiple(static_cast<std::uintptr_t>(pointer.token_stride * size_of(laid.type)));
}

/// The problem with the gap that the tensors leave behind the rows of pools; as it is where they leave
/// none, or several, or it says one already.
Problem with_row_padding(const Problem& problem, const std::vector<HeldTensor>& tensors) {
  Problem padded = problem;
  if (!problem.operation->has_field("pool_pad") || problem.pool_row_padding != 0) return problem;
  for (const HeldTensor& tensor : tensors) {
    const Operand* const found = present_operand(tensor, problem);
    if (found == nullptr || found->pool.row_padding == nullptr || tensor.strides.empty()) continue;
    const Operand& operand = *found;
    const auto own = extents(operand, problem);
    const auto strides = held_shape(tensor, operand, problem).merged_strides(own.size());
    if (!strides || own[0] <= 1) continue;
    const std::int64_t gap = (*strides)[0] - row_elements(operand, problem);
    if (gap <= 0) continue;
    Problem with_gap = problem;
    with_gap.pool_row_padding = gap;
    // Where the rows themselves are dense: elsewhere the gap is none of the implementation's.
    if (as_dense_pointer(lay(tensor, with_gap), with_gap)) padded = with_gap;
  }
  return padded;
}

/// Copies around what a plan enqueues.
struct Copies {
  std::vector<StridedCopy> in, out;

  template <typename Body>
  void around(Device& device, const Body& body) const {
    device.enqueue_copies(in, device.native_stream());
    body();
    device.enqueue_copies(out, device.native_stream());
  }
  int launches() const { return !in.empty() + !out.empty(); }
};

class HeldPlan final : public Plan {
 public:
  HeldPlan(std::vector<Conversion> conversions, std::unique_ptr<Plan> inner, std::string words,
           const OperationSchema& schema, Device& device)
      : conversions_(std::move(conversions)),
        inner_(std::move(inner)),
        schema_(schema),
        device_(device),
        info_(inner_->info()) {
    info_.conversions = std::move(words);
    for (const Conversion& conversion : conversions_) info_.conversion_bytes += conversion.bytes();
    info_.workspace_bytes += info_.conversion_bytes;
    every_ = copies_of([](const Operand&) { return true; }, [](const Operand&) { return true; });
    info_.launches += every_.launches();
    for (const Phase& phase : schema_.phases) {
      const auto named = [](const std::vector<std::string>& names) {
        return [&names](const Operand& operand) {
          return std::find(names.begin(), names.end(), operand.name) != names.end();
        };
      };
      by_phase_.push_back(copies_of(named(phase.reads), named(phase.writes)));
    }
  }

  const PlanInfo& info() const override { return info_; }
  void run() override {
    every_.around(device_, [&] { inner_->run(); });
  }
  void run_phase(int phase) override {
    if (phase < 0 || phase >= static_cast<int>(by_phase_.size())) return inner_->run_phase(phase);
    copies_of_phase(phase).around(device_, [&] { inner_->run_phase(phase); });
  }

  Plan& inner() const { return *inner_; }
  const Copies& copies_of_phase(int phase) const {
    return by_phase_[static_cast<std::size_t>(phase)];
  }

 private:
  template <typename IsRead, typename IsWritten>
  Copies copies_of(const IsRead& is_read, const IsWritten& is_written) const {
    Copies copies;
    for (const Conversion& conversion : conversions_) {
      const bool writes = is_written(conversion.operand());
      if (is_read(conversion.operand()) || writes) {
        copies.in.insert(copies.in.end(), conversion.in().begin(), conversion.in().end());
      }
      if (writes) {
        copies.out.insert(copies.out.end(), conversion.out().begin(), conversion.out().end());
      }
    }
    return copies;
  }

  std::vector<Conversion> conversions_;
  std::unique_ptr<Plan> inner_;
  const OperationSchema& schema_;
  Device& device_;
  PlanInfo info_;
  Copies every_;
  std::vector<Copies> by_phase_;
};

class HeldGroup final : public PhaseGroup {
 public:
  HeldGroup(Copies copies, std::unique_ptr<PhaseGroup> inner, Device& device)
      : copies_(std::move(copies)),
        inner_(std::move(inner)),
        device_(device),
        info_(inner_->info()) {
    if (info_.launches != 0) info_.launches += copies_.launches();
  }
  const Info& info() const override { return info_; }
  void run() override {
    copies_.around(device_, [&] { inner_->run(); });
  }

 private:
  Copies copies_;
  std::unique_ptr<PhaseGroup> inner_;
  Device& device_;
  Info info_;
};

}  // namespace

Problem fitted_to(const std::vector<HeldTensor>& tensors, const Problem& problem) {
  Problem fitted = problem;
  std::int64_t rows = 0;
  for (const HeldTensor& tensor : tensors) {
    const Operand* const operand = present_operand(tensor, problem);
    if (operand == nullptr || tensor.extents.empty()) continue;
    if (cut_of(*operand, problem) != Cut::pool_rows) continue;
    held_shape(tensor, *operand, problem);
    rows = rows == 0 ? tensor.extents.front() : std::min(rows, tensor.extents.front());
  }
  if (rows == 0 || problem.pool_rows != 0) return problem;
  fitted.set_pool_rows(rows);
  fitted.validate();
  return fitted;
}

std::unique_ptr<Plan> plan_on_held(const Implementation& implementation, const Problem& problem,
                                   const std::vector<HeldTensor>& tensors, Device& device,
                                   Conversions allowed) {
  Problem planned = with_row_padding(problem, tensors);
  if (!implementation.supports(planned)) planned = problem;
  std::vector<LaidTensor> all;
  Arguments arguments;
  for (const HeldTensor& tensor : tensors) {
    if (present_operand(tensor, planned) != nullptr) {
      all.push_back(lay(tensor, planned));
    } else {  // what require_operands() has the words for
      arguments.set(tensor.operand, {tensor.read, tensor.written, 0});
    }
  }
  const BatchIndices indices = batch_indices(all, planned);

  std::vector<Conversion> conversions;
  std::string words;
  for (const LaidTensor& laid : all) {
    const Description& takes = implementation.description();
    const auto pointer = as_pointer(laid, planned, takes);
    if (pointer && is_aligned(*pointer, laid, takes.aligned)) {
      arguments.set(laid.operand->name, *pointer);
      continue;
    }
    if (allowed == Conversions::refused) {
      throw Error(ErrorKind::unsupported, implementation.description().name + ": would convert " +
                                              words_of(laid) + "; expected a dense " +
                                              short_name(laid.own) + " array");
    }
    conversions.emplace_back(laid, planned, indices, device);
    arguments.set(laid.operand->name, conversions.back().pointer());
    words += (words.empty() ? "" : "; ") + words_of(laid);
  }
  std::unique_ptr<Plan> inner = implementation.plan(planned, arguments, device);
  if (conversions.empty()) return inner;
  return std::make_unique<HeldPlan>(std::move(conversions), std::move(inner), std::move(words),
                                    *planned.operation, device);
}

std::unique_ptr<PhaseGroup> group_held(const Implementation& implementation,
                                       std::span<const PlannedProblem> plans, int phase,
                                       Device& device) {
  std::vector<PlannedProblem> inner(plans.begin(), plans.end());
  std::vector<const HeldPlan*> held;
  for (PlannedProblem& planned : inner) {
    const auto* const converts = dynamic_cast<const HeldPlan*>(planned.plan);
    if (converts == nullptr) continue;
    held.push_back(converts);
    planned.plan = &converts->inner();
  }
  std::unique_ptr<PhaseGroup> group = group_phase(implementation, inner, phase, device);
  Copies copies;
  for (const HeldPlan* const plan : held) {
    const Copies& more = plan->copies_of_phase(phase);
    copies.in.insert(copies.in.end(), more.in.begin(), more.in.end());
    copies.out.insert(copies.out.end(), more.out.begin(), more.out.end());
  }
  if (copies.in.empty() && copies.out.empty()) return group;
  return std::make_unique<HeldGroup>(std::move(copies), std::move(group), device);
}

}  // namespace gdn
