// Runs a HIP implementation through the emulator and judges what it made: the code object that
// ships, instruction by instruction, against the float64 reference.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "harness/execute.h"
#include "harness/inputs.h"
#include "hip/emulator_device.h"
#include "interface/error.h"
#include "reference/errors.h"
#include "reference/reference.h"

namespace gdn::hip {

/// Relative L2 that float32 kernels promise here, on well-conditioned problems, whatever their
/// form.
inline constexpr double kFloat32Bound = 2e-6;

struct Emulated {
  Outputs outputs;
  reference::ErrorReport report;
  gfx906::Counters counters;
};

inline Emulated emulate(const Implementation& implementation, const Case& inputs,
                        const gfx906::LaunchOptions& options = {}) {
  const auto device = open_emulator(options);
  Emulated result;
  result.outputs = execute(implementation, inputs, *device);
  result.counters = emulator_counters(*device);
  result.report = reference::compare(inputs, reference::evaluate<double>(inputs), result.outputs);
  return result;
}

/// Expects the limits of the reference library and, for float32 throughout, the bound above.
inline void expect_within_limits(const Problem& problem, const reference::ErrorReport& report) {
  EXPECT_EQ(reference::first_violation(report, report.limits), "");
  EXPECT_EQ(report.untouched_changed, 0);
  EXPECT_EQ(report.padding_nonzero, 0);
  const bool float32 = problem.token_dtype == DType::float32 &&
                       problem.effective_output_dtype() == DType::float32 &&
                       problem.state_dtype == DType::float32;
  const bool well_conditioned = report.limits.output <= 2 * reference::error_limits(problem).output;
  if (!float32 || !well_conditioned || report.heads.empty()) return;
  EXPECT_FALSE(!(report.worst_output.output.relative_l2 <= kFloat32Bound))
      << "output: relative L2 " << report.worst_output.output.relative_l2;
  if (problem.final_state) {
    EXPECT_FALSE(!(report.worst_state.state.relative_l2 <= kFloat32Bound))
        << "state: relative L2 " << report.worst_state.state.relative_l2;
  }
}

inline void expect_emulated_agrees(const Implementation& implementation, const std::string& text,
                                   const gfx906::LaunchOptions& options = {}) {
  const Problem problem = Problem::parse(text);
  const Support support = implementation.supports(problem);
  SCOPED_TRACE(implementation.description().name + " on " + text);
  if (!support) {
    EXPECT_NE(support.reason, "");
    return;
  }
  try {
    expect_within_limits(problem, emulate(implementation, generate_case(problem), options).report);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace gdn::hip
