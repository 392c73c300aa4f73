#include "reference/errors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <sstream>

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

  void add(double reference, float actual) {
    if (!std::isfinite(reference)) {
      ++reference_non_finite_;
      return;
    }
    const float rounded = round_to(stored_, static_cast<float>(reference));
    if (!std::isfinite(rounded) || !std::isfinite(actual)) {
      if (actual != rounded) ++non_finite_;  // NaN is unequal to everything
      return;
    }
    ++count_;
    const double error = static_cast<double>(actual) - reference;
    const double rounding = static_cast<double>(rounded) - reference;
    error_squares_ += error * error;
    rounding_squares_ += rounding * rounding;
    reference_squares_ += reference * reference;
    max_error_ = std::max(max_error_, std::abs(error));
    max_reference_ = std::max(max_reference_, std::abs(reference));
  }

  void add(const ErrorSums& other) {
    count_ += other.count_;
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
    if (non_finite_ > 0 || reference_non_finite_ > 0) {
      result.scaled_max = kInfinity;
    } else if (max_error_ > 0) {
      result.scaled_max =
          max_reference_ > 0 ? max_error_ / std::max(max_reference_, kFullPrecision) : kInfinity;
    }
    return result;
  }

 private:
  double relative(double squares, double largest) const {
    if (!(max_reference_ > 0)) return largest > 0 ? kInfinity : 0;
    const double least = kFullPrecision * std::sqrt(static_cast<double>(count_));
    return std::sqrt(squares) / std::max(std::sqrt(reference_squares_), least);
  }

  DType stored_;
  std::int64_t count_ = 0;
  std::int64_t non_finite_ = 0;
  std::int64_t reference_non_finite_ = 0;
  double error_squares_ = 0;
  double rounding_squares_ = 0;
  double reference_squares_ = 0;
  double max_error_ = 0;
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
  Comparison(const Case& inputs, const WideOutputs<double>& reference, const Outputs& outputs,
             const Conditioning& conditioning, const EvaluationOptions& options)
      : inputs_(inputs),
        p_(inputs.problem),
        reference_(reference),
        outputs_(outputs),
        options_(options),
        windows_(position_windows(p_.sequences.longest())) {
    report_.conditioning = conditioning;
    report_.limits = error_limits(p_, conditioning);
    for (std::int64_t i = 0; i < windows_.count; ++i) {
      report_.positions.push_back({i * windows_.tokens, windows_.tokens, 0});
    }
    if (windows_.count > 0) {
      PositionError& last = report_.positions.back();
      last.num_tokens = p_.sequences.longest() - last.first_token;
    }
  }

  ErrorReport run() {
    if (p_.operation == Operation::causal_conv1d) {
      compare_convolution(true);
    } else {
      compare_heads();
      count_untouched_state();
      if (p_.operation == Operation::gated_delta_layer) compare_convolution(false);
    }
    report_.checked_pairs = static_cast<std::int64_t>(report_.heads.size());
    // Later equals replace nothing: the first of the worst is the one reported.
    const auto by_output = [](const HeadError& a, const HeadError& b) {
      return a.output.relative_l2 < b.output.relative_l2;
    };
    const auto by_state = [](const HeadError& a, const HeadError& b) {
      return a.state.relative_l2 < b.state.relative_l2;
    };
    if (!report_.heads.empty()) {
      const auto& heads = report_.heads;
      report_.worst_output = *std::max_element(heads.begin(), heads.end(), by_output);
      report_.worst_state = *std::max_element(heads.begin(), heads.end(), by_state);
    }
    return std::move(report_);
  }

 private:
  std::int64_t slot(std::int64_t n) const {
    return inputs_.slot_index.empty() ? n : inputs_.slot_index[static_cast<std::size_t>(n)];
  }
  std::int64_t first_token(std::int64_t n) const {
    return inputs_.sequence_offsets[static_cast<std::size_t>(n)];
  }
  std::int64_t length(std::int64_t n) const { return first_token(n + 1) - first_token(n); }

  // ---- gated_delta: outputs and states of the pairs

  void compare_heads() {
    const std::int64_t outputs = p_.total_tokens() * p_.num_value_heads * p_.value_head_dim;
    require_size("output", outputs_.output.size(), static_cast<std::size_t>(outputs));
    require_size("reference output", reference_.output.size(), static_cast<std::size_t>(outputs));
    require_size("reference state_pool", reference_.state_pool.size(), inputs_.state_pool.size());
    if (p_.final_state || !outputs_.state_pool.empty()) {
      require_size("final_state", outputs_.state_pool.size(), inputs_.state_pool.size());
    }
    const std::vector<SequenceHead> pairs = pairs_of(p_, options_);
    report_.total_pairs = p_.num_sequences() * p_.num_value_heads;
    report_.heads.resize(pairs.size());
    const std::vector<double>& readouts = report_.conditioning.readouts;
    if (!readouts.empty()) require_size("readouts", readouts.size(), pairs.size());
    parallel_for(static_cast<std::int64_t>(pairs.size()), options_.threads, [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      compare_head(pairs[at], report_.heads[at]);
      if (!readouts.empty()) report_.heads[at].readout = readouts[at];
    });
  }

  void compare_head(const SequenceHead& pair, HeadError& result) {
    const std::int64_t n = pair.sequence;
    const bool padding = slot(n) < 0;
    std::int64_t padding_nonzero = 0;
    ErrorSums whole(p_.effective_output_dtype());
    std::vector<double> by_position;
    for (std::int64_t begin = 0; begin < length(n); begin += windows_.tokens) {
      ErrorSums part(p_.effective_output_dtype());
      const std::int64_t end = std::min(length(n), begin + windows_.tokens);
      for (std::int64_t t = first_token(n) + begin; t < first_token(n) + end; ++t) {
        const std::int64_t row = (t * p_.num_value_heads + pair.value_head) * p_.value_head_dim;
        for (std::int64_t j = row; j < row + p_.value_head_dim; ++j) {
          const float actual = outputs_.output[static_cast<std::size_t>(j)];
          part.add(reference_.output[static_cast<std::size_t>(j)], actual);
          if (padding && actual != 0.0f) ++padding_nonzero;
        }
      }
      by_position.push_back(part.relative_l2());
      whole.add(part);
    }

    ErrorSums state(p_.state_dtype);
    if (p_.final_state && !padding && length(n) > 0) {
      const std::int64_t size = p_.key_head_dim * p_.value_head_dim;
      const std::int64_t slab = slot(n) * p_.state_row_stride() + pair.value_head * size;
      for (std::int64_t i = slab; i < slab + size; ++i) {
        state.add(reference_.state_pool[static_cast<std::size_t>(i)],
                  outputs_.state_pool[static_cast<std::size_t>(i)]);
      }
    }

    result.where = pair;
    result.output = whole.finish();
    result.state = state.finish();
    const std::lock_guard lock(mutex_);
    count(whole, result.output);
    count(state, result.state);
    report_.padding_nonzero += padding_nonzero;
    for (std::size_t i = 0; i < by_position.size(); ++i) {
      double& worst = report_.positions[i].relative_l2;
      worst = std::max(worst, by_position[i]);
    }
  }

  void count(const ErrorSums& sums, const TensorError& error) {
    report_.non_finite += error.non_finite;
    report_.reference_non_finite += sums.reference_non_finite();
  }

  void count_untouched_state() {
    if (outputs_.state_pool.empty()) return;  // only without a final state: compare_heads checked
    const std::int64_t stride = p_.state_row_stride();
    const std::int64_t used = stride - p_.pool_row_padding;
    const std::int64_t rows = static_cast<std::int64_t>(inputs_.state_pool.size()) / stride;
    std::vector<bool> written(static_cast<std::size_t>(rows), false);
    for (std::int64_t n = 0; p_.final_state && n < p_.num_sequences(); ++n) {
      if (slot(n) >= 0 && length(n) > 0) written[static_cast<std::size_t>(slot(n))] = true;
    }
    parallel_for(rows, options_.threads, [&](std::int64_t row) {
      const std::int64_t begin = row * stride + (written[static_cast<std::size_t>(row)] ? used : 0);
      std::int64_t changed = 0;
      for (std::int64_t i = begin; i < (row + 1) * stride; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (!same_bits(p_.state_dtype, inputs_.state_pool[at], outputs_.state_pool[at])) ++changed;
      }
      if (changed == 0) return;
      const std::lock_guard lock(mutex_);
      report_.untouched_changed += changed;
    });
  }

  // ---- the convolution: outputs per sequence, windows

  void compare_convolution(bool is_operation) {
    const bool exposed = is_operation || !outputs_.conv_output.empty();
    if (exposed) {
      require_size("conv_output", outputs_.conv_output.size(), inputs_.qkv.size());
      require_size("reference conv_output", reference_.conv_output.size(), inputs_.qkv.size());
    }
    require_size("conv_state", outputs_.conv_state.size(), inputs_.conv_state.size());
    require_size("reference conv_state", reference_.conv_state.size(), inputs_.conv_state.size());

    const std::int64_t row = p_.conv_channels() * (p_.conv_width - 1);
    const std::int64_t rows = static_cast<std::int64_t>(inputs_.conv_state.size()) / row;
    std::vector<bool> owned(static_cast<std::size_t>(rows), false);
    ErrorSums all_output(p_.token_dtype);
    ErrorSums all_windows(p_.state_dtype);
    if (is_operation) report_.heads.resize(static_cast<std::size_t>(p_.num_sequences()));
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      ErrorSums output(p_.token_dtype);
      if (exposed) add_conv_outputs(n, is_operation, output);
      ErrorSums window(p_.state_dtype);
      if (slot(n) >= 0) {
        owned[static_cast<std::size_t>(slot(n))] = true;
        for (std::int64_t i = slot(n) * row; i < (slot(n) + 1) * row; ++i) {
          window.add(reference_.conv_state[static_cast<std::size_t>(i)],
                     outputs_.conv_state[static_cast<std::size_t>(i)]);
        }
      }
      if (is_operation) {
        report_.heads[static_cast<std::size_t>(n)] = {{n, 0}, output.finish(), window.finish()};
      }
      all_output.add(output);
      all_windows.add(window);
    }
    if (is_operation) report_.total_pairs = p_.num_sequences();
    report_.conv_output = all_output.finish();
    report_.conv_state = all_windows.finish();
    count(all_output, report_.conv_output);
    count(all_windows, report_.conv_state);
    for (std::int64_t i = 0; i < rows; ++i) {
      if (!owned[static_cast<std::size_t>(i)]) count_untouched_window(i * row, row);
    }
  }

  void add_conv_outputs(std::int64_t n, bool by_position, ErrorSums& whole) {
    const std::int64_t channels = p_.conv_channels();
    const bool channels_fastest = p_.conv_layout == ConvLayout::channels;
    const std::int64_t token_stride = channels_fastest ? channels : 1;
    const std::int64_t channel_stride = channels_fastest ? 1 : p_.total_tokens();
    for (std::int64_t begin = 0; begin < length(n); begin += windows_.tokens) {
      ErrorSums part(p_.token_dtype);
      const std::int64_t end = std::min(length(n), begin + windows_.tokens);
      for (std::int64_t t = first_token(n) + begin; t < first_token(n) + end; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto at = static_cast<std::size_t>(t * token_stride + c * channel_stride);
          part.add(reference_.conv_output[at], outputs_.conv_output[at]);
          if (slot(n) < 0 && outputs_.conv_output[at] != 0.0f) ++report_.padding_nonzero;
        }
      }
      if (by_position) {
        double& worst =
            report_.positions[static_cast<std::size_t>(begin / windows_.tokens)].relative_l2;
        worst = std::max(worst, part.relative_l2());
      }
      whole.add(part);
    }
  }

  void count_untouched_window(std::int64_t begin, std::int64_t size) {
    for (std::int64_t i = begin; i < begin + size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!same_bits(p_.state_dtype, inputs_.conv_state[at], outputs_.conv_state[at])) {
        ++report_.untouched_changed;
      }
    }
  }

  const Case& inputs_;
  const Problem& p_;
  const WideOutputs<double>& reference_;
  const Outputs& outputs_;
  const EvaluationOptions& options_;
  Windows windows_;
  ErrorReport report_;
  std::mutex mutex_;
};

std::string place(const HeadError& head) {
  return " of sequence " + std::to_string(head.where.sequence) + ", head " +
         std::to_string(head.where.value_head);
}

std::string describe(const std::string& what, const TensorError& error, double limit) {
  std::ostringstream text;
  text.precision(3);
  text << what << ": ";
  if (error.non_finite > 0) text << error.non_finite << " values not finite, ";
  text << "relative L2 error " << error.relative_l2 << " (" << error.floor_ratio
       << "x the rounding floor), limit " << limit;
  return text.str();
}

}  // namespace

ErrorReport compare(const Case& inputs, const WideOutputs<double>& reference,
                    const Outputs& outputs, const EvaluationOptions& options) {
  return compare(inputs, reference, outputs, measure_conditioning(inputs, reference, options),
                 options);
}

ErrorReport compare(const Case& inputs, const WideOutputs<double>& reference,
                    const Outputs& outputs, const Conditioning& conditioning,
                    const EvaluationOptions& options) {
  return Comparison(inputs, reference, outputs, conditioning, options).run();
}

bool within(const TensorError& error, double limit) {
  return error.non_finite == 0 && error.relative_l2 <= std::max(limit, 4 * error.floor);
}

std::string first_violation(const ErrorReport& report, const ErrorLimits& limits) {
  if (report.reference_non_finite > 0) {
    return "reference: " + std::to_string(report.reference_non_finite) +
           " values not finite: nothing can be judged against them";
  }
  for (const HeadError& head : report.heads) {
    if (!within(head.output, limits.output_of(head))) {
      return describe("output" + place(head), head.output, limits.output_of(head));
    }
    if (!within(head.state, limits.state)) {
      return describe("final_state" + place(head), head.state, limits.state);
    }
  }
  if (!within(report.conv_output, limits.conv_output)) {
    return describe("conv_output", report.conv_output, limits.conv_output);
  }
  if (report.conv_state.non_finite > 0 ||
      !(report.conv_state.relative_l2 <= report.conv_state.floor)) {
    return describe("conv_state (a copy of raw inputs)", report.conv_state,
                    report.conv_state.floor);
  }
  if (report.untouched_changed > 0) {
    return "state pool: " + std::to_string(report.untouched_changed) +
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
