#include "harness/verify/verification_cost.h"

#include <algorithm>

#include "harness/run/host_memory.h"
#include "harness/run/memory_needed.h"
#include "reference/reference.h"

namespace gdn {

double verification_work(const Problem& problem, const VerifyOptions& options,
                         std::int64_t implementations) {
  constexpr double kOfEveryImplementation = 1e8;  // allocations, launches and small copies
  const double runs = options.runs_other_cases() ? 20 : 3;  // without the last two
  constexpr double kInputs = 5;  // making and judging them, beside the reference
  const auto bytes = static_cast<double>(host_bytes_needed(problem));
  const double shared = kInputs * bytes + std::min(reference::evaluation_flops(problem),
                                                   options.most_reference_flops);
  double each = kOfEveryImplementation + runs * bytes;
  if (options.every_split) each += 128 * bytes;
  if (options.token_by_token) {
    Problem step = problem;
    for (std::int64_t& length : step.sequences.lengths) length = std::min<std::int64_t>(length, 1);
    each += static_cast<double>(problem.sequences.longest()) *
            static_cast<double>(host_bytes_needed(step));
  }
  return shared + static_cast<double>(implementations) * each;
}

std::int64_t verification_memory(const Problem& problem, std::int64_t workspace_bytes,
                                 const VerifyOptions& options) {
  const auto bytes = static_cast<double>(host_bytes_needed(problem));
  const auto outputs = static_cast<double>(host_bytes_of_outputs(problem));
  // The case and what a run made of it, and the reference's outputs in float64; and a twentieth, for what is held for
  // a moment: with a batch of 200 states the peak is 3 % above the sum, with long sequences less.
  double held = 1.05 * (bytes + 2 * outputs);
  if (options.repeat) held += 2 * outputs;  // of the second run; as seen, twice
  if (options.runs_other_cases()) {
    // Others and parts: seen to hold 6 times a batch of many tokens, 10 times one of many states.
    const auto states = 2 * static_cast<double>(host_bytes_of_pools(problem));
    held = 7 * bytes + 5 * states;
  }
  held += 2 * static_cast<double>(workspace_bytes);
  return static_cast<std::int64_t>(std::min(held, 9e18));
}

std::string exceeds_host_memory(const Problem& problem, const VerifyOptions& options,
                                const DeviceInfo& device, std::int64_t host_memory_bytes) {
  const auto on_device =
      static_cast<double>(device.has_own_memory ? 0 : device_bytes_needed(problem));
  const auto needed = [&](const VerifyOptions& checks) {
    return on_device + static_cast<double>(verification_memory(problem, 0, checks));
  };
  if (needed(options) <= static_cast<double>(host_memory_bytes)) return "";
  std::string why = problem.to_string() + ": to verify it takes " + in_gib(needed(options)) +
                    " of the host's memory, which has " +
                    in_gib(static_cast<double>(host_memory_bytes));
  if (options.runs_other_cases()) {
    why += " (errors alone take " + in_gib(needed(VerifyOptions::errors_only())) + ")";
  }
  return why;
}

}  // namespace gdn
