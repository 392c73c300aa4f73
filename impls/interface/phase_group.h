// One phase of several plans, enqueued together: a model's layers, say, each with a plan of its own, whose
// drafts are accepted at once (docs/contract.md, section 1.6). Where an implementation has a kernel for it,
// one launch serves all of them; elsewhere they come in turn, which gives the same results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "interface/implementation.h"

namespace gdn {

/// Made once, run as often as wanted, on the plans' own arguments and workspaces: the plans outlive it, and
/// may be run by themselves between its runs. None of them writes what another one reads or writes.
class PhaseGroup {
 public:
  struct Info {
    /// Kernels enqueued for all plans together; 0: the plans enqueue their own, in turn.
    int launches = 0;
    std::int64_t workspace_bytes = 0;  ///< device memory of the group, beside that of its plans
  };

  virtual ~PhaseGroup() = default;
  virtual const Info& info() const = 0;
  /// Enqueues the phase of every plan, as Plan::run_phase() does: no allocation, no synchronisation, no
  /// host copies; it can be captured in a graph. In what order the plans come among themselves is open.
  virtual void run() = 0;
};

/// A plan, and the problem it was made for.
struct PlannedProblem {
  const Problem* problem = nullptr;
  Plan* plan = nullptr;
};

/// `phase` of plans of `implementation`, all made on `device`, whose stream they are enqueued on. Throws
/// Error(unsupported) where the operation has no phases, or the problems are not the same but for inputs,
/// lengths (as many sequences and tokens), and the rows of pools and what lies between them;
/// Error(bad_input) for no plan, one that is given twice, or a number that is no phase.
std::unique_ptr<PhaseGroup> group_phase(const Implementation& implementation,
                                        std::span<const PlannedProblem> plans, int phase,
                                        Device& device);

}  // namespace gdn
