#include "harness/verify/verify_options.h"

#include "harness/run/memory_needed.h"

namespace gdn {

VerifyOptions VerifyOptions::all_invariances() {
  VerifyOptions options;
  options.permuted = options.refilled = options.replay = options.streams = options.isolation = true;
  options.strided = options.on_request = options.phases = true;
  return options;
}

VerifyOptions VerifyOptions::errors_only() {
  VerifyOptions options;
  options.repeat = options.alone = options.duplicates = options.continuation = false;
  return options;
}

bool VerifyOptions::runs_other_cases() const {
  return alone || duplicates || continuation || permuted || refilled || replay || streams ||
         isolation || strided || on_request || phases || every_split || token_by_token;
}

VerifyOptions VerifyOptions::of_suite_problem(const Problem& problem) const {
  constexpr double kMostBytesOfEveryCheck = 2.5e9;
  if (static_cast<double>(host_bytes_needed(problem)) <= kMostBytesOfEveryCheck) return *this;
  VerifyOptions options = *this;
  options.alone = options.duplicates = options.continuation = options.permuted = false;
  options.refilled = options.replay = options.streams = options.isolation = false;
  options.strided = options.on_request = options.phases = false;
  options.every_split = options.token_by_token = false;
  return options;
}

}  // namespace gdn
