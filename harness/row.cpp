#include "harness/row.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>

#include "harness/build_info.h"
#include "harness/work_count.h"
#include "interface/error.h"

namespace gdn {
namespace {

std::string field_text(const Problem& problem, const std::string& key) {
  for (const ProblemField& field : problem_fields()) {
    if (field.key == key) return field.get(problem);
  }
  throw_bad_input("row: Problem has no field '" + key + "'");
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

}  // namespace

const std::vector<RowColumn>& row_columns() {
  static const std::vector<RowColumn> columns = {
      {"problem", "canonical problem string", &Row::problem},
      {"implementation", "implementation name", &Row::implementation},
      {"mode", "cold, hot or verify (checked, not timed)", &Row::mode},
      {"operation", "gated_delta, causal_conv1d or gated_delta_layer", &Row::operation},
      {"num_key_heads", "Hk", &Row::num_key_heads},
      {"num_value_heads", "Hv", &Row::num_value_heads},
      {"key_head_dim", "Dk", &Row::key_head_dim},
      {"value_head_dim", "Dv", &Row::value_head_dim},
      {"sequences", "sequence lengths, COUNTxLENGTH joined by +", &Row::sequences},
      {"num_sequences", "N", &Row::num_sequences},
      {"total_tokens", "T", &Row::total_tokens},
      {"longest_sequence", "tokens of the longest sequence", &Row::longest_sequence},
      {"token_dtype", "element type of tokens", &Row::token_dtype},
      {"output_dtype", "element type of the output", &Row::output_dtype},
      {"state_dtype", "element type of the state pool", &Row::state_dtype},
      {"state_layout", "kv or vk", &Row::state_layout},
      {"initial_state", "absent, normal or large", &Row::initial_state},
      {"gates", "distribution of log_decay", &Row::gates},
      {"betas", "distribution of beta", &Row::betas},
      {"keys", "distribution of keys", &Row::keys},
      {"update", "delta or additive", &Row::update},
      {"steps", "Householder steps per token", &Row::steps},
      {"decay", "one decay per head, or per channel of the key", &Row::decay},
      {"normalize_qk", "1: q and k are normalised in the kernel", &Row::normalize_qk},
      {"requested_chunk", "chunk asked for; 0 = the implementation chooses", &Row::requested_chunk},
      {"seed", "seed of the inputs", &Row::seed},
      {"case_file", "case file of the inputs; empty = generated", &Row::case_file},
      {"form", "naive, recurrent, chunkwise or fused", &Row::form},
      {"chunk", "tokens per chunk used; 0 = not chunked", &Row::chunk},
      {"plan_choice", "variant, tile and split the planner chose", &Row::plan_choice},
      {"launches", "kernels per run", &Row::launches},
      {"workspace_bytes", "device memory the plan holds", &Row::workspace_bytes},
      {"case_bytes", "device memory of inputs, outputs and state pools; 0 = not recorded",
       &Row::case_bytes},
      {"backend", "cpu, cuda, hip or gfx906-emulator", &Row::backend},
      {"device", "device name", &Row::device},
      {"driver_version", "driver version", &Row::driver_version},
      {"toolkit_version", "toolkit the kernels were built with", &Row::toolkit_version},
      {"multiprocessors", "SMs, CUs or host threads", &Row::multiprocessors},
      {"source_hash", "SHA-256 of the kernel, reference and harness sources", &Row::source_hash},
      {"library_version", "library version", &Row::library_version},
      {"date", "UTC, ISO 8601", &Row::date},
      {"command", "command line that made the row", &Row::command},
      {"status", "ok, failed, skipped, out_of_memory or device_failure", &Row::status},
      {"reason", "why, when not ok", &Row::reason},
      {"output_relative_l2", "worst head: relative L2 error of the output",
       &Row::output_relative_l2},
      {"output_floor", "the same of the rounded reference, at that head", &Row::output_floor},
      {"output_floor_ratio", "worst head: output error over the rounding floor",
       &Row::output_floor_ratio},
      {"output_scaled_max", "worst head: largest output error over largest magnitude",
       &Row::output_scaled_max},
      {"output_error_by_position",
       "relative L2 error of the output by window of tokens, worst head: first token:error ...",
       &Row::output_error_by_position},
      {"state_relative_l2", "worst head: relative L2 error of the final state",
       &Row::state_relative_l2},
      {"state_floor", "the same of the rounded reference, at that head", &Row::state_floor},
      {"state_floor_ratio", "worst head: state error over the rounding floor",
       &Row::state_floor_ratio},
      {"state_scaled_max", "worst head: largest state error over largest magnitude",
       &Row::state_scaled_max},
      {"conv_output_relative_l2", "relative L2 error of the convolution output",
       &Row::conv_output_relative_l2},
      {"conv_output_floor_ratio", "the same over its rounding floor",
       &Row::conv_output_floor_ratio},
      {"conv_state_relative_l2", "relative L2 error of the convolution window",
       &Row::conv_state_relative_l2},
      {"conv_state_floor_ratio", "the same over its rounding floor", &Row::conv_state_floor_ratio},
      {"non_finite", "NaN or Inf where the reference is finite", &Row::non_finite},
      {"checked_pairs", "(sequence, value head) pairs compared", &Row::checked_pairs},
      {"total_pairs", "pairs in the problem", &Row::total_pairs},
      {"verified_before", "1: outputs verified before timing", &Row::verified_before},
      {"verified_after", "1: outputs of a timed launch verified after timing",
       &Row::verified_after},
      {"time_ms", "median time of one run", &Row::time_ms},
      {"time_first_quartile_ms", "first quartile", &Row::time_first_quartile_ms},
      {"time_third_quartile_ms", "third quartile", &Row::time_third_quartile_ms},
      {"time_min_ms", "shortest sample", &Row::time_min_ms},
      {"time_max_ms", "longest sample", &Row::time_max_ms},
      {"time_relative_spread", "interquartile range over median", &Row::time_relative_spread},
      {"planning_ms", "host time of planning", &Row::planning_ms},
      {"first_call_ms", "host time of the first run, to completion", &Row::first_call_ms},
      {"clock_mhz", "median device clock over the samples; 0 = not known", &Row::clock_mhz},
      {"power_w",
       "board power as sampling ended, the driver's mean of about a second, gaps included",
       &Row::power_w},
      {"power_limit_w", "the limit the driver enforces", &Row::power_limit_w},
      {"memory_clock_mhz", "memory clock as sampling ended", &Row::memory_clock_mhz},
      {"temperature_c", "of the device as sampling ended", &Row::temperature_c},
      {"sample_count", "timed runs", &Row::sample_count},
      {"throttled_count", "of them, at a clock well below the highest: left out",
       &Row::throttled_count},
      {"mostly_throttled", "1: more than half were, and none was left out", &Row::mostly_throttled},
      {"modelled_time", "1: the time comes from a model", &Row::modelled_time},
      {"stop_reason", "why sampling ended", &Row::stop_reason},
      {"tokens_per_s", "tokens of non-padding sequences per second", &Row::tokens_per_s},
      {"chunkwise_tflops", std::string("TFLOP/s, ") + kChunkwiseCount + "; " + kVariantCount,
       &Row::chunkwise_tflops},
      {"count_chunk", "C of that count", &Row::count_chunk},
      {"recurrent_tflops", "TFLOP/s, 7 Dk Dv per token and value head", &Row::recurrent_tflops},
      {"bytes_moved", "each input once, each output once", &Row::bytes_moved},
      {"tb_per_s", "bytes_moved over time", &Row::tb_per_s},
      {"fraction_of_compute", "chunkwise rate over the matrix (16-bit) or float32 ceiling",
       &Row::fraction_of_compute},
      {"fraction_of_bandwidth", "compulsory traffic over the copy ceiling",
       &Row::fraction_of_bandwidth},
      {"ceiling_copy_tb_per_s", "measured copy bandwidth", &Row::ceiling_copy_tb_per_s},
      {"ceiling_matrix_tflops", "measured 16-bit matrix rate; 0 = not measured",
       &Row::ceiling_matrix_tflops},
      {"ceiling_float32_tflops", "measured float32 rate", &Row::ceiling_float32_tflops},
      {"first_sample", "index of the first sample in /samples", &Row::first_sample},
  };
  return columns;
}

const RowColumn& find_row_column(const std::string& name) {
  std::vector<std::string> names;
  for (const RowColumn& column : row_columns()) {
    if (column.name == name) return column;
    names.push_back(column.name);
  }
  throw_bad_input("column '" + name + "' is unknown (did you mean '" + nearest_name(name, names) +
                  "'?)");
}

std::string column_text(const Row& row, const RowColumn& column) {
  if (const auto* text = std::get_if<std::string Row::*>(&column.member)) return row.**text;
  if (const auto* integer = std::get_if<std::int64_t Row::*>(&column.member)) {
    return std::to_string(row.**integer);
  }
  const double value = row.*std::get<double Row::*>(column.member);
  if (std::isnan(value)) return "";
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

void describe_problem(const Problem& problem, Row& row) {
  row.problem = problem.to_string();
  row.operation = to_string(problem.operation);
  row.num_key_heads = problem.num_key_heads;
  row.num_value_heads = problem.num_value_heads;
  row.key_head_dim = problem.key_head_dim;
  row.value_head_dim = problem.value_head_dim;
  row.sequences = problem.sequences.to_string();
  row.num_sequences = problem.num_sequences();
  row.total_tokens = problem.total_tokens();
  row.longest_sequence = problem.sequences.longest();
  row.token_dtype = short_name(problem.token_dtype);
  row.output_dtype = short_name(problem.effective_output_dtype());
  row.state_dtype = short_name(problem.state_dtype);
  row.state_layout = field_text(problem, "layout");
  row.initial_state = field_text(problem, "h0");
  row.gates = field_text(problem, "gates");
  row.betas = field_text(problem, "betas");
  row.keys = field_text(problem, "keys");
  row.update = field_text(problem, "update");
  row.steps = problem.steps;
  row.decay = field_text(problem, "decay");
  row.normalize_qk = problem.normalize_qk ? 1 : 0;
  row.requested_chunk = problem.chunk;
  row.seed = static_cast<std::int64_t>(problem.seed);
  row.case_file = problem.case_file;
}

void describe_implementation(const Implementation& implementation, Row& row) {
  const Description& description = implementation.description();
  row.implementation = description.name;
  row.form = description.form;
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

std::vector<PositionErrorText> position_errors(const Row& row) {
  std::vector<PositionErrorText> windows;
  const char* at = row.output_error_by_position.data();
  const char* const end = at + row.output_error_by_position.size();
  while (at != end) {
    PositionErrorText window;
    const auto token = std::from_chars(at, end, window.first_token);
    const bool colon = token.ec == std::errc() && token.ptr != end && *token.ptr == ':';
    const auto error = colon ? std::from_chars(token.ptr + 1, end, window.relative_l2) : token;
    if (!colon || error.ec != std::errc() || (error.ptr != end && *error.ptr != ' ')) {
      throw_bad_input("row '" + row.key() + "': output_error_by_position '" +
                      row.output_error_by_position + "', expected 'TOKEN:ERROR TOKEN:ERROR ...'");
    }
    windows.push_back(window);
    at = error.ptr == end ? end : error.ptr + 1;
  }
  return windows;
}

void describe_errors(const reference::ErrorReport& report, Row& row) {
  const reference::TensorError& output = report.worst_output.output;
  const reference::TensorError& state = report.worst_state.state;
  if (report.checked_pairs > 0 && row.operation != to_string(Operation::causal_conv1d)) {
    row.output_relative_l2 = output.relative_l2;
    row.output_floor = output.floor;
    row.output_floor_ratio = output.floor_ratio;
    row.output_scaled_max = output.scaled_max;
    row.output_error_by_position.clear();
    for (const reference::PositionError& window : report.positions) {
      row.output_error_by_position +=
          fmt::format("{}{}:{:.3g}", row.output_error_by_position.empty() ? "" : " ",
                      window.first_token, window.relative_l2);
    }
    row.state_relative_l2 = state.relative_l2;
    row.state_floor = state.floor;
    row.state_floor_ratio = state.floor_ratio;
    row.state_scaled_max = state.scaled_max;
  }
  if (row.operation != to_string(Operation::gated_delta)) {
    row.conv_output_relative_l2 = report.conv_output.relative_l2;
    row.conv_output_floor_ratio = report.conv_output.floor_ratio;
    row.conv_state_relative_l2 = report.conv_state.relative_l2;
    row.conv_state_floor_ratio = report.conv_state.floor_ratio;
  }
  row.non_finite = report.non_finite;
  row.checked_pairs = report.checked_pairs;
  row.total_pairs = report.total_pairs;
}

void describe_build(Row& row) {
  row.source_hash = source_hash();
  row.library_version = library_version();
  row.date = utc_now();
}

}  // namespace gdn
