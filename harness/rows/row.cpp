#include "harness/rows/row.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/rows/build_info.h"
#include "interface/error.h"
#include "plugin/from_file.h"

namespace gdn {
namespace {

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

// The value of a problem's column in a row; that of a default problem where the row lacks it.
FieldValue field_of(const Row& row, std::string_view name) {
  const auto found = row.fields.find(name);
  if (found != row.fields.end()) return found->second;
  for (const ProblemField& field : problem_fields()) {
    for (const FieldColumn& column : field.columns) {
      if (column.name == name) return column.get(Problem());
    }
  }
  throw_bad_input("row: no field of a problem has a column '" + std::string(name) + "'");
}

}  // namespace

std::int64_t Row::integer(std::string_view column) const {
  const FieldValue value = field_of(*this, column);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  throw_bad_input("row: column '" + std::string(column) + "' is not an integer");
}

std::string Row::text(std::string_view column) const {
  const FieldValue value = field_of(*this, column);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  throw_bad_input("row: column '" + std::string(column) + "' is not a text");
}

double Row::error(std::string_view output, ErrorMetric metric) const {
  for (const RowError& error : errors) {
    if (error.output == output && error.metric == metric && error.first_token == RowError::kWhole) {
      return error.value;
    }
  }
  return kNotMeasured;
}

std::vector<RowError> position_errors(const Row& row, std::string_view output) {
  std::vector<RowError> windows;
  for (const RowError& error : row.errors) {
    if (error.output == output && error.first_token != RowError::kWhole) windows.push_back(error);
  }
  std::sort(windows.begin(), windows.end(),
            [](const RowError& a, const RowError& b) { return a.first_token < b.first_token; });
  return windows;
}

void describe_problem(const Problem& problem, Row& row) {
  row.problem = problem.to_string();
  row.operation = to_string(problem.operation);
  for (const ProblemField& field : problem_fields()) {
    for (const FieldColumn& column : field.columns) row.fields[column.name] = column.get(problem);
  }
}

void describe_implementation(const Implementation& implementation, Row& row) {
  const Description& description = implementation.description();
  row.implementation = description.name;
  row.form = description.form;
  if (const auto* const from = dynamic_cast<const FromFile*>(&implementation)) {
    row.plugin_hash = from->file_hash();
  }
}

void describe_plan(const PlanInfo& plan, Row& row) {
  row.chunk = plan.chunk;
  row.plan_choice = plan.choice;
  row.launches = plan.launches;
  row.workspace_bytes = plan.workspace_bytes;
}

void describe_device(const DeviceInfo& device, Row& row) {
  row.backend = device.backend;
  row.device = device.name;
  row.driver_version = device.driver_version;
  row.toolkit_version = device.toolkit_version;
  row.multiprocessors = device.multiprocessors;
  row.modelled_time = device.modelled_time ? 1 : 0;
}

void describe_errors(const reference::ErrorReport& report, Row& row) {
  row.errors.clear();
  for (const reference::OutputErrors& output : report.outputs) {
    const reference::UnitError& worst = output.worst();
    const double limit = reference::allowed(output, worst, report.limits);
    const auto add = [&](ErrorMetric metric, double value) {
      row.errors.push_back({output.name(), metric, RowError::kWhole, value});
    };
    add(ErrorMetric::relative_l2, worst.error.relative_l2);
    add(ErrorMetric::floor, worst.error.floor);
    if (output.is_measured_in_floors) add(ErrorMetric::floor_ratio, worst.error.floor_ratio);
    add(ErrorMetric::scaled_max, worst.error.scaled_max);
    add(ErrorMetric::limit, limit);
    // A copy may have no error at all: 0 of nothing is nothing.
    const bool exact = worst.error.relative_l2 == 0;
    add(ErrorMetric::limit_ratio, exact ? 0 : worst.error.relative_l2 / limit);
    for (const reference::PositionError& window : output.positions) {
      row.errors.push_back(
          {output.name(), ErrorMetric::relative_l2, window.first_token, window.relative_l2});
    }
  }
  row.non_finite = report.non_finite;
  row.checked_pairs = report.checked_pairs;
  row.total_pairs = report.total_pairs;
}

void describe_build(Row& row) {
  row.source_hash = source_hash();
  row.source_commit = source_commit();
  row.library_version = library_version();
  row.date = utc_now();
}

}  // namespace gdn
