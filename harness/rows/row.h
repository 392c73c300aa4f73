// Row: everything known about one implementation on one problem: what was asked, what ran, on what,
// how far from the reference, how long it took. One row type serves verification, sweeps, tables,
// comparisons and error baselines. Its columns are described once, in row_columns(); those of the
// problem are its fields' (interface/problem_fields.cpp), and errors are lines of their own, one for
// each output and metric, whatever the operation.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "interface/device.h"
#include "interface/enum_names.h"
#include "interface/implementation.h"
#include "interface/problem.h"
#include "reference/errors.h"

namespace gdn {

/// Version of the row format; the file attribute `schema` of every rows file.
inline constexpr const char* kRowsSchema = "gdn-rows/2";

/// Values of Row::status.
namespace row_status {
inline constexpr const char* kOk = "ok";            ///< every check passed
inline constexpr const char* kFailed = "failed";    ///< a check failed; reason says which
inline constexpr const char* kSkipped = "skipped";  ///< not supported here; reason in words
inline constexpr const char* kOutOfMemory = "out_of_memory";     ///< device or host memory
inline constexpr const char* kDeviceFailure = "device_failure";  ///< a driver call or kernel failed
}  // namespace row_status

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

/// Values of Row::mode beside "cold" and "hot": checked, not timed.
inline constexpr const char* kVerifyMode = "verify";

/// What is measured of an output against the float64 reference.
enum class ErrorMetric {
  relative_l2,  ///< of the worst unit; with a first token, of the worst unit in a window of tokens
  floor,        ///< the same of the rounded reference, of that unit
  /// relative_l2 over the floor; only where errors are measured in it
  /// (reference::OutputErrors::is_measured_in_floors)
  floor_ratio,
  scaled_max,   ///< largest error over largest magnitude, of that unit
  limit,        ///< what the arithmetic allows that unit
  limit_ratio,  ///< relative_l2 over the limit
};
template <>
const EnumNames<ErrorMetric>& names_of<ErrorMetric>();

struct RowError {
  static constexpr std::int64_t kWhole = -1;
  std::string output;  ///< "output", "final_state", "conv_output", ...
  ErrorMetric metric = ErrorMetric::relative_l2;
  std::int64_t first_token = kWhole;  ///< of a window of tokens within the sequence
  double value = kNotMeasured;

  bool operator==(const RowError&) const = default;
};

struct Row {
  // ---- identity: problem, implementation, mode
  std::string problem;         ///< canonical string
  std::string implementation;  ///< "cuda/fused"
  std::string mode;            ///< "cold", "hot" or "verify"

  // ---- the problem, split
  std::string operation;
  /// The columns of the problem's fields (ProblemField::columns) by name.
  std::map<std::string, FieldValue, std::less<>> fields;

  // ---- what ran
  std::string form;        ///< "naive", "recurrent", "chunkwise", "fused", "plugin"
  std::int64_t chunk = 0;  ///< tokens per chunk used; 0 = not chunked
  std::string plan_choice;
  std::int64_t launches = 0;
  std::int64_t workspace_bytes = 0;
  std::int64_t case_bytes = 0;  ///< of inputs, outputs and state pools; 0 = not recorded

  // ---- on what, from what, when
  std::string backend;
  std::string device;
  std::string driver_version;
  std::string toolkit_version;
  std::int64_t multiprocessors = 0;
  std::string source_hash;    ///< of kernel, reference and harness sources at build time
  std::string source_commit;  ///< of Git, at build time; empty: not known
  std::string plugin_hash;    ///< SHA-256 of the plug-in's file; empty: of this build
  std::string library_version;
  std::string date;     ///< UTC, ISO 8601
  std::string command;  ///< the command line that made the row

  // ---- outcome
  std::string status;
  std::string reason;  ///< empty when ok

  // ---- errors against the float64 reference
  std::vector<RowError> errors;
  std::int64_t non_finite = 0;
  std::int64_t checked_pairs = 0;
  std::int64_t total_pairs = 0;
  std::int64_t verified_before = 0;  ///< 1: outputs verified before the timing
  std::int64_t verified_after = 0;   ///< 1: and those of a timed launch after it

  // ---- time of one run; NaN = not timed
  double time_ms = kNotMeasured;  ///< median of the samples counted
  double time_first_quartile_ms = kNotMeasured;
  double time_third_quartile_ms = kNotMeasured;
  double time_min_ms = kNotMeasured;
  double time_max_ms = kNotMeasured;
  double time_relative_spread = kNotMeasured;
  double planning_ms = kNotMeasured;    ///< host time of plan()
  double first_call_ms = kNotMeasured;  ///< host time of the first run, to completion
  double clock_mhz = kNotMeasured;      ///< median over the samples; 0 = not known
  double power_w = kNotMeasured;        ///< of the card, as the sampling ended
  double power_limit_w = kNotMeasured;
  double memory_clock_mhz = kNotMeasured;
  double temperature_c = kNotMeasured;
  std::int64_t sample_count = 0;
  std::int64_t throttled_count = 0;   ///< samples tagged: their clock was well below the highest
  std::int64_t mostly_throttled = 0;  ///< 1: more than half tagged, none left out
  std::int64_t modelled_time = 0;     ///< 1: the time comes from a model, not from a clock
  std::string stop_reason;

  // ---- derived; conventions in harness/measure/work_count.h
  double tokens_per_s = kNotMeasured;
  double chunkwise_tflops = kNotMeasured;
  std::int64_t count_chunk = 0;  ///< C of the chunkwise count
  double recurrent_tflops = kNotMeasured;
  double bytes_moved = kNotMeasured;
  double tb_per_s = kNotMeasured;
  double fraction_of_compute = kNotMeasured;
  double fraction_of_bandwidth = kNotMeasured;
  double ceiling_copy_tb_per_s = kNotMeasured;
  double ceiling_matrix_tflops = kNotMeasured;
  double ceiling_float32_tflops = kNotMeasured;

  // ---- what lies beside the rows of a file: entries [first_sample, first_sample + sample_count) of
  // /samples, and of /errors
  std::int64_t first_sample = 0;
  std::int64_t first_error = 0;
  std::int64_t error_count = 0;

  bool ok() const { return status == row_status::kOk; }
  /// Identity of what the row measures: problem, implementation, mode.
  std::string key() const { return problem + " " + implementation + " " + mode; }

  /// Columns of the problem's fields; what a row of an earlier version lacks is at its default.
  /// Throws Error(bad_input) for a column that is none, or of another kind.
  std::int64_t integer(std::string_view column) const;
  std::string text(std::string_view column) const;

  /// Of the whole output; NaN where it was not measured.
  double error(std::string_view output, ErrorMetric metric) const;
};

/// One column: its name in files, tables and CSV, what it holds, and how it is read and written.
struct RowColumn {
  std::string name;
  std::string help;  ///< meaning and unit
  std::function<FieldValue(const Row&)> get;
  /// The value is of the kind that `get` returns; null for what is computed.
  std::function<void(Row&, const FieldValue&)> set;

  bool is_text() const;
  bool is_real() const;
};
/// Every column but those of errors, in the order of files.
const std::vector<RowColumn>& row_columns();
/// The JSON schema (2020-12) of rows that are printed as JSON with every column. Later rows may have more columns.
std::string rows_json_schema();
/// The columns of errors that any of the rows has: OUTPUT_METRIC ("output_relative_l2",
/// "final_state_floor_ratio"), and OUTPUT_error_by_position: "0:0.0021 64:0.0023 ...", relative L2 in
/// the window that begins at each token, the worst unit.
std::vector<RowColumn> error_columns(const std::vector<Row>& rows);
/// row_columns(), then error_columns().
std::vector<RowColumn> columns_of(const std::vector<Row>& rows);

/// row_columns(), then the columns of errors of every operation.
std::vector<RowColumn> known_columns();

/// Any of row_columns(), or a column of errors of any operation; "state_" is taken for
/// "final_state_". Throws Error(bad_input) with the nearest name.
RowColumn find_row_column(const std::string& name);
/// The value as text: strings as they are, numbers in the shortest form that reads back the same,
/// NaN as "".
std::string column_text(const Row& row, const RowColumn& column);
std::string value_text(const FieldValue& value);

/// Error over position in the sequence, in order.
std::vector<RowError> position_errors(const Row& row, std::string_view output);

/// Fill parts of a row.
void describe_problem(const Problem& problem, Row& row);
void describe_implementation(const Implementation& implementation, Row& row);
void describe_plan(const PlanInfo& plan, Row& row);
void describe_device(const DeviceInfo& device, Row& row);
void describe_errors(const reference::ErrorReport& report, Row& row);
/// source_hash, source_commit, library_version, date (now).
void describe_build(Row& row);

}  // namespace gdn
