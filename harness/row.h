// Row: everything known about one implementation on one problem, flat: what was asked, what ran, on
// what, how far from the reference, how long it took. One row type serves verification, sweeps,
// tables, comparisons and error baselines; its columns are described once, in row_columns().
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "interface/device.h"
#include "interface/implementation.h"
#include "interface/problem.h"
#include "reference/errors.h"

namespace gdn {

/// Version of the row format; the file attribute `schema` of every rows file.
inline constexpr const char* kRowsSchema = "gdn-rows/1";

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

struct Row {
  // ---- identity: problem, implementation, mode
  std::string problem;         ///< canonical string
  std::string implementation;  ///< "cuda/fused"
  std::string mode;            ///< "cold", "hot" or "verify"

  // ---- the problem's fields, split
  std::string operation;
  std::int64_t num_key_heads = 0;
  std::int64_t num_value_heads = 0;
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::string sequences;  ///< "4x8192"
  std::int64_t num_sequences = 0;
  std::int64_t total_tokens = 0;
  std::int64_t longest_sequence = 0;
  std::string token_dtype;
  std::string output_dtype;
  std::string state_dtype;
  std::string state_layout;
  std::string initial_state;
  std::string gates;
  std::string betas;
  std::string keys;
  std::string update = "delta";  ///< "delta" or "additive"
  std::int64_t steps = 1;        ///< Householder steps per token
  std::string decay = "head";    ///< one decay per "head", or per "channel"
  std::int64_t normalize_qk = 0;
  std::int64_t requested_chunk = 0;  ///< 0 = the implementation's choice
  std::int64_t seed = 0;
  std::string case_file;

  // ---- what ran
  std::string form;        ///< "naive", "recurrent", "chunkwise", "fused"
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
  std::string source_hash;  ///< of kernel, reference and harness sources at build time
  std::string library_version;
  std::string date;     ///< UTC, ISO 8601
  std::string command;  ///< the command line that made the row

  // ---- outcome
  std::string status;
  std::string reason;  ///< empty when ok

  // ---- errors against the float64 reference: the worst (sequence, value head); NaN = not measured
  double output_relative_l2 = kNotMeasured;
  double output_floor = kNotMeasured;
  double output_floor_ratio = kNotMeasured;
  double output_scaled_max = kNotMeasured;
  /// Output error over position in the sequence, worst head: "0:0.0021 64:0.0023 ...", relative L2
  /// in the window that begins at each token; at most 32 windows. See position_errors().
  std::string output_error_by_position;
  double state_relative_l2 = kNotMeasured;
  double state_floor = kNotMeasured;
  double state_floor_ratio = kNotMeasured;
  double state_scaled_max = kNotMeasured;
  double conv_output_relative_l2 = kNotMeasured;
  double conv_output_floor_ratio = kNotMeasured;
  double conv_state_relative_l2 = kNotMeasured;
  double conv_state_floor_ratio = kNotMeasured;
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

  // ---- derived; conventions in harness/work_count.h
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

  // ---- samples beside the rows: entries [first_sample, first_sample + sample_count) of /samples
  std::int64_t first_sample = 0;

  bool ok() const { return status == row_status::kOk; }
  /// Identity of what the row measures: problem, implementation, mode.
  std::string key() const { return problem + " " + implementation + " " + mode; }
};

/// One column: its name in files, tables and CSV, what it holds, and where it lies in a Row.
struct RowColumn {
  using Member = std::variant<std::string Row::*, double Row::*, std::int64_t Row::*>;
  std::string name;
  std::string help;  ///< meaning and unit
  Member member;
};
const std::vector<RowColumn>& row_columns();

/// Throws Error(bad_input) with the nearest name.
const RowColumn& find_row_column(const std::string& name);
/// The value as text: strings as they are, numbers in the shortest form that reads back the same,
/// NaN as "".
std::string column_text(const Row& row, const RowColumn& column);

/// Column output_error_by_position taken apart; empty if the row has none. Throws Error(bad_input).
struct PositionErrorText {
  std::int64_t first_token = 0;
  double relative_l2 = 0;
};
std::vector<PositionErrorText> position_errors(const Row& row);

/// Fill parts of a row.
void describe_problem(const Problem& problem, Row& row);
void describe_implementation(const Implementation& implementation, Row& row);
void describe_plan(const PlanInfo& plan, Row& row);
void describe_device(const DeviceInfo& device, Row& row);
void describe_errors(const reference::ErrorReport& report, Row& row);
/// source_hash, library_version, date (now).
void describe_build(Row& row);

}  // namespace gdn
