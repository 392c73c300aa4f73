// What must hold between several runs of one implementation, beyond each being right on its own.
// Each check runs what it needs and returns what is wrong, in one line; empty when nothing is.
//
//   permuted      the sequences in other rows of the state pool give the same bits
//   refilled      the device buffers, offsets and slots included, refilled in place between two runs
//                 of one plan: the first sequence behind the others, NaN behind the last token, which must
//                 stay unread, and outputs there unwritten
//   replay        the same through a graph captured with the first contents
//   streams       two plans on two streams at once, each as if alone
//   isolation     NaN in every second sequence's tokens, gates and states changes no bit of the
//                 others
//   strided       every operand that takes a token stride handed over as a slice of a wider tensor,
//                 NaN between its tokens, gives the same bits
//   on_request    outputs that nobody must ask for, asked for, and the others beside them, are within
//                 the limits
//   phases        the phases of a call one by one give the bits of the whole; none writes what is a
//                 later one's, or reads what is not its own: for each phase, operands that only
//                 others read are NaN, and indices legal values that are wrong; so do those of two
//                 plans together
//   every_split   cut in two calls after 1, 2, .. 64 tokens: within the limits, widened by one more
//                 rounding of the state
//   token_by_token  as many calls as tokens: within the limits, widened by a rounding of the state
//                 per token it remembers, independent ones
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/run/batches.h"
#include "harness/verify/verify.h"

namespace gdn {

/// A case and the outputs of one run of it.
struct CaseWithOutputs {
  Case inputs;
  Outputs outputs;
};

/// What the checks start from: a case, its reference, and the outputs of one run of it.
struct VerifiedRun {
  const Implementation& implementation;
  const CheckedReference& reference;
  const Outputs& outputs;
  Device& device;
  /// with_other_lengths(): what several checks refill a plan with. Made when first asked for.
  const CaseWithOutputs& other_lengths() const;

  mutable std::optional<CaseWithOutputs> made_other_lengths = std::nullopt;
};

/// Why a check does not apply to a run; nullopt if it does.
using NotApplicable = std::optional<std::string>;

struct InvarianceCheck {
  std::string name;
  bool VerifyOptions::*wanted;
  NotApplicable (*not_applicable)(const VerifiedRun& run);
  std::string (*wrong)(const VerifiedRun& run);
};
const std::vector<InvarianceCheck>& invariance_checks();

/// Two calls joined by the state, against the reference of the whole.
std::string continuation_wrong(const Implementation& implementation,
                               const CheckedReference& reference, const CutAt& cut, Device& device);

}  // namespace gdn
