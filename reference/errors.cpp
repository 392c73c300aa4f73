#include "reference/errors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <sstream>

#include "interface/channel_quantization.h"
#include "interface/error.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFullPrecision = 0x1p-102;

// Sums of one tensor (or a part of one), element by element.
class ErrorSums {
 public:
  explicit ErrorSums(DType stored = DType::float32) : stored_(stored) {}

  /// Relative to `scale`, which is the reference itself where nothing else is said.
  void add(double reference, float actual) { add(reference, actual, reference); }
  void add(double reference, float actual, double scale) {
    if (!std::isfinite(reference) || !std::isfinite(scale)) {
      ++reference_non_finite_;
      return;
    }
    const float rounded = round_to(stored_, static_cast<float>(reference));
    if (!std::isfinite(rounded) || !std::isfinite(actual)) {
      if (actual != rounded) ++non_finite_;  // NaN is unequal to everything
      return;
    }
    ++count_;
    all_zero_ = all_zero_ && reference == 0 && scale == 0;
    const double error = static_cast<double>(actual) - reference;
    const double rounding = static_cast<double>(rounded) - reference;
    error_squares_ += error * error;
    rounding_squares_ += rounding * rounding;
    reference_squares_ += scale * scale;
    max_error_ = std::max(max_error_, std::abs(error));
    max_reference_ = std::max(max_reference_, std::abs(scale));
  }

  /// Of an integer times its scale, whose rounding may be as large as `half_step`; `rounded` is the reference's.
  void add_product(double reference, double actual, double rounded, double half_step) {
    if (!std::isfinite(reference)) {
      ++reference_non_finite_;
      return;
    }
    if (!std::isfinite(actual)) {
      ++non_finite_;
      return;
    }
    ++count_;
    all_zero_ = all_zero_ && reference == 0;
    const double error = std::abs(actual - reference);
    const double beyond = std::max(error - half_step, 0.0);
    error_squares_ += error * error;
    rounding_squares_ += (rounded - reference) * (rounded - reference);
    reference_squares_ += reference * reference;
    half_step_squares_ += half_step * half_step;
    beyond_squares_ += beyond * beyond;
    max_error_ = std::max(max_error_, error);
    max_beyond_ = std::max(max_beyond_, beyond);
    max_reference_ = std::max(max_reference_, std::abs(reference));
  }

  void add(const ErrorSums& other) {
    count_ += other.count_;
    all_zero_ = all_zero_ && other.all_zero_;
    non_finite_ += other.non_finite_;
    reference_non_finite_ += other.reference_non_finite_;
    error_squares_ += other.error_squares_;
    rounding_squares_ += other.rounding_squares_;
    reference_squares_ += other.reference_squares_;
    max_error_ = std::max(max_error_, other.max_error_);
    max_reference_ = std::max(max_reference_, other.max_reference_);
  }

  std::int64_t reference_non_finite() const { return reference_non_finite_; }

  double relative_l2() const {
    if (non_finite_ > 0 || reference_non_finite_ > 0) return kInfinity;
    return relative(error_squares_, max_error_);
  }

  TensorError finish() const {
    TensorError result;
    result.non_finite = non_finite_;
    result.relative_l2 = relative_l2();
    // A rounding error is at most the reference itself: zero wherever the reference is.
    result.floor = relative(rounding_squares_, 0);
    result.floor_ratio = result.relative_l2 / std::max(result.floor, unit_roundoff(stored_) / 4);
    result.half_steps = relative(half_step_squares_, 0);
    result.beyond_half_steps = relative(beyond_squares_, max_beyond_);
    if (non_finite_ > 0 || reference_non_finite_ > 0) {
      result.scaled_max = kInfinity;
    } else if (max_error_ > 0) {
      result.scaled_max =
          all_zero_ ? kInfinity : max_error_ / std::max(max_reference_, kFullPrecision);
    }
    return result;
  }

 private:
  double relative(double squares, double largest) const {
    if (all_zero_) return largest > 0 ? kInfinity : 0;
    const double least = kFullPrecision * std::sqrt(static_cast<double>(count_));
    return std::sqrt(squares) / std::max(std::sqrt(reference_squares_), least);
  }

  DType stored_;
  std::int64_t count_ = 0;
  /// Of references, and of what they are relative to: squares of terms vanish before the terms do.
  bool all_zero_ = true;
  std::int64_t non_finite_ = 0;
  std::int64_t reference_non_finite_ = 0;
  double error_squares_ = 0;
  double rounding_squares_ = 0;
  double reference_squares_ = 0;
  double half_step_squares_ = 0;
  double beyond_squares_ = 0;
  double max_error_ = 0;
  double max_beyond_ = 0;
  double max_reference_ = 0;
};

void require_size(const char* name, std::size_t actual, std::size_t expected) {
  if (actual != expected) {
    throw_bad_input(std::string(name) + ": holds " + std::to_string(actual) + " values, expected " +
                    std::to_string(expected));
  }
}

// Bits the stored form of `input` has once widened again: the value a kernel that leaves it alone
// hands back (NaN payloads of a 16-bit pool are those of the 16-bit type).
bool same_bits(DType stored, float input, float output) {
  return std::bit_cast<std::uint32_t>(round_to(stored, input)) ==
         std::bit_cast<std::uint32_t>(output);
}

struct Windows {
  std::int64_t tokens = 64;  // per window
  std::int64_t count = 0;
};

Windows position_windows(std::int64_t longest) {
  Windows windows;
  while (windows.tokens * 32 < longest) windows.tokens *= 2;
  windows.count = (longest + windows.tokens - 1) / windows.tokens;
  return windows;
}

class Comparison {
 public:
  Comparison(const Case& inputs, const Arrays<double>& reference, const Outputs& outputs,
             const Conditioning& conditioning, const EvaluationOptions& options)
      : inputs_(inputs),
        p_(inputs.problem),
        reference_(reference),
        outputs_(outputs),
        options_(options),
        scaled_(scaled_output(p_)),
        windows_(position_windows(p_.sequences.longest())) {
    report_.conditioning = conditioning;
    report_.limits = error_limits(p_, conditioning);
  }

  ErrorReport run() {
    for (const Operand& operand : p_.operation->operands) {
      if (!operand.is_output() || operand.hand_over.between_steps || !is_present(operand, p_))
        continue;
      if (is_given(operand)) compare_output(operand);
    }
    return std::move(report_);
  }

 private:
  // False of what may be missing and is; throws if it is there in another size, or must not be
  // missing.
  bool is_given(const Operand& operand) const {
    const std::string& name = operand.output_name();
    const auto* values = outputs_.find(name);
    const std::size_t expected = operand.role == Role::in_place
                                     ? inputs_[operand.name].size()
                                     : static_cast<std::size_t>(element_count(operand, p_));
    const bool missing = values == nullptr || values->empty();
    // Over the whole batch, of which only some pairs were evaluated.
    if (operand.judging.per == JudgedPer::tensor && !options_.pairs.empty()) return false;
    if (missing && expected > 0 && (operand.hand_over.on_request || !is_written(operand, p_)))
      return false;
    require_size(name.c_str(), values == nullptr ? 0 : values->size(), expected);
    require_size(("reference " + name).c_str(), reference_[name].size(), expected);
    return true;
  }

  // Whether the reference holds what belongs to the sequence: of a sample it may have evaluated that
  // of the sample's sequences alone, or of all (a convolution in front of a recurrence).
  bool is_evaluated(const Operand& operand, std::int64_t sequence,
                    const std::vector<std::int64_t>& sampled) const {
    if (std::binary_search(sampled.begin(), sampled.end(), sequence)) return true;
    const auto& values = reference_[operand.output_name()];
    bool held = true;
    written_strips_of(operand, inputs_, {sequence}).for_each([&](std::int64_t i) {
      held = held && !std::isnan(values[static_cast<std::size_t>(i)]);
    });
    return held;
  }

  // The units of an output that the reference holds, in order; and how many there are in all.
  std::vector<BatchPart> units_of(const Operand& operand) {
    std::vector<BatchPart> units;
    std::int64_t total = 1;
    switch (operand.judging.per) {
      case JudgedPer::tensor:
        units.push_back({});
        break;
      case JudgedPer::sequence: {
        total = p_.num_sequences();
        const std::vector<std::int64_t> sampled = sequences_of(p_, options_);
        for (std::int64_t n = 0; n < total; ++n) {
          if (is_evaluated(operand, n, sampled)) units.push_back({n});
        }
        break;
      }
      case JudgedPer::key_head:
        total = p_.num_sequences() * p_.num_key_heads;
        for (const SequenceHead& pair : key_pairs_of(p_, options_)) {
          units.push_back({pair.sequence, pair.value_head, Heads::key});
        }
        break;
      case JudgedPer::head:
        total = p_.num_sequences() * p_.num_value_heads;
        for (const SequenceHead& pair : pairs_of(p_, options_)) {
          units.push_back({pair.sequence, pair.value_head});
        }
        break;
    }
    if (total > report_.total_pairs) {
      report_.total_pairs = total;
      report_.checked_pairs = static_cast<std::int64_t>(units.size());
    }
    return units;
  }

  void compare_output(const Operand& operand) {
    OutputErrors output;
    output.operand = &operand;
    output.is_measured_in_floors =
        unit_roundoff(operand.dtype(p_)) >= unit_roundoff(p_.token_dtype);
    const Cut cut = cut_of(operand, p_);
    if (cut == Cut::tokens) {
      for (std::int64_t i = 0; i < windows_.count; ++i) {
        output.positions.push_back({i * windows_.tokens, windows_.tokens, 0});
      }
      if (windows_.count > 0) {
        PositionError& last = output.positions.back();
        last.num_tokens = p_.sequences.longest() - last.first_token;
      }
    }
    const std::vector<BatchPart> units = units_of(operand);
    output.units.resize(units.size());
    const std::vector<double>& readouts = report_.conditioning.readouts;
    const bool has_readouts = operand.judging.per == JudgedPer::head && !readouts.empty();
    if (has_readouts) require_size("readouts", readouts.size(), units.size());
    const std::vector<double>& growths = report_.conditioning.norm_growths;
    const bool has_growths = operand.judging.per == JudgedPer::head && !growths.empty();
    if (has_growths) require_size("norm_growths", growths.size(), units.size());
    parallel_for(static_cast<std::int64_t>(units.size()), options_.threads, [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      output.units[at].where = units[at];
      if (has_readouts) output.units[at].readout = readouts[at];
      if (has_growths) output.units[at].norm_growth = growths[at];
      compare_unit(operand, output.units[at], output.positions);
    });
    const auto by_error = [](const UnitError& a, const UnitError& b) {
      return a.error.relative_l2 < b.error.relative_l2;
    };
    const auto worst = std::max_element(output.units.begin(), output.units.end(), by_error);
    output.worst_unit = static_cast<std::size_t>(worst - output.units.begin());
    if (cut == Cut::pool_rows && operand.role == Role::in_place) count_untouched(operand);
    report_.outputs.push_back(std::move(output));
  }

  void compare_unit(const Operand& operand, UnitError& unit,
                    std::vector<PositionError>& positions) {
    const DType stored = operand.dtype(p_);
    const auto& expected = reference_[operand.output_name()];
    const auto& actual = outputs_[operand.output_name()];
    const std::vector<double>& scale =
        operand.judging.by_terms ? reference_[operand.output_name() + "_terms"] : expected;
    const BatchPart part = unit.where;
    const Cut cut = cut_of(operand, p_);
    const bool padding = cut == Cut::tokens && operand.judging.per != JudgedPer::tensor &&
                         inputs_.slot(part.sequence) < 0;
    std::int64_t padding_nonzero = 0;
    // Of a sample, what belongs to heads that were not evaluated (channels of a convolution in front of a
    // recurrence) is not judged.
    const bool may_be_in_part =
        operand.judging.per == JudgedPer::sequence && !options_.pairs.empty();
    const auto add = [&](const Strips& strips, ErrorSums& sums) {
      strips.for_each([&](std::int64_t i) {
        if (may_be_in_part && std::isnan(expected[static_cast<std::size_t>(i)])) return;
        const float value = actual[static_cast<std::size_t>(i)];
        sums.add(expected[static_cast<std::size_t>(i)], value, scale[static_cast<std::size_t>(i)]);
        if (padding && value != 0.0f) ++padding_nonzero;
      });
    };
    ErrorSums whole(stored);
    std::int64_t unfilled = 0;
    std::vector<double> by_position;
    if (operand.judging.per == JudgedPer::tensor) {
      const auto count = static_cast<std::int64_t>(expected.size());
      add({0, 1, count, count}, whole);
    } else if (cut == Cut::tokens) {
      const std::int64_t length = inputs_.length(part.sequence);
      for (std::int64_t begin = 0; begin < length; begin += windows_.tokens) {
        ErrorSums window(stored);
        const std::int64_t count = std::min(windows_.tokens, length - begin);
        add(strips_of(operand, inputs_, part, {begin, count}), window);
        by_position.push_back(window.relative_l2());
        whole.add(window);
      }
    } else if (&operand == scaled_) {
      unfilled = add_products(operand, part, whole);
    } else if (cut != Cut::pool_rows || writes_row(operand, inputs_, part.sequence)) {
      add(written_strips_of(operand, inputs_, part), whole);
    }
    unit.error = whole.finish();
    unit.error.unfilled_channels = unfilled;
    const std::lock_guard lock(mutex_);
    report_.non_finite += unit.error.non_finite;
    report_.reference_non_finite += whole.reference_non_finite();
    report_.padding_nonzero += padding_nonzero;
    for (std::size_t i = 0; i < by_position.size(); ++i) {
      positions[i].relative_l2 = std::max(positions[i].relative_l2, by_position[i]);
    }
  }

  // Of an output with scales: the products of the part's channels. How many of the channels are not filled.
  std::int64_t add_products(const Operand& operand, const BatchPart& part, ErrorSums& sums) const {
    const Operand& of_scales = scales_of(operand, *p_.operation);
    const auto& expected = reference_[operand.name];
    const auto& expected_scales = reference_[of_scales.name];
    const auto& actual = outputs_[operand.name];
    const auto& actual_scales = outputs_[of_scales.name];
    const ChannelLayout layout = channel_layout(operand, p_);
    std::int64_t unfilled = 0;
    written_strips_of(of_scales, inputs_, part).for_each([&](std::int64_t channel) {
      const double scale = actual_scales[static_cast<std::size_t>(channel)];
      const double right_scale = expected_scales[static_cast<std::size_t>(channel)];
      // A channel that is too small for a scale is one of zeros.
      const double half_step =
          right_scale == 0 ? 0 : std::max(right_scale / 2, double{kLargestInt8} * kSmallestScale);
      float largest = 0;
      for (std::int64_t i = 0; i < layout.extent; ++i) {
        const auto at = static_cast<std::size_t>(layout.place(channel, i));
        sums.add_product(expected[at] * right_scale, double{actual[at]} * scale,
                         std::nearbyint(expected[at]) * right_scale, half_step);
        largest = std::max(largest, std::abs(actual[at]));
      }
      if (largest != (scale == 0 ? 0.0f : static_cast<float>(kLargestInt8)) || scale < 0)
        ++unfilled;
    });
    return unfilled;
  }

  void count_untouched(const Operand& operand) {
    const auto& before = inputs_[operand.name];
    const auto& after = outputs_[operand.output_name()];
    const DType stored = operand.dtype(p_);
    const std::int64_t stride = row_stride(operand, p_);
    const std::int64_t used = row_elements(operand, p_);
    const std::int64_t rows = static_cast<std::int64_t>(before.size()) / stride;
    std::vector<bool> written(static_cast<std::size_t>(rows), false);
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      if (writes_row(operand, inputs_, n))
        written[static_cast<std::size_t>(inputs_.output_slot(n))] = true;
    }
    parallel_for(rows, options_.threads, [&](std::int64_t row) {
      const std::int64_t begin = row * stride + (written[static_cast<std::size_t>(row)] ? used : 0);
      std::int64_t changed = 0;
      for (std::int64_t i = begin; i < (row + 1) * stride; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (!same_bits(stored, before[at], after[at])) ++changed;
      }
      if (changed == 0) return;
      const std::lock_guard lock(mutex_);
      report_.untouched_changed += changed;
    });
  }

  const Case& inputs_;
  const Problem& p_;
  const Arrays<double>& reference_;
  const Outputs& outputs_;
  const EvaluationOptions& options_;
  const Operand* scaled_;  // the output with scales, or null
  Windows windows_;
  ErrorReport report_;
  std::mutex mutex_;
};

std::string place(const OutputErrors& output, const UnitError& unit) {
  if (output.operand->judging.per == JudgedPer::tensor) return "";
  std::string text = " of sequence " + std::to_string(unit.where.sequence);
  if (unit.where.head != BatchPart::kEveryHead) {
    text +=
        (unit.where.of == Heads::key ? ", key head " : ", head ") + std::to_string(unit.where.head);
  }
  return text;
}

std::string describe(const OutputErrors& output, const UnitError& unit, double limit) {
  const TensorError& error = unit.error;
  std::ostringstream text;
  text.precision(3);
  text << output.name() << place(output, unit) << ": ";
  if (error.non_finite > 0) text << error.non_finite << " values not finite, ";
  text << "relative L2 error " << error.relative_l2 << " (" << error.floor_ratio
       << "x the rounding floor), limit " << limit;
  if (output.operand->judging.is_copy) text << " (a copy of inputs)";
  if (error.unfilled_channels > 0) {
    text << "; " << error.unfilled_channels << " channels whose largest element is not "
         << kLargestInt8;
  }
  if (error.beyond_half_steps > limit - error.half_steps) {
    text << "; " << error.beyond_half_steps << " beyond half a step of each element, limit "
         << limit - error.half_steps;
  }
  return text.str();
}

// How far above what is allowed; more than 1 is a violation.
double excess(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits) {
  if (within(output, unit, limits)) return 0;
  const double ratio = of_limit(output, unit, limits);
  return ratio > 0 ? ratio : kInfinity;
}

}  // namespace

const OutputErrors* ErrorReport::find(std::string_view output) const {
  for (const OutputErrors& errors : outputs) {
    if (errors.name() == output) return &errors;
  }
  return nullptr;
}

const OutputErrors& ErrorReport::operator[](std::string_view output) const {
  if (const OutputErrors* errors = find(output)) return *errors;
  throw_bad_input("error report: no output " + std::string(output) + " was judged");
}

ErrorReport compare(const Case& inputs, const Arrays<double>& reference, const Outputs& outputs,
                    const EvaluationOptions& options) {
  return compare(inputs, reference, outputs, measure_conditioning(inputs, reference, options),
                 options);
}

ErrorReport compare(const Case& inputs, const Arrays<double>& reference, const Outputs& outputs,
                    const Conditioning& conditioning, const EvaluationOptions& options) {
  return Comparison(inputs, reference, outputs, conditioning, options).run();
}

double allowed(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits) {
  if (output.operand->judging.is_copy) return unit.error.floor;
  const double limit = limit_of(limits, output.name()).of(unit.readout, unit.norm_growth);
  // Half a step is what the stored type makes of any value, the smallest ones too.
  if (unit.error.half_steps > 0) return limit + unit.error.half_steps;
  return std::max(limit, 4 * unit.error.floor);
}

double of_limit(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits) {
  const TensorError& error = unit.error;
  if (error.non_finite > 0 || error.unfilled_channels > 0) return kInfinity;
  if (error.relative_l2 == 0) return 0;
  const double limit = allowed(output, unit, limits);
  double ratio = error.relative_l2 / limit;
  if (error.beyond_half_steps > 0)
    ratio = std::max(ratio, error.beyond_half_steps / (limit - error.half_steps));
  return ratio >= 0 ? ratio : kInfinity;  // NaN is the worst too
}

bool within(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits) {
  const TensorError& error = unit.error;
  const double limit = allowed(output, unit, limits);
  return error.non_finite == 0 && error.unfilled_channels == 0 && error.relative_l2 <= limit &&
         error.beyond_half_steps <= limit - error.half_steps;
}

std::string violation(const ErrorReport& report, const ErrorLimits& limits) {
  if (report.reference_non_finite > 0) {
    return "reference: " + std::to_string(report.reference_non_finite) +
           " values not finite: nothing can be judged against them";
  }
  double furthest = 0;
  std::string line;
  for (const OutputErrors& output : report.outputs) {
    for (const UnitError& unit : output.units) {
      const double above = excess(output, unit, limits);
      if (!(above > furthest)) continue;
      furthest = above;
      line = describe(output, unit, allowed(output, unit, limits));
    }
  }
  if (!line.empty()) return line;
  if (report.untouched_changed > 0) {
    return "pool: " + std::to_string(report.untouched_changed) +
           " elements changed that no sequence may write";
  }
  if (report.padding_nonzero > 0) {
    return "output: " + std::to_string(report.padding_nonzero) +
           " values of sequences with slot -1 are not zero";
  }
  if (report.non_finite > 0) {
    return "outputs: " + std::to_string(report.non_finite) + " values not finite";
  }
  return {};
}

}  // namespace gdn::reference
