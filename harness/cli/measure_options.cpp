#include "harness/cli/measure_options.h"

#include <algorithm>

#include "harness/cli/axes.h"
#include "harness/cli/number_check.h"
#include "harness/sweep/default_sweep.h"
#include "interface/error.h"
#include "interface/select.h"

namespace gdn::cli {

void MeasureCliOptions::add_to(CLI::App& app) {
  const std::string what = "How to measure";
  app.add_option("--impl", implementations_,
                 "implementations, as cuda/fused; default: all that run")
      ->delimiter(',')
      ->group(what);
  app.add_option("--device", device_,
                 "best | cpu | cuda | cuda:1 | cuda-emulated | hip | gfx906-emulator")
      ->capture_default_str()
      ->group(what);
  app.add_flag("--hot", hot_, "do not empty the cache before each run")->group(what);
  app.add_option("--noise", stopping_.noise_bound,
                 "stop when the relative spread is at most this (or no longer changes)")
      ->capture_default_str()
      ->check(zero_or_more())
      ->group(what);
  min_samples_ = app.add_option("--min-samples", stopping_.min_samples, "at least this many runs")
                     ->capture_default_str()
                     ->check(more_than_zero())
                     ->group(what);
  app.add_option("--max-samples", stopping_.max_samples, "at most this many runs")
      ->capture_default_str()
      ->check(more_than_zero())
      ->group(what);
  app.add_option("--min-time", stopping_.min_time_s, "seconds of device time at least")
      ->capture_default_str()
      ->check(zero_or_more())
      ->group(what);
  app.add_option("--max-time", stopping_.max_time_s,
                 "seconds of wall time after which a measurement ends")
      ->capture_default_str()
      ->check(more_than_zero())
      ->group(what);
}

void MeasureCliOptions::add_with_plugins_to(CLI::App& app) {
  add_to(app);
  plugins_.add_to(app, "How to measure");
}

std::vector<const Implementation*> MeasureCliOptions::chosen(const DeviceInfo& device) const {
  return choose_implementations(plugins_.names_with(implementations_, device_, false), device);
}

MeasureOptions MeasureCliOptions::options() const {
  // A maximum below the default minimum means it; below a minimum that was asked for it
  // contradicts.
  if (min_samples_ != nullptr && min_samples_->count() > 0 &&
      stopping_.min_samples > stopping_.max_samples) {
    throw_bad_input("--min-samples " + std::to_string(stopping_.min_samples) +
                    ": expected at most --max-samples, " + std::to_string(stopping_.max_samples));
  }
  MeasureOptions options;
  options.mode = hot_ ? CacheMode::hot : CacheMode::cold;
  options.stopping = stopping_;
  options.stopping.min_samples = std::min(stopping_.min_samples, stopping_.max_samples);
  return options;
}

std::vector<Problem> problems_of(const AxisOptions& axes, const DeviceInfo& device) {
  GridSpec spec = axes.spec();
  const auto named = std::find(spec.presets.begin(), spec.presets.end(), "default");
  const bool with_default = named != spec.presets.end() || !spec.names_problems();
  if (named != spec.presets.end()) spec.presets.erase(named);

  std::vector<Problem> problems;
  if (spec.names_problems()) problems = expand(spec);
  if (with_default) {
    // --op by itself names no problems: of the default sweep those of that operation are meant.
    const bool of_one = spec.operation_given && !spec.names_problems();
    for (const Problem& problem : default_sweep_problems(device, find_trace_file())) {
      if (of_one && problem.operation != spec.operation) continue;
      if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
        problems.push_back(problem);
      }
    }
  }
  if (problems.empty() && spec.operation_given) {
    throw_bad_input("--op " + to_string(spec.operation) +
                    ": the default sweep has no problem of it; name some with --heads, --seq, ...");
  }
  return problems;
}

}  // namespace gdn::cli
