// gated_delta_training out of an implementation of gated_delta and one of gated_delta_backward of the same
// backend, whatever they are: a plan of each, the one enqueued behind the other.
//
// gated_delta updates its pool in place, and here the initial state is only read. With ht=1 every row that
// a sequence owns is first made what the sequence begins with, in the final state's pool: a copy of its
// initial state, or zeros, which is what remains of a sequence without tokens. The forward call then runs
// there. It costs one write of the final states, and one read of the initial ones. With ht=0 the forward
// call reads the initial state where it is.
//
// Bound by its members. Nothing is handed from the one to the other: the gradients' implementation computes
// again what it needs of the states.
#pragma once

#include <string>
#include <vector>

#include "interface/implementation.h"

namespace gdn {

struct TrainingMembers {
  std::string name = {};  ///< empty: that of `backward`
  const Implementation& forward;
  /// It gives the step its form and its rank, less 1 where the step has a name of its own.
  const Implementation& backward;
  /// Description::examples.
  std::vector<std::string> examples;
};

class TrainingImplementation final : public Implementation {
 public:
  explicit TrainingImplementation(TrainingMembers members);

  const Description& description() const override { return description_; }
  /// The gradients'.
  int rank(const Problem& problem) const override;
  Support supports(const Problem& problem) const override;
  std::int64_t workspace_bytes(const Problem& problem) const override;
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override;

 private:
  TrainingMembers members_;
  Description description_;
};

}  // namespace gdn
