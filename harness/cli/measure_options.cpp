#include "harness/cli/measure_options.h"

#include <algorithm>

#include "harness/case_file.h"
#include "harness/cli/axes.h"
#include "harness/default_sweep.h"

namespace gdn::cli {

void MeasureCliOptions::add_to(CLI::App& app) {
  const std::string what = "How to measure";
  app.add_option("--impl", implementations_,
                 "implementations, as cuda/fused; default: all that run")
      ->delimiter(',')
      ->group(what);
  app.add_option("--device", device_, "best | cpu | cuda | cuda:1 ...")
      ->capture_default_str()
      ->group(what);
  app.add_flag("--hot", hot_, "do not empty the cache before each run")->group(what);
  app.add_option("--noise", stopping_.noise_bound,
                 "stop when the relative spread is at most this (or no longer changes)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(what);
  app.add_option("--min-samples", stopping_.min_samples, "at least this many runs")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(what);
  app.add_option("--max-samples", stopping_.max_samples, "at most this many runs")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(what);
  app.add_option("--min-time", stopping_.min_time_s, "seconds of device time at least")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(what);
  app.add_option("--max-time", stopping_.max_time_s,
                 "seconds of wall time after which a measurement ends")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(what);
}

MeasureOptions MeasureCliOptions::options() const {
  MeasureOptions options;
  options.mode = hot_ ? CacheMode::hot : CacheMode::cold;
  options.stopping = stopping_;
  options.stopping.min_samples = std::min(stopping_.min_samples, stopping_.max_samples);
  return options;
}

std::vector<Problem> problems_of(const AxisOptions& axes, const DeviceInfo& device) {
  GridSpec spec = axes.spec();
  const bool nothing =
      spec.presets.empty() && spec.axes.empty() && spec.problems.empty() && spec.cases.empty();
  const auto named = std::find(spec.presets.begin(), spec.presets.end(), "default");
  const bool with_default = nothing || named != spec.presets.end();
  if (named != spec.presets.end()) spec.presets.erase(named);

  std::vector<Problem> problems;
  const auto add = [&](const Problem& problem) {
    if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
      problems.push_back(problem);
    }
  };
  const bool has_grid = !spec.presets.empty() || !spec.axes.empty() || !spec.problems.empty();
  if (has_grid) {
    for (const Problem& problem : expand(spec)) add(problem);
  }
  for (const std::string& path : spec.cases) {
    const Operation own = read_case_problem(path).operation;
    if (own == Operation::gated_delta_layer) add(case_problem(path, Operation::gated_delta));
    add(case_problem(path, own));
  }
  if (with_default) {
    for (const Problem& problem : default_sweep_problems(device, find_trace_file())) add(problem);
  }
  return problems;
}

}  // namespace gdn::cli
