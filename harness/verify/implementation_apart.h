// An implementation that runs in a process of its own, because nobody knows what it does to the one it runs
// in. It is listed, chosen and asked what it supports like any other. It has no plans here: whoever judges
// or times implementations hands it the whole task, and gets the result.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/rows/row.h"
#include "harness/verify/verify.h"
#include "interface/implementation.h"

namespace gdn {

struct SweepOptions;

struct JudgedApart {
  std::string coverage;  ///< CheckedReference::coverage()
  VerifyResult result;   ///< without outputs
};

class ImplementationApart : public Implementation {
 public:
  /// As verify(). Throws Error where there is no result: the process ended or stood still, and why.
  virtual JudgedApart verify(const Problem& problem, const VerifyOptions& options) const = 0;
  /// As sweep_row(), and throws as verify() here.
  virtual Row row(const Problem& problem, const SweepOptions& options,
                  std::vector<TimeSample>& samples) const = 0;

  /// Throws Error(unsupported).
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const final;
};

}  // namespace gdn
