#include "harness/measure/measure.h"

#include <chrono>

#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "interface/error.h"

namespace gdn {
namespace {

class HostTimer {
 public:
  double elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

void take_samples(Plan& plan, DeviceCase& device_case, Device& device,
                  const MeasureOptions& options, Measurement& result) {
  const auto run = [&] { plan.run(); };
  // The flush comes after the restored state, which a copy would otherwise leave in the cache.
  const auto prepare = [&] {
    device_case.restore_state_async();
    if (options.mode == CacheMode::cold) device.flush_cache_async();
  };
  if (options.mode == CacheMode::hot) {
    for (int i = 0; i < options.hot_warmups; ++i) device.time_launch(prepare, run);
  }
  StoppingRule rule(options.stopping);
  const HostTimer wall;
  while (result.stop_reason == StopReason::none) {
    result.samples.push_back(device.time_launch(prepare, run));
    result.stop_reason = rule.add(result.samples.back().time_ms, wall.elapsed_ms() * 1e-3);
    // A model gives the same time for the same launch.
    if (device.info().modelled_time) break;
  }
}

}  // namespace

Measurement measure(const Implementation& implementation, const Case& inputs, Device& device,
                    const OutputCheck& check, const MeasureOptions& options) {
  Measurement result;
  result.mode = options.mode;
  DeviceCase device_case(inputs, device);
  device.synchronize();

  const HostTimer planning;
  const std::unique_ptr<Plan> plan =
      implementation.plan(inputs.problem, device_case.arguments(), device);
  result.planning_ms = planning.elapsed_ms();
  result.plan = plan->info();
  result.case_bytes = device_bytes_needed(inputs.problem);

  device_case.reset_async();
  device.synchronize();
  const HostTimer first_call;
  plan->run();
  device.synchronize();
  result.first_call_ms = first_call.elapsed_ms();

  device_case.check_guards(CheckInputs::later);
  const Outputs first = device_case.download();
  if (const std::string wrong = check(first); !wrong.empty()) {
    result.failure = wrong;
    return result;
  }
  result.verified_before = true;

  take_samples(*plan, device_case, device, options, result);

  result.telemetry = device.telemetry();

  // The outputs of a launch timed like the others, on buffers filled with NaN beforehand.
  device.time_launch(
      [&] {
        device_case.reset_async();
        if (options.mode == CacheMode::cold) device.flush_cache_async();
      },
      [&] { plan->run(); });
  device_case.check_guards();
  const Outputs last = device_case.download();
  std::string wrong = check(last);
  if (wrong.empty() && implementation.description().bitwise_repeatable &&
      !first_difference(first, last).empty()) {
    wrong = "outputs are not bit for bit those before, though declared repeatable";
  }
  result.verified_after = wrong.empty();
  if (!wrong.empty()) result.failure = "after timing: " + wrong;

  result.throttle = tag_throttled(result.samples, options.throttle_fraction);
  result.time_ms = summarize(counted_times_ms(result.samples, result.throttle));
  result.work = count_work(inputs, result.plan.chunk);
  result.ceilings = device.ceilings();
  if (!device.info().modelled_time && result.failure.empty()) {
    result.failure = impossible_figure(result.work, result.time_ms.minimum, options.mode,
                                       device.info(), result.ceilings);
  }
  if (result.time_ms.median > 0) {
    result.rates = rates(result.work, result.time_ms.median, inputs.problem.token_dtype,
                         options.mode, device.info(), result.ceilings);
  }
  return result;
}

void describe_measurement(const Measurement& measurement, Row& row) {
  describe_plan(measurement.plan, row);
  row.case_bytes = measurement.case_bytes;
  row.mode = name_of(measurement.mode);
  row.planning_ms = measurement.planning_ms;
  row.first_call_ms = measurement.first_call_ms;
  row.verified_before = measurement.verified_before ? 1 : 0;
  row.verified_after = measurement.verified_after ? 1 : 0;
  row.status = measurement.failure.empty() ? row_status::kOk : row_status::kFailed;
  row.reason = measurement.failure;
  if (measurement.samples.empty()) return;

  row.sample_count = static_cast<std::int64_t>(measurement.samples.size());
  row.throttled_count = measurement.throttle.throttled_count;
  row.mostly_throttled = measurement.throttle.mostly_throttled ? 1 : 0;
  row.stop_reason = to_string(measurement.stop_reason);
  std::vector<double> clocks_mhz;
  for (const TimeSample& sample : measurement.samples) clocks_mhz.push_back(sample.clock_mhz);
  row.clock_mhz = summarize(clocks_mhz).median;
  row.power_w = measurement.telemetry.power_w;
  row.power_limit_w = measurement.telemetry.power_limit_w;
  row.memory_clock_mhz = measurement.telemetry.memory_clock_mhz;
  row.temperature_c = measurement.telemetry.temperature_c;
  // Times of wrong outputs, or impossible ones, are kept as samples and never as figures.
  if (!measurement.failure.empty()) return;

  const Summary& time_ms = measurement.time_ms;
  row.time_ms = time_ms.median;
  row.time_first_quartile_ms = time_ms.first_quartile;
  row.time_third_quartile_ms = time_ms.third_quartile;
  row.time_min_ms = time_ms.minimum;
  row.time_max_ms = time_ms.maximum;
  row.time_relative_spread = time_ms.relative_spread;
  row.tokens_per_s = measurement.rates.tokens_per_s;
  row.chunkwise_tflops = measurement.rates.chunkwise_tflops;
  row.count_chunk = measurement.work.count_chunk;
  row.recurrent_tflops = measurement.rates.recurrent_tflops;
  row.bytes_moved = measurement.work.bytes_moved();
  row.tb_per_s = measurement.rates.tb_per_s;
  row.fraction_of_compute = measurement.rates.fraction_of_compute;
  row.fraction_of_bandwidth = measurement.rates.fraction_of_bandwidth;
  row.ceiling_copy_tb_per_s = measurement.ceilings.copy_tb_per_s;
  row.ceiling_matrix_tflops = measurement.ceilings.matrix_tflops;
  row.ceiling_float32_tflops = measurement.ceilings.float32_tflops;
}

}  // namespace gdn
