// What the CPU forms of gated_delta share: a form is a function that computes one value head of one
// sequence from float32 operands; this runs it over all of them on the threads. Heads and sequences
// are independent, so nothing else is parallel: one sequence of one head uses one thread. A sequence with
// checkpoints is computed in parts, one after the other, with the state between them in float32.
#pragma once

#include <cstdint>

#include "cpu/gated_delta/operands.h"
#include "cpu/instruction_set.h"
#include "interface/implementation.h"

namespace gdn::cpu {

/// Computes a task whole: every output row and the state after its last token. `workspace` holds
/// HeadwiseForm::workspace_floats(problem, chunk) floats, 64-byte aligned, contents undefined.
using HeadFunction = void (*)(const GatedDeltaOperands& operands, const HeadTask& task,
                              std::int64_t chunk, float* workspace);

struct HeadwiseForm {
  Description description;
  Support (*supports)(const Problem& problem);
  /// Tokens per chunk that a plan uses; 0 = not chunked.
  std::int64_t (*chunk)(const Problem& problem);
  std::int64_t (*workspace_floats)(const Problem& problem, std::int64_t chunk);
  /// The version for an instruction set (the same for all, where there is only one) and a problem.
  HeadFunction (*head_function)(InstructionSet set, const Problem& problem);
};

class HeadwiseImplementation final : public Implementation {
 public:
  explicit HeadwiseImplementation(HeadwiseForm form) : form_(std::move(form)) {}
  const Description& description() const override { return form_.description; }
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  HeadwiseForm form_;
};

}  // namespace gdn::cpu
