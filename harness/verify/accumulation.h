// How errors gather over a long decode: a batch computed by as many calls as its sequences have tokens,
// as a server does it, each of which finds the state that the one before it left, rounded to the pool's
// element type.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/verify/checked_reference.h"
#include "interface/device.h"
#include "interface/implementation.h"

namespace gdn {

/// Tokens of every sequence: 0..0, 1..9, 10..99 and so on, the last window up to the longest sequence.
struct TokenWindow {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
std::vector<TokenWindow> decades(std::int64_t longest_sequence);

/// Relative L2 errors against the float64 reference, of the worst (sequence, value head) pair of those
/// that were evaluated, of what has no value heads of the worst sequence.
struct AccumulatedErrors {
  std::vector<double> by_window;  ///< of the output, a number for each of decades()
  double final_state = 0;         ///< NaN where the problem wants none, or it is copied inputs
};

/// Empty if the problem can be computed token by token; else why not, in words.
std::string not_token_by_token(const Problem& problem);

/// Runs the case of `reference` token by token with one plan. `step` is told how many tokens of the
/// longest sequence are done. Throws what planning and running throw, and Error(unsupported) with
/// not_token_by_token().
Outputs decoded_token_by_token(const Implementation& implementation,
                               const CheckedReference& reference, Device& device,
                               const std::function<void(std::int64_t)>& step);

/// Errors of outputs of the whole case, however they came about.
AccumulatedErrors accumulated_errors(const CheckedReference& reference, const Outputs& outputs);

}  // namespace gdn
