// The columns of rows: the one place that names them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/files/json.h"
#include "harness/rows/row.h"
#include "interface/device.h"
#include "interface/error.h"
#include "interface/nearest_name.h"
#include "interface/parse_number.h"

namespace gdn {
namespace {

template <typename T>
RowColumn member_column(const char* name, const std::string& help, T Row::*member) {
  return {name, help, [member](const Row& row) -> FieldValue { return row.*member; },
          [member](Row& row, const FieldValue& value) { row.*member = std::get<T>(value); }};
}

std::string backend_names() {
  std::string names;
  for (const Backend& backend : backends()) names += (names.empty() ? "" : ", ") + backend.name;
  return names;
}

RowColumn field_column(const FieldColumn& column) {
  const FieldValue absent = column.get(Problem());
  return {column.name, column.help,
          [name = column.name, absent](const Row& row) {
            const auto found = row.fields.find(name);
            return found == row.fields.end() ? absent : found->second;
          },
          [name = column.name](Row& row, const FieldValue& value) { row.fields[name] = value; }};
}

std::vector<RowColumn> columns_before_fields() {
  return {
      member_column("problem", "canonical problem string", &Row::problem),
      member_column("implementation", "implementation name", &Row::implementation),
      member_column("mode", "cold, hot or verify (checked, not timed)", &Row::mode),
      member_column("operation", "operation of the problem", &Row::operation),
  };
}

std::vector<RowColumn> columns_after_fields() {
  return {
      member_column("form", "naive, recurrent, chunkwise, fused or plugin", &Row::form),
      member_column("chunk", "tokens per chunk used; 0 = not chunked", &Row::chunk),
      member_column("plan_choice", "variant, tile and split the planner chose", &Row::plan_choice),
      member_column("launches", "kernels per run", &Row::launches),
      member_column("workspace_bytes", "device memory the plan holds", &Row::workspace_bytes),
      member_column("case_bytes",
                    "device memory of inputs, outputs and state pools; 0 = not recorded",
                    &Row::case_bytes),
      member_column("backend", backend_names(), &Row::backend),
      member_column("device", "device name", &Row::device),
      member_column("driver_version", "driver version", &Row::driver_version),
      member_column("toolkit_version", "toolkit the kernels were built with",
                    &Row::toolkit_version),
      member_column("multiprocessors", "SMs, CUs or host threads", &Row::multiprocessors),
      member_column("source_hash", "SHA-256 of the kernel, reference and harness sources",
                    &Row::source_hash),
      member_column("source_commit",
                    "Git commit of the sources, +changes where they differed; empty: not known",
                    &Row::source_commit),
      member_column("plugin_hash", "SHA-256 of the plug-in's file; empty: of this build",
                    &Row::plugin_hash),
      member_column("library_version", "library version", &Row::library_version),
      member_column("date", "UTC, ISO 8601", &Row::date),
      member_column("command", "command line that made the row", &Row::command),
      member_column("status", "ok, failed, skipped, out_of_memory or device_failure", &Row::status),
      member_column("reason", "why, when not ok", &Row::reason),
      member_column("non_finite", "NaN or Inf where the reference is finite", &Row::non_finite),
      member_column("checked_pairs", "(sequence, value head) pairs compared", &Row::checked_pairs),
      member_column("total_pairs", "pairs in the problem", &Row::total_pairs),
      member_column("verified_before", "1: outputs verified before timing", &Row::verified_before),
      member_column("verified_after", "1: outputs of a timed launch verified after timing",
                    &Row::verified_after),
      member_column("time_ms", "median time of one run", &Row::time_ms),
      member_column("time_first_quartile_ms", "first quartile", &Row::time_first_quartile_ms),
      member_column("time_third_quartile_ms", "third quartile", &Row::time_third_quartile_ms),
      member_column("time_min_ms", "shortest sample", &Row::time_min_ms),
      member_column("time_max_ms", "longest sample", &Row::time_max_ms),
      member_column("time_relative_spread", "interquartile range over median",
                    &Row::time_relative_spread),
      member_column("planning_ms", "host time of planning", &Row::planning_ms),
      member_column("first_call_ms", "host time of the first run, to completion",
                    &Row::first_call_ms),
      member_column("clock_mhz", "median device clock over the samples; 0 = not known",
                    &Row::clock_mhz),
      member_column(
          "power_w",
          "board power as sampling ended, the driver's mean of about a second, gaps included",
          &Row::power_w),
      member_column("power_limit_w", "the limit the driver enforces", &Row::power_limit_w),
      member_column("memory_clock_mhz", "memory clock as sampling ended", &Row::memory_clock_mhz),
      member_column("temperature_c", "of the device as sampling ended", &Row::temperature_c),
      member_column("sample_count", "timed runs", &Row::sample_count),
      member_column("throttled_count", "of them, at a clock well below the highest: left out",
                    &Row::throttled_count),
      member_column("mostly_throttled", "1: more than half were, and none was left out",
                    &Row::mostly_throttled),
      member_column("modelled_time", "1: the time comes from a model", &Row::modelled_time),
      member_column("stop_reason", "why sampling ended", &Row::stop_reason),
      member_column("tokens_per_s", "tokens of non-padding sequences per second",
                    &Row::tokens_per_s),
      member_column("chunkwise_tflops",
                    "TFLOP/s by the dense products of the chunkwise form; see count_chunk",
                    &Row::chunkwise_tflops),
      member_column("count_chunk", "C of that count", &Row::count_chunk),
      member_column("recurrent_tflops", "TFLOP/s, 7 Dk Dv per token and value head",
                    &Row::recurrent_tflops),
      member_column("bytes_moved", "each input once, each output once", &Row::bytes_moved),
      member_column("tb_per_s", "bytes_moved over time", &Row::tb_per_s),
      member_column("fraction_of_compute",
                    "chunkwise rate over the matrix (16-bit) or float32 ceiling",
                    &Row::fraction_of_compute),
      member_column("fraction_of_bandwidth", "compulsory traffic over the copy ceiling",
                    &Row::fraction_of_bandwidth),
      member_column("ceiling_copy_tb_per_s", "measured copy bandwidth",
                    &Row::ceiling_copy_tb_per_s),
      member_column("ceiling_matrix_tflops", "measured 16-bit matrix rate; 0 = not measured",
                    &Row::ceiling_matrix_tflops),
      member_column("ceiling_float32_tflops", "measured float32 rate",
                    &Row::ceiling_float32_tflops),
      member_column("first_sample", "index of the first sample in /samples", &Row::first_sample),
      member_column("first_error", "index of the first line in /errors", &Row::first_error),
      member_column("error_count", "lines of /errors", &Row::error_count),
  };
}

std::vector<RowColumn> make_columns() {
  std::vector<RowColumn> columns = columns_before_fields();
  for (const ProblemField& field : problem_fields()) {
    for (const FieldColumn& column : field.columns) columns.push_back(field_column(column));
  }
  for (RowColumn& column : columns_after_fields()) columns.push_back(std::move(column));
  return columns;
}

// ---- columns of errors

constexpr const char* kByPosition = "error_by_position";

struct MetricHelp {
  ErrorMetric metric;
  const char* help;
};
constexpr MetricHelp kMetrics[] = {
    {ErrorMetric::relative_l2, "relative L2 error of the worst unit"},
    {ErrorMetric::floor, "the same of the rounded reference, of that unit"},
    {ErrorMetric::floor_ratio, "relative L2 error over the rounding floor, of that unit"},
    {ErrorMetric::scaled_max, "largest error over largest magnitude, of that unit"},
    {ErrorMetric::limit, "relative L2 error that the arithmetic allows that unit"},
    {ErrorMetric::limit_ratio, "relative L2 error over that limit"},
};

RowColumn metric_column(const std::string& output, const MetricHelp& metric) {
  return {output + "_" + name_of(metric.metric), output + ": " + metric.help,
          [output, metric = metric.metric](const Row& row) -> FieldValue {
            return row.error(output, metric);
          },
          nullptr};
}

RowColumn by_position_column(const std::string& output) {
  return {output + "_" + kByPosition,
          output + ": relative L2 error by window of tokens, worst unit: first token:error ...",
          [output](const Row& row) -> FieldValue {
            std::string text;
            for (const RowError& window : position_errors(row, output)) {
              text += fmt::format("{}{}:{:.3g}", text.empty() ? "" : " ", window.first_token,
                                  window.value);
            }
            return text;
          },
          nullptr};
}

// Outputs of every operation, no name twice.
std::vector<std::string> known_outputs() {
  std::vector<std::string> outputs;
  for (const Operation operation : operations()) {
    for (const Operand& operand : operation->operands) {
      const std::string& name = operand.output_name();
      const bool known = std::find(outputs.begin(), outputs.end(), name) != outputs.end();
      if (operand.is_output() && !operand.hand_over.between_steps && !known)
        outputs.push_back(name);
    }
  }
  return outputs;
}

std::vector<RowColumn> columns_of_output(const std::string& output) {
  std::vector<RowColumn> columns;
  for (const MetricHelp& metric : kMetrics) columns.push_back(metric_column(output, metric));
  columns.push_back(by_position_column(output));
  return columns;
}

const std::vector<RowColumn>& every_error_column() {
  static const std::vector<RowColumn> all = [] {
    std::vector<RowColumn> columns;
    for (const std::string& output : known_outputs()) {
      for (RowColumn& column : columns_of_output(output)) columns.push_back(std::move(column));
    }
    return columns;
  }();
  return all;
}

std::string without_alias(const std::string& name) {
  return name.rfind("state_", 0) == 0 ? "final_" + name : name;
}

}  // namespace

template <>
const EnumNames<ErrorMetric>& names_of() {
  static const EnumNames<ErrorMetric> names = {{"relative_l2", ErrorMetric::relative_l2},
                                               {"floor", ErrorMetric::floor},
                                               {"floor_ratio", ErrorMetric::floor_ratio},
                                               {"scaled_max", ErrorMetric::scaled_max},
                                               {"limit", ErrorMetric::limit},
                                               {"limit_ratio", ErrorMetric::limit_ratio}};
  return names;
}

bool RowColumn::is_text() const { return std::holds_alternative<std::string>(get(Row())); }
bool RowColumn::is_real() const { return std::holds_alternative<double>(get(Row())); }

const std::vector<RowColumn>& row_columns() {
  static const std::vector<RowColumn> columns = make_columns();
  return columns;
}

std::vector<RowColumn> error_columns(const std::vector<Row>& rows) {
  std::vector<std::string> outputs;
  for (const Row& row : rows) {
    for (const RowError& error : row.errors) {
      if (std::find(outputs.begin(), outputs.end(), error.output) == outputs.end()) {
        outputs.push_back(error.output);
      }
    }
  }
  std::vector<RowColumn> columns;
  for (const std::string& output : outputs) {
    for (RowColumn& column : columns_of_output(output)) columns.push_back(std::move(column));
  }
  return columns;
}

std::vector<RowColumn> columns_of(const std::vector<Row>& rows) {
  std::vector<RowColumn> columns = row_columns();
  for (RowColumn& column : error_columns(rows)) columns.push_back(std::move(column));
  return columns;
}

std::vector<RowColumn> known_columns() {
  std::vector<RowColumn> columns = row_columns();
  const std::vector<RowColumn>& errors = every_error_column();
  columns.insert(columns.end(), errors.begin(), errors.end());
  return columns;
}

RowColumn find_row_column(const std::string& name) {
  std::vector<std::string> names;
  for (const RowColumn& column : row_columns()) {
    if (column.name == name) return column;
    names.push_back(column.name);
  }
  // "state_dtype" is a column: the alias comes last.
  for (const RowColumn& column : every_error_column()) {
    if (column.name == name || column.name == without_alias(name)) return column;
    names.push_back(column.name);
  }
  throw_bad_input("column '" + name + "' is unknown (did you mean '" + nearest_name(name, names) +
                  "'?)");
}

std::string value_text(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  const double real = std::get<double>(value);
  return std::isnan(real) ? "" : shortest_text(real);
}

std::string column_text(const Row& row, const RowColumn& column) {
  return value_text(column.get(row));
}

std::string rows_json_schema() {
  std::vector<std::pair<std::string, std::string>> properties;
  std::vector<std::string> names;
  for (const RowColumn& column : row_columns()) {
    // A number that is not finite is null.
    const std::string type = column.is_text()   ? json_string("string")
                             : column.is_real() ? json_strings({"number", "null"})
                                                : json_string("integer");
    properties.emplace_back(
        column.name, json_object({{"type", type}, {"description", json_string(column.help)}}));
    names.push_back(column.name);
  }
  const std::string row = json_object({{"type", json_string("object")},
                                       {"properties", json_object(properties)},
                                       {"required", json_strings(names)}});
  return json_object(
      {{"$schema", json_string("https://json-schema.org/draft/2020-12/schema")},
       {"$id", json_string("urn:gdnbench:gdn-rows:2")},
       {"title", json_string(std::string(kRowsSchema) + ": what gdnbench rows --json prints")},
       {"type", json_string("array")},
       {"items", row}});
}

}  // namespace gdn
