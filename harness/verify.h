// Verification of one implementation on one case (contract section 4): errors against the float64
// reference per (sequence, value head), beside their rounding floors, and what must be equal bit by
// bit. Outputs and workspaces are NaN-filled before every run, guard bands and inputs checked
// after.
//
//   errors        output and final state within the limits of reference/errors.h; pool rows and
//                 padding that no sequence owns bit-identical; outputs of padding sequences zero
//   repeat        a second run, from a fresh plan, gives the same bits
//   alone         the shortest and the longest sequence of a batch, each run by itself, give the
//                 bits they gave in the batch
//   duplicates    a sequence twice in one batch, another between, gives the same bits twice
//   continuation  every sequence cut in two calls joined by the state: within the same limits,
//                 widened by the one more rounding of the state (contract: "the extra roundings")
//
// and, where asked for, those of harness/invariances.h: permuted, refilled, replay, streams,
// isolation, every_split, token_by_token.
//
// An implementation that declares itself not bitwise_repeatable is spared "repeat" and what builds
// on it; one that is not batch_invariant is spared "alone" and "duplicates". Checks that do not
// apply are listed as such, never counted as passed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/execute.h"
#include "reference/errors.h"

namespace gdn {

struct VerifyOptions {
  bool repeat = true;
  bool alone = true;
  bool duplicates = true;
  bool continuation = true;
  bool permuted = false;
  bool refilled = false;
  bool replay = false;
  bool streams = false;
  bool isolation = false;
  bool every_split = false;     ///< 128 runs
  bool token_by_token = false;  ///< as many runs as tokens in the longest sequence
  /// Every check but the last two, which cost many runs.
  static VerifyOptions all_invariances();
  /// Whether a check runs other cases than the one judged (all but "errors" and "repeat").
  bool runs_other_cases() const;
  /// As these, for a problem of a suite: where its arrays take more than 2.5 GB only "errors" and
  /// "repeat". A batch so large is in a suite for its size (offsets, grids); what the other checks
  /// look for does not grow with it, but their twenty runs and copies do.
  VerifyOptions of_suite_problem(const Problem& problem) const;
  /// Reference work above which a random sample of (sequence, head) pairs is checked instead of all
  /// (the sample holds the longest sequence's first and last head; drawn with sample_seed).
  double most_reference_flops = 4e10;
  std::uint64_t sample_seed = 1;
  int threads = 0;  ///< for the reference; 0 = all
};

enum class Verdict {
  passed,
  failed,
  unsupported,  ///< the implementation does not do this problem; nothing was run
  too_large,    ///< the device, or the time given, does not do this problem; nothing was run
  known_limit,  ///< failed, as harness/known_limits.h says it does
};

struct Check {
  enum class Result { passed, failed, not_applicable };
  std::string name;  ///< "errors", "repeat", ...
  Result result = Result::passed;
  std::string detail;  ///< why failed or not applicable; one line
};

struct VerifyResult {
  Verdict verdict = Verdict::failed;
  std::string reason;  ///< one line; empty when passed
  reference::ErrorReport report;
  std::vector<Check> checks;
  Outputs outputs;  ///< of the run judged; empty if it threw

  bool passed() const { return verdict == Verdict::passed; }
};

/// The reference of a case, evaluated once and shared by every implementation judged on it. Keeps a
/// reference to `inputs`, which must outlive it.
class CheckedReference {
 public:
  explicit CheckedReference(const Case& inputs, const VerifyOptions& options = {});

  reference::ErrorReport compare(const Outputs& outputs) const;
  /// Empty if the outputs are right; else one line saying what is wrong.
  std::string check(const Outputs& outputs) const;
  /// As check(), with the limits widened by that many more roundings of the state on the way, of
  /// which no more stand together than the problem remembers.
  std::string check_continued(const Outputs& outputs, std::int64_t roundings) const;
  const Case& inputs() const { return *inputs_; }
  const reference::WideOutputs<double>& wide() const { return reference_; }
  /// The pairs it holds, as compare() takes them.
  const reference::EvaluationOptions& evaluation() const { return evaluation_; }
  const VerifyOptions& options() const { return options_; }
  /// "all 64 pairs", or "a random sample of 12 of 64 pairs (seed 1)".
  std::string coverage() const;

 private:
  const Case* inputs_;
  reference::EvaluationOptions evaluation_;
  reference::WideOutputs<double> reference_;
  reference::Conditioning conditioning_;
  std::int64_t total_pairs_ = 0;
  VerifyOptions options_;
};

/// Runs and judges. Failures of the device or of a guard band are a failed verdict, not an
/// exception. Throws Error(out_of_memory) before allocating, and Error(bad_input) for a bad case.
VerifyResult verify(const Implementation& implementation, const Case& inputs, Device& device,
                    const VerifyOptions& options = {});
VerifyResult verify(const Implementation& implementation, const CheckedReference& reference,
                    Device& device, const VerifyOptions& options = {});

/// How much work it is to verify so many implementations on a problem, in bytes gone over on the
/// host: to share problems out, not to foretell times.
double verification_work(const Problem& problem, const VerifyOptions& options,
                         std::int64_t implementations);

/// Bytes that verifying implementations of such a workspace holds at most, on the host or on the
/// device: the case, its reference in float64, its outputs twice, and what checks that run other
/// cases hold beside them.
std::int64_t verification_memory(const Problem& problem, std::int64_t workspace_bytes,
                                 const VerifyOptions& options);

/// Empty, or why a host of so much memory cannot verify the problem: verification_memory, and on a
/// device without memory of its own what the device holds.
std::string exceeds_host_memory(const Problem& problem, const VerifyOptions& options,
                                const DeviceInfo& device, std::int64_t host_memory_bytes);

/// Judges outputs made elsewhere: the "errors" check alone.
VerifyResult verify_outputs(const CheckedReference& reference, Outputs outputs);

}  // namespace gdn
