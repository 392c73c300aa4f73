// Verification of one implementation on one case (docs/contract.md, section 4): errors against the
// float64 reference per (sequence, value head), beside their rounding floors, and what must be
// equal bit by bit. Outputs and workspaces are NaN-filled before every run, guard bands and inputs
// checked after.
//
//   errors        output and final state within the limits of reference/errors.h; pool rows and
//                 padding that no sequence owns bit-identical; outputs of padding sequences zero
//   repeat        a second run, from a fresh plan, gives the same bits
//   alone         the shortest and the longest sequence of a batch, each run by itself, give the
//                 bits they gave in the batch
//   duplicates    a sequence twice in one batch, another between, gives the same bits twice
//   continuation  every sequence cut in two calls joined by the state: within the same limits,
//                 widened by the one more rounding of the state (docs/contract.md, section 4)
//
// then what an operation asks of its own outputs (OperationHarness::checks),
//
// and, where asked for, those of harness/verify/invariances.h: permuted, refilled, replay, streams,
// isolation, strided, on_request, phases, every_split, token_by_token.
//
// An implementation that declares itself not bitwise_repeatable is spared "repeat" and what builds
// on it; one that is not batch_invariant is spared "alone" and "duplicates". Checks that do not
// apply are listed as such, never counted as passed.
#pragma once

#include <string>
#include <vector>

#include "harness/run/execute.h"
#include "harness/verify/checked_reference.h"
#include "harness/verify/verify_options.h"
#include "interface/enum_names.h"

namespace gdn {

enum class Verdict {
  passed,
  failed,
  unsupported,  ///< the implementation does not do this problem; nothing was run
  too_large,    ///< the device, or the time given, does not do this problem; nothing was run
  known_limit,  ///< failed, as harness/verify/known_limits.h says it does
};
/// "passed", "known limit", ...
template <>
const EnumNames<Verdict>& names_of<Verdict>();

struct Check {
  enum class Result { passed, failed, not_applicable };
  std::string name;  ///< "errors", "repeat", ...
  Result result = Result::passed;
  std::string detail;  ///< why failed or not applicable; one line
};

/// "passed", "failed", "not applicable".
template <>
const EnumNames<Check::Result>& names_of<Check::Result>();

struct VerifyResult {
  Verdict verdict = Verdict::failed;
  std::string reason;  ///< one line; empty when passed
  reference::ErrorReport report;
  std::vector<Check> checks;
  Outputs outputs;  ///< of the run judged; empty if it threw

  bool passed() const { return verdict == Verdict::passed; }
};

/// Runs and judges. Failures of the device or of a guard band are a failed verdict, not an
/// exception. Throws Error(out_of_memory) before allocating, and Error(bad_input) for a bad case.
VerifyResult verify(const Implementation& implementation, const Case& inputs, Device& device,
                    const VerifyOptions& options = {});
VerifyResult verify(const Implementation& implementation, const CheckedReference& reference,
                    Device& device, const VerifyOptions& options = {});

/// Judges outputs made elsewhere: the "errors" check alone.
VerifyResult verify_outputs(const CheckedReference& reference, Outputs outputs);

}  // namespace gdn
