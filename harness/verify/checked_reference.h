// The reference of a case, evaluated once and shared by every implementation judged on it.
#pragma once

#include <string>

#include "harness/verify/verify_options.h"
#include "reference/errors.h"

namespace gdn {

/// The reference of a case, evaluated once and shared by every implementation judged on it. Keeps a
/// reference to `inputs`, which must outlive it.
class CheckedReference {
 public:
  explicit CheckedReference(const Case& inputs, const VerifyOptions& options = {});

  reference::ErrorReport compare(const Outputs& outputs) const;
  /// Empty if `report`, that of the outputs, is within the limits; else reference::violation(), and
  /// of a unit with values that are not finite where the first of them stands in its array.
  std::string violation(const reference::ErrorReport& report, const Outputs& outputs,
                        const reference::ErrorLimits& limits) const;
  /// Empty if the outputs are right; else one line saying what is wrong.
  std::string check(const Outputs& outputs) const;
  /// As check(), with the limits widened by that many more roundings of what is carried on the way
  /// (ReferenceOperation::widen).
  std::string check_continued(const Outputs& outputs, std::int64_t roundings) const;
  const Case& inputs() const { return *inputs_; }
  const Arrays<double>& wide() const { return reference_; }
  /// The pairs it holds, as compare() takes them.
  const reference::EvaluationOptions& evaluation() const { return evaluation_; }
  const VerifyOptions& options() const { return options_; }
  /// "all 64 pairs", or "a random sample of 12 of 64 pairs (seed 1)".
  std::string coverage() const;

 private:
  const Case* inputs_;
  reference::EvaluationOptions evaluation_;
  Arrays<double> reference_;
  reference::Conditioning conditioning_;
  std::int64_t total_pairs_ = 0;
  VerifyOptions options_;
};

}  // namespace gdn
