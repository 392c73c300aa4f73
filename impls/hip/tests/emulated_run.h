// One run of a HIP implementation on the emulator: what it made, how far from the float64
// reference, and what the emulator counted.
#pragma once

#include <string>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "hip/emulator_device.h"
#include "interface/implementation.h"
#include "reference/errors.h"
#include "reference/reference.h"

namespace gdn::hip {

struct EmulatedRun {
  Problem problem;
  reference::ErrorReport report;
  gfx906::Counters counters;  ///< all of them: with profiling
};

inline EmulatedRun emulate(const Implementation& implementation, const std::string& problem) {
  gfx906::LaunchOptions options;
  options.profile = true;
  const auto device = open_emulator(options);
  const Case inputs = generate_case(Problem::parse(problem));
  const Outputs outputs = execute(implementation, inputs, *device);
  return {inputs.problem, reference::compare(inputs, reference::evaluate<double>(inputs), outputs),
          emulator_counters(*device)};
}

}  // namespace gdn::hip
