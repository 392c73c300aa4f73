// What the CPU forms of gated_delta_backward share: a form is a function that computes the gradients of one value
// head of one sequence from float32 operands; this runs it over all of them. Threads over (sequence, key head):
// d_q and d_k are summed over the value heads of a key head, in their order, and rounded once. Sums over the
// batch are made per sequence and then in the order of the sequences. So no number of threads changes a bit.
#pragma once

#include <cstdint>

#include "cpu/gated_delta_backward/operands.h"
#include "cpu/instruction_set.h"
#include "interface/implementation.h"

namespace gdn::cpu {

/// Computes d_v, d_beta, the gradients of the gates and of the initial state of a value head, and adds to
/// d_query and d_key [tokens, Dk] and to sums. `workspace` holds GradientForm::workspace_floats(problem, chunk)
/// floats, 64-byte aligned, contents undefined.
using GradientFunction = void (*)(const GatedDeltaBackwardOperands& operands, const HeadTask& task,
                                  std::int64_t chunk, float* workspace, float* d_query,
                                  float* d_key, GateSums& sums);

struct GradientForm {
  Description description;
  Support (*supports)(const Problem& problem);
  /// Tokens per chunk that a plan uses; 0 = not chunked.
  std::int64_t (*chunk)(const Problem& problem);
  std::int64_t (*workspace_floats)(const Problem& problem, std::int64_t chunk);
  /// The version for an instruction set; the same for all, where there is only one.
  GradientFunction (*function)(InstructionSet set);
};

class GradientImplementation final : public Implementation {
 public:
  explicit GradientImplementation(GradientForm form) : form_(std::move(form)) {}
  const Description& description() const override { return form_.description; }
  Support supports(const Problem& problem) const override { return form_.supports(problem); }
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  GradientForm form_;
};

}  // namespace gdn::cpu
