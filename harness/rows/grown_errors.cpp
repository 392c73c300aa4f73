#include "harness/rows/grown_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace gdn {
namespace {

// The element type that bounds an output's rounding in a row: tokens' for what is made of tokens,
// the state's for pools.
DType stored_dtype(const Row& row, const std::string& output) {
  const Operand* operand = parse_operation(row.operation)->find_output(output);
  Problem dtypes;
  dtypes.token_dtype = parse_dtype(row.text("token_dtype"), "token_dtype");
  dtypes.output_dtype = parse_dtype(row.text("output_dtype"), "output_dtype");
  dtypes.state_dtype = parse_dtype(row.text("state_dtype"), "state_dtype");
  return operand == nullptr ? DType::float32 : operand->dtype(dtypes);
}

// Outputs that either row has errors of.
std::set<std::string> outputs_of(const Row& a, const Row& b) {
  std::set<std::string> outputs;
  for (const Row* row : {&a, &b}) {
    for (const RowError& error : row->errors) outputs.insert(error.output);
  }
  return outputs;
}

}  // namespace

double GrownError::times_allowed() const {
  const double times = now / allowed;
  return std::isnan(times) ? std::numeric_limits<double>::infinity() : times;
}

std::string GrownError::text() const {
  return fmt::format(
      "{} error {:.3g}, stored {:.3g}, limit {:.3g} "
      "({:g} x the stored error)",
      output, now, stored, allowed, growth);
}

std::vector<GrownError> grown_errors(const Row& stored, const Row& measured, double growth) {
  std::vector<GrownError> grown;
  for (const std::string& output : outputs_of(stored, measured)) {
    const double before = stored.error(output, ErrorMetric::relative_l2);
    const double error = measured.error(output, ErrorMetric::relative_l2);
    const double negligible = unit_roundoff(stored_dtype(measured, output)) / 4;
    const double limit = std::max(growth * before, negligible);
    if (!(error <= limit)) {
      grown.push_back({output, ErrorMetric::relative_l2, before, error, limit, growth});
    }
  }
  return grown;
}

}  // namespace gdn
