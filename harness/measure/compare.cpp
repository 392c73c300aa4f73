#include "harness/measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "harness/measure/statistics.h"
#include "harness/rows/grown_errors.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr double kConfidence = 0.95;
// The first count whose interval drops the extremes.
constexpr std::size_t kOrderStatisticsFrom = 9;

// 97.5 % quantiles of Student's t with 1 .. 7 degrees of freedom.
constexpr std::array<double, 7> kStudentT = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365};

// The largest k with 2 P(binomial(n, 1/2) <= k) <= 1 - confidence. Sums logarithms: 2^-n underflows
// for thousands of samples.
std::size_t trimmed_ranks(std::size_t count) {
  const double n = static_cast<double>(count);
  const double allowed = (1 - kConfidence) / 2;
  double below = 0;
  std::size_t k = 0;
  for (; k < count / 2; ++k) {
    const double i = static_cast<double>(k);
    below += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) -
                      n * std::log(2.0));
    if (below > allowed) break;
  }
  return k == 0 ? 0 : k - 1;
}

// One row of one process, with the medians' material.
struct Run {
  const Row* row = nullptr;
  std::size_t process = 0;       // of its side
  std::vector<double> times_ms;  // that count
  std::vector<double> cycles;    // of the same samples; empty if a clock is not known
};

// Everything one side has of one identity.
struct Side {
  std::vector<Run> runs;
  bool any(const char* status) const {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const Run& run) { return run.row->status == status; });
  }
  const Row* first_ok() const {
    for (const Run& run : runs) {
      if (run.row->ok()) return run.row;
    }
    return nullptr;
  }
};

// Times and cycles `times_longer` what they were.
Run run_of(const StoredRows& stored, const Row& row, std::size_t process, double times_longer) {
  Run run{&row, process, {}, {}};
  if (!row.ok()) return run;  // times of wrong outputs are no times
  const std::vector<TimeSample> samples = stored.samples_of(row);
  if (samples.empty()) return run;
  const ThrottleTags tags = tag_throttled(samples);
  run.times_ms = counted_times_ms(samples, tags);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (tags.throttled[i] && !tags.mostly_throttled) continue;
    if (!(samples[i].clock_mhz > 0)) {
      run.cycles.clear();
      break;
    }
    run.cycles.push_back(samples[i].time_ms * samples[i].clock_mhz * 1e3);
  }
  for (double& time_ms : run.times_ms) time_ms *= times_longer;
  for (double& cycles : run.cycles) cycles *= times_longer;
  return run;
}

std::string identity(const Row& row, bool across_devices) {
  return row.key() + (across_devices ? "" : " on " + row.backend + " " + row.device);
}

struct Sides {
  std::vector<std::string> order;  // identities in order of first appearance
  std::map<std::string, Side> sides;
};

Sides gather(const std::vector<StoredRows>& processes, bool across_devices,
             double times_longer = 1) {
  Sides result;
  for (std::size_t process = 0; process < processes.size(); ++process) {
    const StoredRows& stored = processes[process];
    std::map<std::string, const Row*> latest;
    std::vector<std::string> order;
    for (const Row& row : stored.rows) {
      const std::string name = identity(row, across_devices);
      const auto [entry, inserted] = latest.try_emplace(name, &row);
      if (inserted) {
        order.push_back(name);
        continue;
      }
      if (across_devices && entry->second->device != row.device) {
        throw_bad_input("compare: '" + row.key() + "' was measured on '" + entry->second->device +
                        "' and on '" + row.device +
                        "' in one file; across devices a file holds one");
      }
      if (row.date >= entry->second->date) entry->second = &row;
    }
    for (const std::string& name : order) {
      const auto [side, inserted] = result.sides.try_emplace(name);
      if (inserted) result.order.push_back(name);
      side->second.runs.push_back(run_of(stored, *latest.at(name), process, times_longer));
    }
  }
  return result;
}

// One process: its samples. Several: their medians.
MedianInterval interval_of(const Side& side, std::vector<double> Run::*values) {
  std::vector<double> medians;
  const Run* only = nullptr;
  for (const Run& run : side.runs) {
    if ((run.*values).empty()) continue;
    medians.push_back(summarize(run.*values).median);
    only = &run;
  }
  if (medians.empty()) return {};
  if (medians.size() == 1) return median_interval(only->*values, only->row->modelled_time != 0);
  return median_interval(medians, only->row->modelled_time != 0);
}

struct Change {
  double low = kNotMeasured;
  double middle = kNotMeasured;
  double high = kNotMeasured;
};

Change change_of(const MedianInterval& a, const MedianInterval& b) {
  if (!a.known() || !b.known() || !(a.low > 0)) return {};
  return {b.low / a.high - 1, b.median / a.median - 1, b.high / a.low - 1};
}

// From the ratios of the pairs in which both sides have a value. Their logarithms are averaged:
// twice as slow and twice as fast cancel, and no interval reaches below -100 %.
Change change_of_pairs(const Side& a, const Side& b, std::vector<double> Run::*values) {
  std::vector<double> logarithms;
  for (const Run& run_a : a.runs) {
    for (const Run& run_b : b.runs) {
      if (run_a.process != run_b.process) continue;
      if ((run_a.*values).empty() || (run_b.*values).empty()) continue;
      const double before = summarize(run_a.*values).median;
      const double after = summarize(run_b.*values).median;
      if (before > 0 && after > 0) logarithms.push_back(std::log(after / before));
    }
  }
  const MedianInterval ratio = median_interval(logarithms);
  if (!ratio.known()) return {};
  return {std::expm1(ratio.low), std::expm1(ratio.median), std::expm1(ratio.high)};
}

std::string percent(double fraction) { return fmt::format("{:+.2f} %", 100 * fraction); }

std::string range_text(const Change& change) {
  return fmt::format("{} ({} to {})", percent(change.middle), percent(change.low),
                     percent(change.high));
}

// What one side lacks, or "" if it has a time.
std::string missing_reason(const char* name, const Side& side) {
  for (const Run& run : side.runs) {
    if (run.row->ok()) continue;
    return fmt::format("{} is {}: {}", name, run.row->status, run.row->reason);
  }
  return fmt::format("{} has no samples stored", name);
}

// Whether the times come from a model. Rows are matched by device, so only across devices can one
// side's be modelled and the other's measured.
bool modelled(const Side& side) {
  return std::any_of(side.runs.begin(), side.runs.end(),
                     [](const Run& run) { return run.row->modelled_time != 0; });
}

void judge_time(const Side& a, const Side& b, const CompareOptions& options, RowComparison& row) {
  const double tolerance = options.tolerance;
  row.a_ms = interval_of(a, &Run::times_ms);
  row.b_ms = interval_of(b, &Run::times_ms);
  const bool untimed = row.mode == kVerifyMode;
  if (untimed && a.first_ok() != nullptr && b.first_ok() != nullptr) {
    row.verdict = SpeedVerdict::untimed;
    row.reason = "not timed; errors compared";
    return;
  }
  if (row.a_ms.count == 0 || row.b_ms.count == 0) {
    row.verdict = SpeedVerdict::missing;
    row.reason = row.b_ms.count == 0 || b.first_ok() == nullptr ? missing_reason("B", b)
                                                                : missing_reason("A", a);
    row.inconclusive = a.first_ok() != nullptr;
    return;
  }
  if (modelled(a) != modelled(b)) {
    row.verdict = SpeedVerdict::ambiguous;
    row.inconclusive = true;
    row.reason = fmt::format("{} is modelled and {} measured: they are not compared",
                             modelled(a) ? "A" : "B", modelled(a) ? "B" : "A");
    return;
  }
  const Change change =
      options.paired ? change_of_pairs(a, b, &Run::times_ms) : change_of(row.a_ms, row.b_ms);
  row.change = change.middle;
  row.change_low = change.low;
  row.change_high = change.high;

  row.verdict = SpeedVerdict::ambiguous;
  row.inconclusive = true;
  if (std::isnan(change.low)) {
    row.reason = options.paired
                     ? fmt::format("fewer than two pairs have both times (A {}, B {} processes)",
                                   row.a_ms.count, row.b_ms.count)
                 : !row.a_ms.known() || !row.b_ms.known()
                     ? fmt::format("a single sample has no interval (A {}, B {} samples)",
                                   row.a_ms.count, row.b_ms.count)
                 : row.a_ms.median > 0
                     ? fmt::format(
                           "too scattered: A's interval reaches down to zero, more samples "
                           "are needed (A {}, B {})",
                           row.a_ms.count, row.b_ms.count)
                     : "times of zero: the clock is too coarse";
    return;
  }
  const bool slower = change.low > tolerance;
  const bool faster = change.high < -tolerance;
  if (!slower && !faster) {
    const bool same = change.low >= -tolerance && change.high <= tolerance;
    if (same) {
      row.verdict = SpeedVerdict::same;
      row.inconclusive = false;
      row.reason = fmt::format("{}, within {:g} %", range_text(change), 100 * tolerance);
    } else {
      row.reason = fmt::format(
          "{}: the interval crosses {:g} %, more samples or processes are needed (A {}, B {})",
          range_text(change), 100 * tolerance, row.a_ms.count, row.b_ms.count);
    }
    return;
  }
  const MedianInterval a_cycles = interval_of(a, &Run::cycles);
  const MedianInterval b_cycles = interval_of(b, &Run::cycles);
  const Change cycles =
      options.paired ? change_of_pairs(a, b, &Run::cycles) : change_of(a_cycles, b_cycles);
  const bool clocks_known = a_cycles.count == row.a_ms.count && b_cycles.count == row.b_ms.count &&
                            !std::isnan(cycles.low);
  if (clocks_known && !(slower ? cycles.low > tolerance : cycles.high < -tolerance)) {
    row.reason = fmt::format("{} in time, but {} in clock cycles: the clock differed",
                             range_text(change), range_text(cycles));
    return;
  }
  row.verdict = slower ? SpeedVerdict::slower : SpeedVerdict::faster;
  row.inconclusive = false;
  row.reason = fmt::format("{}, beyond {:g} %{}", range_text(change), 100 * tolerance,
                           clocks_known ? ", in clock cycles too" : "");
}

void judge_errors(const Side& a, const Side& b, double growth, RowComparison& row) {
  const Row* before = a.first_ok();
  if (before == nullptr) return;  // nothing right to hold B to
  for (const Run& run : b.runs) {
    if (run.row->ok()) {
      const auto grown = grown_errors(*before, *run.row, growth);
      if (grown.empty()) continue;
      row.numeric_reason = grown.front().text();
      for (std::size_t i = 1; i < grown.size(); ++i) {
        row.numeric_reason += "; " + grown[i].text();
      }
    } else if (run.row->status == row_status::kFailed ||
               run.row->status == row_status::kDeviceFailure) {
      row.numeric_reason = fmt::format("A is ok, B is {}: {}", run.row->status, run.row->reason);
    } else {
      continue;
    }
    row.numeric_regression = true;
    return;
  }
}

// Distinct texts over all rows of all processes.
std::set<std::string> texts(const std::vector<StoredRows>& processes,
                            const std::function<std::string(const Row&)>& text) {
  std::set<std::string> result;
  for (const StoredRows& stored : processes) {
    for (const Row& row : stored.rows) result.insert(text(row));
  }
  return result;
}

std::string joined(const std::set<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    text += (text.empty() ? "" : ", ") + (value.empty() ? "(none)" : value);
  }
  return text;
}

std::vector<std::string> difference_notes(const std::vector<StoredRows>& a,
                                          const std::vector<StoredRows>& b) {
  struct Provenance {
    const char* name;
    std::function<std::string(const Row&)> text;
  };
  const std::vector<Provenance> fields = {
      {"DEVICES DIFFER", [](const Row& row) { return row.backend + " " + row.device; }},
      {"driver differs", [](const Row& row) { return row.driver_version; }},
      {"toolkit differs", [](const Row& row) { return row.toolkit_version; }},
      {"multiprocessors or host threads differ",
       [](const Row& row) { return std::to_string(row.multiprocessors); }},
      {"sources differ", [](const Row& row) { return row.source_hash.substr(0, 12); }}};
  std::vector<std::string> notes;
  for (const Provenance& field : fields) {
    const auto of_a = texts(a, field.text);
    const auto of_b = texts(b, field.text);
    if (of_a == of_b) continue;
    notes.push_back(fmt::format("{}: A {}; B {}", field.name, joined(of_a), joined(of_b)));
  }
  if (a.size() == 1 || b.size() == 1) {
    notes.push_back(
        "One process on a side: what differs from process to process is covered by the tolerance "
        "alone; give several files per side to measure it");
  }
  return notes;
}

void require_common_device(const std::vector<StoredRows>& a, const std::vector<StoredRows>& b) {
  const auto device = [](const Row& row) { return row.backend + " " + row.device; };
  const auto of_a = texts(a, device);
  const auto of_b = texts(b, device);
  const bool common = std::any_of(of_a.begin(), of_a.end(),
                                  [&](const std::string& name) { return of_b.count(name) > 0; });
  if (!common) {
    throw_bad_input("compare: A was measured on '" + joined(of_a) + "', B on '" + joined(of_b) +
                    "': expected one device (--across-devices compares all the same)");
  }
}

}  // namespace

std::string to_string(SpeedVerdict verdict) {
  switch (verdict) {
    case SpeedVerdict::same:
      return "same";
    case SpeedVerdict::faster:
      return "faster";
    case SpeedVerdict::slower:
      return "slower";
    case SpeedVerdict::ambiguous:
      return "ambiguous";
    case SpeedVerdict::missing:
      return "missing";
    case SpeedVerdict::untimed:
      return "untimed";
  }
  throw_bad_input("SpeedVerdict holds a value without a name");
}

MedianInterval median_interval(std::vector<double> samples, bool exact) {
  if (samples.empty()) return {};
  const Summary summary = summarize(samples);
  MedianInterval interval;
  interval.count = summary.count;
  interval.median = summary.median;
  const double n = static_cast<double>(samples.size());
  if (samples.size() >= kOrderStatisticsFrom) {
    std::sort(samples.begin(), samples.end());
    const std::size_t k = trimmed_ranks(samples.size());
    interval.low = samples[k];
    interval.high = samples[samples.size() - 1 - k];
  } else if (samples.size() >= 2) {
    const double half = kStudentT[samples.size() - 2] * summary.standard_deviation / std::sqrt(n);
    interval.low = summary.mean - half;
    interval.high = summary.mean + half;
  } else if (exact) {
    interval.low = interval.high = summary.median;
  }
  return interval;
}

std::int64_t CompareResult::count(SpeedVerdict verdict) const {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const RowComparison& row) { return row.verdict == verdict; });
}

int CompareResult::exit_code() const {
  const auto any = [&](auto test) { return std::any_of(rows.begin(), rows.end(), test); };
  if (any([](const RowComparison& row) { return row.numeric_regression; })) {
    return kExitNumericRegression;
  }
  if (count(SpeedVerdict::slower) > 0) return kExitSpeedRegression;
  if (any([](const RowComparison& row) { return row.inconclusive; })) return kExitInconclusive;
  return 0;
}

CompareResult compare(const std::vector<StoredRows>& a, const std::vector<StoredRows>& b,
                      const CompareOptions& options) {
  if (options.paired && a.size() != b.size()) {
    throw_bad_input(
        fmt::format("compare: {} processes of A and {} of B cannot be paired", a.size(), b.size()));
  }
  if (!options.across_devices) require_common_device(a, b);
  const Sides of_a = gather(a, options.across_devices);
  const Sides of_b = gather(b, options.across_devices, 1 + options.planted_slowdown);

  CompareResult result;
  bool common = false;
  const auto add = [&](const std::string& name) {
    const auto in_a = of_a.sides.find(name);
    const auto in_b = of_b.sides.find(name);
    const bool has_a = in_a != of_a.sides.end();
    const bool has_b = in_b != of_b.sides.end();
    const Row& row = *(has_a ? in_a : in_b)->second.runs.front().row;
    RowComparison comparison;
    comparison.problem = row.problem;
    comparison.implementation = row.implementation;
    comparison.mode = row.mode;
    comparison.device = row.device;
    if (has_a && has_b) {
      common = true;
      const Side& side_a = in_a->second;
      const Side& side_b = in_b->second;
      // Not supported on either side: nothing was expected of it.
      if (side_a.any(row_status::kSkipped) && side_b.any(row_status::kSkipped)) return;
      judge_time(side_a, side_b, options, comparison);
      judge_errors(side_a, side_b, options.error_growth, comparison);
    } else {
      const Side& present = has_a ? in_a->second : in_b->second;
      if (present.any(row_status::kSkipped)) return;
      comparison.reason = has_a ? "only in A" : "only in B";
      comparison.inconclusive = has_a && present.first_ok() != nullptr;
    }
    result.rows.push_back(std::move(comparison));
  };
  for (const std::string& name : of_a.order) add(name);
  for (const std::string& name : of_b.order) {
    if (of_a.sides.count(name) == 0) add(name);
  }
  if (!common) {
    throw_bad_input("compare: A and B have no row in common (same problem, implementation, mode)");
  }
  result.notes = difference_notes(a, b);
  return result;
}

}  // namespace gdn
