#include "harness/plugin/told_results.h"

#include "interface/error.h"

namespace gdn {
namespace {

using reference::Conditioning;
using reference::ErrorReport;
using reference::OutputErrors;

void put_conditioning(Message& message, const Conditioning& of) {
  message.put(of.inverse_growth);
  message.put(of.cancellation);
  message.put(of.memory_tokens);
  message.put(of.chunk_log_decay);
  message.put(of.chunk);
  message.put_list(of.readouts);
  message.put_list(of.norm_growths);
}

Conditioning get_conditioning(Message& message) {
  Conditioning of;
  of.inverse_growth = message.get<double>();
  of.cancellation = message.get<double>();
  of.memory_tokens = message.get<double>();
  of.chunk_log_decay = message.get<double>();
  of.chunk = message.get<double>();
  of.readouts = message.get_list<double>();
  of.norm_growths = message.get_list<double>();
  return of;
}

void put_report(Message& message, const ErrorReport& report) {
  message.put(report.outputs.size());
  for (const OutputErrors& output : report.outputs) {
    message.put_text(output.operand->name);
    message.put(output.is_measured_in_floors);
    message.put_list(output.units);
    message.put_list(output.positions);
    message.put(output.worst_unit);
  }
  put_conditioning(message, report.conditioning);
  message.put(report.limits.size());
  for (const auto& [output, limit] : report.limits) {
    message.put_text(output);
    message.put(limit);
  }
  for (const std::int64_t count :
       {report.checked_pairs, report.total_pairs, report.non_finite, report.reference_non_finite,
        report.untouched_changed, report.padding_nonzero}) {
    message.put(count);
  }
}

ErrorReport get_report(Message& message, Operation operation) {
  ErrorReport report;
  for (std::size_t left = message.get_count(); left > 0; --left) {
    OutputErrors output;
    output.operand = &operation->at(message.get_text());
    output.is_measured_in_floors = message.get<bool>();
    output.units = message.get_list<reference::UnitError>();
    output.positions = message.get_list<reference::PositionError>();
    output.worst_unit = message.get<std::size_t>();
    if (output.worst_unit >= output.units.size()) {
      throw Error(ErrorKind::device_failure, "the process answered with a unit that is none");
    }
    report.outputs.push_back(std::move(output));
  }
  report.conditioning = get_conditioning(message);
  for (std::size_t left = message.get_count(); left > 0; --left) {
    std::string output = message.get_text();
    report.limits.emplace(std::move(output), message.get<reference::OutputLimit>());
  }
  for (std::int64_t* const count :
       {&report.checked_pairs, &report.total_pairs, &report.non_finite,
        &report.reference_non_finite, &report.untouched_changed, &report.padding_nonzero}) {
    *count = message.get<std::int64_t>();
  }
  return report;
}

// The kind of a value is the column's, known to both sides.
void put_value(Message& message, const FieldValue& value) {
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) return message.put(*integer);
  if (const auto* const real = std::get_if<double>(&value)) return message.put(*real);
  message.put_text(std::get<std::string>(value));
}

FieldValue get_value(Message& message, const RowColumn& column) {
  if (column.is_text()) return message.get_text();
  if (column.is_real()) return message.get<double>();
  return message.get<std::int64_t>();
}

}  // namespace

void put_result(Message& message, const VerifyResult& result) {
  message.put(result.verdict);
  message.put_text(result.reason);
  put_report(message, result.report);
  message.put(result.checks.size());
  for (const Check& check : result.checks) {
    message.put_text(check.name);
    message.put(check.result);
    message.put_text(check.detail);
  }
}

VerifyResult get_result(Message& message, Operation operation) {
  VerifyResult result;
  result.verdict = message.get<Verdict>();
  result.reason = message.get_text();
  result.report = get_report(message, operation);
  for (std::size_t left = message.get_count(); left > 0; --left) {
    Check check;
    check.name = message.get_text();
    check.result = message.get<Check::Result>();
    check.detail = message.get_text();
    result.checks.push_back(std::move(check));
  }
  return result;
}

void put_row(Message& message, const Row& row, const std::vector<TimeSample>& samples) {
  for (const RowColumn& column : row_columns()) {
    if (column.set) put_value(message, column.get(row));
  }
  message.put(row.errors.size());
  for (const RowError& error : row.errors) {
    message.put_text(error.output);
    message.put(error.metric);
    message.put(error.first_token);
    message.put(error.value);
  }
  message.put_list(samples);
}

Row get_row(Message& message, std::vector<TimeSample>& samples) {
  Row row;
  for (const RowColumn& column : row_columns()) {
    if (column.set) column.set(row, get_value(message, column));
  }
  for (std::size_t left = message.get_count(); left > 0; --left) {
    RowError error;
    error.output = message.get_text();
    error.metric = message.get<ErrorMetric>();
    error.first_token = message.get<std::int64_t>();
    error.value = message.get<double>();
    row.errors.push_back(std::move(error));
  }
  samples = message.get_list<TimeSample>();
  return row;
}

void put_options(Message& message, const SweepOptions& options) {
  message.put(options.measure);
  message.put(options.time);
  message.put(options.full_verify);
  message.put(options.verify);
  message.put(options.retry_failed);
  message.put_text(options.command);
}

SweepOptions get_options(Message& message) {
  SweepOptions options;
  options.measure = message.get<MeasureOptions>();
  options.time = message.get<bool>();
  options.full_verify = message.get<bool>();
  options.verify = message.get<VerifyOptions>();
  options.retry_failed = message.get<bool>();
  options.command = message.get_text();
  return options;
}

}  // namespace gdn
