#include "harness/error_anatomy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace gdn {
namespace {

constexpr std::int64_t kDefaultChunk = 64;

// Reference and actual value of one element.
struct Element {
  double reference = 0;
  double actual = 0;
  bool finite() const { return std::isfinite(reference) && std::isfinite(actual); }
};
using Matrix = std::function<Element(std::int64_t row, std::int64_t column)>;

// Root mean square error of each line against that of the reference over all lines; infinite where
// anything is not finite.
struct Lines {
  std::vector<double> rows;
  std::vector<double> columns;
};

Lines line_errors(const Matrix& matrix, std::int64_t num_rows, std::int64_t num_columns) {
  Lines lines{std::vector<double>(static_cast<std::size_t>(num_rows), 0.0),
              std::vector<double>(static_cast<std::size_t>(num_columns), 0.0)};
  double squares = 0;
  for (std::int64_t i = 0; i < num_rows; ++i) {
    for (std::int64_t j = 0; j < num_columns; ++j) {
      const Element e = matrix(i, j);
      const double error = e.finite() ? e.actual - e.reference : INFINITY;
      lines.rows[static_cast<std::size_t>(i)] += error * error;
      lines.columns[static_cast<std::size_t>(j)] += error * error;
      if (std::isfinite(e.reference)) squares += e.reference * e.reference;
    }
  }
  // Relative to the mean line: sqrt(mean over lines of error^2) is the relative L2 of the whole.
  const auto relative = [&](std::vector<double>& errors) {
    const double mean = squares / static_cast<double>(std::max<std::size_t>(errors.size(), 1));
    for (double& error : errors) {
      if (error > 0) error = mean > 0 ? std::sqrt(error / mean) : INFINITY;
    }
  };
  relative(lines.rows);
  relative(lines.columns);
  return lines;
}

WrongSet above(const std::vector<double>& errors, double limit) {
  WrongSet set;
  set.total = static_cast<std::int64_t>(errors.size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!(errors[i] <= limit)) set.members.push_back(static_cast<std::int64_t>(i));
  }
  return set;
}

class Dissection {
 public:
  Dissection(const CheckedReference& reference, const Outputs& outputs, std::int64_t chunk)
      : inputs_(reference.inputs()),
        p_(inputs_.problem),
        wide_(reference.wide()),
        outputs_(outputs) {
    anatomy_.chunk = chunk > 0 ? chunk : kDefaultChunk;
    anatomy_.report = reference.compare(outputs);
    anatomy_.violation = reference::first_violation(anatomy_.report, anatomy_.report.limits);
  }

  Anatomy run() {
    std::set<std::int64_t> sequences;
    std::set<std::int64_t> heads;
    for (const reference::HeadError& error : anatomy_.report.heads) {
      if (reference::within(error.output, anatomy_.report.limits.output_of(error)) &&
          reference::within(error.state, state_limit(error))) {
        continue;
      }
      anatomy_.wrong.push_back(dissect_pair(error));
      sequences.insert(error.where.sequence);
      heads.insert(error.where.value_head);
    }
    std::stable_sort(anatomy_.wrong.begin(), anatomy_.wrong.end(),
                     [](const PairAnatomy& a, const PairAnatomy& b) {
                       return a.error.output.relative_l2 > b.error.output.relative_l2;
                     });
    anatomy_.sequences = {p_.num_sequences(), {sequences.begin(), sequences.end()}};
    anatomy_.heads = {is_convolution() ? 1 : p_.num_value_heads, {heads.begin(), heads.end()}};
    return std::move(anatomy_);
  }

 private:
  bool is_convolution() const { return p_.operation == Operation::causal_conv1d; }
  // Windows are copies: their limit is their own rounding floor.
  double state_limit(const reference::HeadError& error) const {
    return is_convolution() ? error.state.floor : anatomy_.report.limits.state;
  }

  PairAnatomy dissect_pair(const reference::HeadError& error) const {
    PairAnatomy pair;
    pair.error = error;
    const std::int64_t n = error.where.sequence;
    const std::int64_t h = error.where.value_head;
    const std::int64_t first = inputs_.sequence_offsets[static_cast<std::size_t>(n)];
    pair.length = p_.sequences.lengths[static_cast<std::size_t>(n)];
    const double limit = anatomy_.report.limits.output_of(error);
    const std::int64_t columns = is_convolution() ? p_.conv_channels() : p_.value_head_dim;
    const bool by_time = is_convolution() && p_.conv_layout == ConvLayout::time;
    const auto& actual = is_convolution() ? outputs_.conv_output : outputs_.output;
    const auto& expected = is_convolution() ? wide_.conv_output : wide_.output;
    const Matrix output = [&](std::int64_t t, std::int64_t j) {
      const std::int64_t at = by_time ? j * p_.total_tokens() + first + t
                              : is_convolution()
                                  ? (first + t) * columns + j
                                  : ((first + t) * p_.num_value_heads + h) * columns + j;
      return Element{expected[static_cast<std::size_t>(at)], actual[static_cast<std::size_t>(at)]};
    };
    const Lines lines = line_errors(output, pair.length, columns);
    pair.tokens = above(lines.rows, limit);
    pair.output_columns = above(lines.columns, limit);
    for (std::int64_t begin = 0; begin < pair.length; begin += anatomy_.chunk) {
      const std::int64_t end = std::min(pair.length, begin + anatomy_.chunk);
      double squares = 0;
      for (std::int64_t t = begin; t < end; ++t) {
        const double token = lines.rows[static_cast<std::size_t>(t)];
        squares += token * token;
      }
      pair.chunk_errors.push_back(std::sqrt(squares / static_cast<double>(end - begin)));
    }
    pair.all_zero = !pair.tokens.empty();
    for (const std::int64_t t : pair.tokens.members) {
      for (std::int64_t j = 0; j < columns; ++j) {
        pair.all_zero = pair.all_zero && output(t, j).actual == 0;
      }
    }
    if (!is_convolution() && p_.final_state &&
        !reference::within(error.state, state_limit(error))) {
      dissect_state(pair);
    }
    return pair;
  }

  void dissect_state(PairAnatomy& pair) const {
    const std::int64_t n = pair.error.where.sequence;
    const std::int64_t slot =
        inputs_.slot_index.empty() ? n : inputs_.slot_index[static_cast<std::size_t>(n)];
    const std::int64_t dk = p_.key_head_dim;
    const std::int64_t dv = p_.value_head_dim;
    const std::int64_t slab = slot * p_.state_row_stride() + pair.error.where.value_head * dk * dv;
    const Matrix state = [&](std::int64_t i, std::int64_t j) {
      const bool kv = p_.state_layout == StateLayout::kv;
      const auto at = static_cast<std::size_t>(slab + (kv ? i * dv + j : j * dk + i));
      return Element{wide_.state_pool[at], outputs_.state_pool[at]};
    };
    const Lines lines = line_errors(state, dk, dv);
    pair.state_rows = above(lines.rows, anatomy_.report.limits.state);
    pair.state_columns = above(lines.columns, anatomy_.report.limits.state);
  }

  const Case& inputs_;
  const Problem& p_;
  const reference::WideOutputs<double>& wide_;
  const Outputs& outputs_;
  Anatomy anatomy_;
};

}  // namespace

std::string WrongSet::to_string() const {
  std::string text;
  int runs = 0;
  for (std::size_t i = 0; i < members.size();) {
    std::size_t end = i;
    while (end + 1 < members.size() && members[end + 1] == members[end] + 1) ++end;
    if (++runs > 4) {
      text += ", ...";
      break;
    }
    text += (text.empty() ? "" : ", ") + std::to_string(members[i]) +
            (end > i ? " .. " + std::to_string(members[end]) : "");
    i = end + 1;
  }
  return (text.empty() ? "none" : text) + " (" + std::to_string(members.size()) + " of " +
         std::to_string(total) + ")";
}

Anatomy dissect(const CheckedReference& reference, const Outputs& outputs, std::int64_t chunk) {
  return Dissection(reference, outputs, chunk).run();
}

}  // namespace gdn
