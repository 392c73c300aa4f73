#include "harness/explain/error_anatomy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "harness/run/element_place.h"
#include "harness/verify/worst_unit.h"

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

// Element j of the strips, strip by strip.
std::size_t place_in(const Strips& strips, std::int64_t j) {
  return static_cast<std::size_t>(strips.first + j / strips.length * strips.stride +
                                  j % strips.length);
}

// The relative error of each chunk's tokens, of those of the tokens.
std::vector<double> by_chunk(const std::vector<double>& tokens, std::int64_t chunk) {
  std::vector<double> errors;
  const auto length = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t begin = 0; begin < length; begin += chunk) {
    const std::int64_t end = std::min(length, begin + chunk);
    double squares = 0;
    for (std::int64_t t = begin; t < end; ++t) {
      const double token = tokens[static_cast<std::size_t>(t)];
      squares += token * token;
    }
    errors.push_back(std::sqrt(squares / static_cast<double>(end - begin)));
  }
  return errors;
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
    anatomy_.violation = reference.violation(anatomy_.report, outputs, anatomy_.report.limits);
  }

  Anatomy run() {
    for (const reference::OutputErrors& output : anatomy_.report.outputs) find_wrong(output);
    std::stable_sort(
        anatomy_.outputs.begin(), anatomy_.outputs.end(),
        [](const WrongOutput& a, const WrongOutput& b) { return a.excess > b.excess; });
    const reference::OutputErrors* output = anatomy_.main_output();
    if (output == nullptr) return std::move(anatomy_);
    const reference::OutputErrors* state = anatomy_.state_output();
    std::set<std::int64_t> sequences;
    std::set<std::int64_t> heads;
    for (std::size_t i = 0; i < output->units.size(); ++i) {
      const reference::UnitError& of_output = output->units[i];
      const reference::UnitError* of_state = state == nullptr ? nullptr : &state->units[i];
      const bool state_right =
          of_state == nullptr || within(*state, *of_state, anatomy_.report.limits);
      if (within(*output, of_output, anatomy_.report.limits) && state_right) continue;
      PairAnatomy pair = dissect_output(*output, of_output);
      if (of_state != nullptr) pair.state = *of_state;
      if (!state_right) dissect_state(*state, pair);
      anatomy_.wrong.push_back(std::move(pair));
      sequences.insert(of_output.where.sequence);
      heads.insert(std::max<std::int64_t>(of_output.where.head, 0));
    }
    const auto ratio = [&](const PairAnatomy& pair) {
      return limit_ratio(*output, pair.output, anatomy_.report.limits);
    };
    std::stable_sort(
        anatomy_.wrong.begin(), anatomy_.wrong.end(),
        [&](const PairAnatomy& a, const PairAnatomy& b) { return ratio(a) > ratio(b); });
    const bool by_head = output->operand->judging.per == JudgedPer::head;
    anatomy_.sequences = {p_.num_sequences(), {sequences.begin(), sequences.end()}};
    anatomy_.heads = {by_head ? p_.num_value_heads : 1, {heads.begin(), heads.end()}};
    return std::move(anatomy_);
  }

 private:
  void find_wrong(const reference::OutputErrors& output) {
    WrongOutput wrong;
    wrong.operand = output.operand;
    wrong.checked_units = static_cast<std::int64_t>(output.units.size());
    std::set<std::int64_t> sequences;
    std::set<std::int64_t> heads;
    for (const reference::UnitError& unit : output.units) {
      if (within(output, unit, anatomy_.report.limits)) continue;
      ++wrong.wrong_units;
      sequences.insert(unit.where.sequence);
      heads.insert(unit.where.head);
      const double excess = limit_ratio(output, unit, anatomy_.report.limits);
      if (!(excess > wrong.excess)) continue;
      wrong.excess = excess;
      wrong.worst = unit;
    }
    if (wrong.wrong_units == 0) return;
    const JudgedPer judged_per = output.operand->judging.per;
    if (judged_per != JudgedPer::tensor) {
      wrong.sequences = {p_.num_sequences(), {sequences.begin(), sequences.end()}};
    }
    if (judged_per == JudgedPer::head || judged_per == JudgedPer::key_head) {
      const bool of_values = judged_per == JudgedPer::head;
      wrong.heads = {of_values ? p_.num_value_heads : p_.num_key_heads,
                     {heads.begin(), heads.end()}};
    }
    look_into(output, wrong);
    anatomy_.outputs.push_back(std::move(wrong));
  }

  // The worst unit: as lines of tokens where it is cut by them, else as one line of elements.
  void look_into(const reference::OutputErrors& output, WrongOutput& wrong) const {
    const Operand& operand = *output.operand;
    const BatchPart& where = wrong.worst.where;
    const auto& actual = outputs_[output.name()];
    const auto& expected = wide_[output.name()];
    const bool whole = operand.judging.per == JudgedPer::tensor;
    if (!whole && cut_of(operand, p_) == Cut::tokens) wrong.length = inputs_.length(where.sequence);
    const auto strips = [&](std::int64_t t) -> Strips {
      if (wrong.length > 0) return strips_of(operand, inputs_, where, {t, 1});
      const auto count = static_cast<std::int64_t>(expected.size());
      return whole ? Strips{0, 1, count, count} : written_strips_of(operand, inputs_, where);
    };
    const std::int64_t rows = std::max<std::int64_t>(wrong.length, 1);
    const std::int64_t columns = strips(0).elements();
    double furthest = -1;
    std::int64_t furthest_at = 0;
    std::int64_t row = -1;
    Strips of_row;  // made once a row: a row may have thousands of elements
    const Matrix matrix = [&](std::int64_t t, std::int64_t j) {
      if (t != row) of_row = strips(row = t);
      const std::size_t at = place_in(of_row, j);
      const Element e{expected[at], actual[at]};
      const double off = e.finite() ? std::abs(e.actual - e.reference) : INFINITY;
      if (off > furthest) {
        furthest = off;
        furthest_at = static_cast<std::int64_t>(at);
        wrong.token = t;
        wrong.element = j;
        wrong.actual = e.actual;
        wrong.expected = e.reference;
      }
      return e;
    };
    const Lines lines = line_errors(matrix, rows, columns);
    wrong.furthest = element_place(operand, p_, furthest_at);
    const double limit = allowed(output, wrong.worst, anatomy_.report.limits);
    wrong.elements = above(lines.columns, limit);
    if (wrong.length == 0) return;
    wrong.tokens = above(lines.rows, limit);
    wrong.chunk_errors = by_chunk(lines.rows, anatomy_.chunk);
  }

  PairAnatomy dissect_output(const reference::OutputErrors& output,
                             const reference::UnitError& unit) const {
    PairAnatomy pair;
    pair.output = unit;
    pair.length = inputs_.length(unit.where.sequence);
    const double limit = reference::limit_of(anatomy_.report.limits, output.name())
                             .of(unit.readout, unit.norm_growth);
    const Operand& operand = *output.operand;
    const auto& actual = outputs_[output.name()];
    const auto& expected = wide_[output.name()];
    const std::int64_t columns =
        pair.length == 0 ? 0 : strips_of(operand, inputs_, unit.where, {0, 1}).elements();
    const Matrix matrix = [&](std::int64_t t, std::int64_t j) {
      const std::size_t at = place_in(strips_of(operand, inputs_, unit.where, {t, 1}), j);
      return Element{expected[at], actual[at]};
    };
    const Lines lines = line_errors(matrix, pair.length, columns);
    pair.tokens = above(lines.rows, limit);
    pair.output_columns = above(lines.columns, limit);
    pair.chunk_errors = by_chunk(lines.rows, anatomy_.chunk);
    pair.all_zero = !pair.tokens.empty();
    for (const std::int64_t t : pair.tokens.members) {
      for (std::int64_t j = 0; j < columns; ++j) {
        pair.all_zero = pair.all_zero && matrix(t, j).actual == 0;
      }
    }
    return pair;
  }

  // Of a state that is a matrix per head: its rows and columns as [Dk, Dv], whatever its layout.
  void dissect_state(const reference::OutputErrors& state, PairAnatomy& pair) const {
    if (state.operand->judging.per != JudgedPer::head) return;
    const Strips strips = written_strips_of(*state.operand, inputs_, pair.state.where);
    const std::int64_t dk = p_.key_head_dim;
    const std::int64_t dv = p_.value_head_dim;
    if (strips.elements() != dk * dv) return;
    const bool kv = p_.state_layout == StateLayout::kv;
    const Matrix matrix = [&](std::int64_t i, std::int64_t j) {
      const std::size_t at = place_in(strips, kv ? i * dv + j : j * dk + i);
      return Element{wide_[state.name()][at], outputs_[state.name()][at]};
    };
    const double limit = reference::limit_of(anatomy_.report.limits, state.name()).relative_l2;
    const Lines lines = line_errors(matrix, dk, dv);
    pair.state_rows = above(lines.rows, limit);
    pair.state_columns = above(lines.columns, limit);
  }

  const Case& inputs_;
  const Problem& p_;
  const Arrays<double>& wide_;
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

std::string WrongOutput::place() const {
  if (operand->judging.per == JudgedPer::tensor) return "";
  const std::string sequence = "sequence " + std::to_string(worst.where.sequence);
  return worst.where.head == BatchPart::kEveryHead
             ? sequence
             : sequence + (worst.where.of == Heads::key ? ", key head " : ", head ") +
                   std::to_string(worst.where.head);
}

const reference::OutputErrors* Anatomy::main_output() const {
  for (const reference::OutputErrors& output : report.outputs) {
    if (output.operand->role == Role::output && !output.operand->hand_over.on_request)
      return &output;
  }
  return nullptr;
}

const reference::OutputErrors* Anatomy::state_output() const {
  const reference::OutputErrors* output = main_output();
  for (const reference::OutputErrors& state : report.outputs) {
    if (state.operand->role != Role::in_place || output == nullptr) continue;
    if (state.operand->judging.per == output->operand->judging.per) return &state;
  }
  return nullptr;
}

Anatomy dissect(const CheckedReference& reference, const Outputs& outputs, std::int64_t chunk) {
  return Dissection(reference, outputs, chunk).run();
}

}  // namespace gdn
