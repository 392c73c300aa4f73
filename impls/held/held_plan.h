// A plan on tensors as their owners hold them: with any strides, in other element types than the
// operands', the tokens of a batch in several dimensions ([B, L] for T), pools with a number of rows of
// their own (docs/contract.md, section 8).
//
// What an implementation takes as it is goes to it as it is: dense arrays, tokens further apart than they
// are long where the operand takes a token stride, a state pool's rows likewise, indices of either type
// with any stride, and gates in any form (HeldForm) where it reads those. Anything else is
// converted on the device, by one launch before a run and one behind it, from and to arrays in the plan's
// workspace. PlanInfo::conversions names each. Never converted is what would lose bits: an input whose
// values the operand's type does not hold, or a state that is updated in place in a wider type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interface/implementation.h"
#include "interface/phase_group.h"
#include "interface/storage_type.h"

namespace gdn {

struct HeldTensor {
  std::string operand;
  const void* read = nullptr;  ///< as ArrayPointer's
  void* written = nullptr;
  std::optional<StorageType> type = {};  ///< without one: the operand's own
  /// The operand's, or more of them: neighbours that multiply to one of the operand's. Empty: the
  /// operand's. Of a pool the first may be any number of rows.
  std::vector<std::int64_t> extents = {};
  std::vector<std::int64_t> strides = {};  ///< elements, one a dimension; empty: dense
};

enum class Conversions {
  allowed,
  refused,  ///< Error(unsupported) names the first that would be needed
};

/// The problem with what only its tensors say: the rows of pools, and how far apart they are. Throws
/// Error(bad_input) naming the tensor whose shape is not the operand's.
Problem fitted_to(const std::vector<HeldTensor>& tensors, const Problem& problem);

/// `problem` as fitted_to() gives it. Throws what Implementation::plan() does, and Error(bad_input) where
/// a conversion would lose bits.
std::unique_ptr<Plan> plan_on_held(const Implementation& implementation, const Problem& problem,
                                   const std::vector<HeldTensor>& tensors, Device& device,
                                   Conversions conversions = Conversions::allowed);

/// group_phase() of plans that plan_on_held() made: what the phase reads and writes is converted around it,
/// of all plans together.
std::unique_ptr<PhaseGroup> group_held(const Implementation& implementation,
                                       std::span<const PlannedProblem> plans, int phase,
                                       Device& device);

}  // namespace gdn
