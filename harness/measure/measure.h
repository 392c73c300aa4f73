// Measures an implementation on a case. Nothing is timed whose outputs were not verified first, and
// a measurement counts only if the outputs of a timed launch, made after all samples on NaN-filled
// buffers, verify again.
//
//   cold   before each sample the state pool is restored and the last-level cache emptied: what a
//          kernel meets in a model, where other layers ran in between (the default)
//   hot    the state pool is restored, nothing is evicted, and untimed runs go before: what a
//          kernel alone in a loop reaches
//
// A sample is the device time of one run (Device::time_launch: host latency outside). In-place
// state is put back before every run, so that all samples do the same work on the same numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/measure/statistics.h"
#include "harness/measure/work_count.h"
#include "harness/rows/row.h"
#include "interface/case.h"
#include "interface/implementation.h"

namespace gdn {

struct MeasureOptions {
  CacheMode mode = CacheMode::cold;
  StoppingLimits stopping;
  int hot_warmups = 3;             ///< untimed runs before the first hot sample
  double throttle_fraction = 0.9;  ///< of the highest clock: samples below are left out
};

/// Judges outputs: empty if they are right, else one line saying what is wrong.
using OutputCheck = std::function<std::string(const Outputs&)>;

struct Measurement {
  PlanInfo plan;
  std::int64_t case_bytes = 0;  ///< device memory of inputs, outputs and state pools
  double planning_ms = 0;       ///< host time of plan()
  double first_call_ms = 0;     ///< host time of the first run, to completion
  /// Empty if both verifications passed and no figure is impossible; else why the times must not be
  /// used. If the first verification failed there are no samples at all.
  std::string failure;
  bool verified_before = false;
  bool verified_after = false;
  CacheMode mode = CacheMode::cold;
  std::vector<TimeSample> samples;  ///< every one, in order
  ThrottleTags throttle;            ///< one tag per sample
  Summary time_ms;                  ///< of the samples that count
  StopReason stop_reason = StopReason::none;
  WorkCount work;
  Rates rates;
  Device::Ceilings ceilings;
  Device::Telemetry telemetry;  ///< read as the sampling ended
};

/// Throws as Implementation::plan and DeviceCase do (unsupported, out_of_memory, device_failure).
Measurement measure(const Implementation& implementation, const Case& inputs, Device& device,
                    const OutputCheck& check, const MeasureOptions& options = {});

/// Fills the row's plan, time and derived columns, its mode, and its status and reason.
void describe_measurement(const Measurement& measurement, Row& row);

}  // namespace gdn
