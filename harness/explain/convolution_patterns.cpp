#include "harness/explain/convolution_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn {
namespace {

// The convolution of the case by itself, whatever operation it is part of.
Case convolution_of(const Case& inputs) {
  const Operation convolution = causal_conv1d_operation();
  Case c;
  c.problem = inputs.problem.operation == convolution ? inputs.problem
                                                      : step_of(inputs.problem, convolution);
  c.problem.case_file.clear();
  c.sequence_offsets = inputs.sequence_offsets;
  c.slot_index = inputs.slot_index;
  for (const auto& [name, values] : inputs.arrays) {
    if (convolution->find(name) != nullptr) c[name] = values;
  }
  for (const auto& [name, values] : inputs.other_indices) {
    if (convolution->find(name) != nullptr) c.other_indices[name] = values;
  }
  return c;
}

class ConvolutionPatterns {
 public:
  ConvolutionPatterns(const CheckedReference& reference, const Outputs& outputs)
      : inputs_(reference.inputs()),
        p_(inputs_.problem),
        wide_(reference.wide()),
        outputs_(outputs),
        limit_(reference::limit_of(reference.compare(outputs).limits, "conv_output").relative_l2) {}

  std::vector<FaultPattern> find() {
    if (p_.operation->find_output("conv_state") == nullptr) return {};
    const auto* output = outputs_.find("conv_output");
    if (output != nullptr && !output->empty()) {
      locate_outputs();
      if (wrong_tokens_ > 0) {
        hypotheses();
        if (found_.empty()) by_position();
        for (FaultPattern& pattern : found_) pattern.outputs = {"conv_output"};
      }
    }
    windows();
    return found_;
  }

 private:
  void add(const std::string& place, const std::string& text,
           const std::vector<std::string>& evidence) {
    found_.push_back({place, text, evidence});
  }
  std::int64_t channels() const { return p_.conv_channels(); }
  std::int64_t window() const { return p_.conv_width - 1; }
  std::size_t place(std::int64_t t, std::int64_t c) const {
    return static_cast<std::size_t>(p_.conv_layout == ConvLayout::time ? c * p_.total_tokens() + t
                                                                       : t * channels() + c);
  }

  // Relative L2 of one token's outputs against the root mean square over all tokens.
  void locate_outputs() {
    double squares = 0;
    for (const double x : wide_["conv_output"]) squares += x * x;
    const double mean =
        std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(p_.total_tokens(), 1)));
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      if (inputs_.slot(n) < 0) continue;
      for (std::int64_t t = 0; t < inputs_.length(n); ++t) {
        double error = 0;
        for (std::int64_t c = 0; c < channels(); ++c) {
          const std::size_t at = place(inputs_.first_token(n) + t, c);
          error += std::pow(
              static_cast<double>(outputs_["conv_output"][at]) - wide_["conv_output"][at], 2);
        }
        // A token's own error may be above the mean's: a wrong value is off by far more.
        if (std::sqrt(error) <= 16 * limit_ * mean) continue;
        if (wrong_tokens_++ == 0) first_wrong_ = fmt::format("sequence {}, token {}", n, t);
        only_starts_ = only_starts_ && t < window();
      }
    }
  }

  void hypotheses() {
    const auto agrees = [&](const char* where, const char* text, const char* evidence,
                            const auto& change) {
      Case supposed = convolution_of(inputs_);
      change(supposed);
      if (outputs_are_of(supposed)) {
        add(where, text, {std::string(evidence) + " the reference agrees within the limit"});
      }
    };
    agrees("activation", "an activation left out, or applied where none is asked for",
           "with the other activation", [](Case& c) {
             c.problem.activation =
                 c.problem.activation == Activation::silu ? Activation::none : Activation::silu;
           });
    if (p_.conv_bias) {
      agrees("bias", "a bias that is not added", "without the bias", [](Case& c) {
        c.problem.conv_bias = false;
        c.arrays.erase("conv_bias");
      });
    }
    agrees("taps", "weights applied in the other order of time", "with reversed taps",
           [](Case& c) { reverse_rows(c["conv_weight"], c.problem.conv_width); });
    agrees("conv layout", "[T, channels] read where [channels, T] is meant, or the reverse",
           "in the other layout", [](Case& c) {
             c.problem.conv_layout = c.problem.conv_layout == ConvLayout::time
                                         ? ConvLayout::channels
                                         : ConvLayout::time;
           });
    if (!p_.reads_conv_window()) return;
    agrees("conv window", "windows that are not read", "with windows of zeros",
           [](Case& c) { std::fill(c["conv_state"].begin(), c["conv_state"].end(), 0.0f); });
    if (p_.window_order == WindowOrder::ring) {
      agrees("conv window", "a ring taken for a window with its oldest input first",
             "with windows that are no rings", [](Case& c) {
               c.problem.window_order = WindowOrder::oldest_first;
               c.other_indices.erase("window_position");
             });
      return;
    }
    agrees("conv window", "windows read newest first", "with reversed windows",
           [](Case& c) { reverse_windows(c); });
  }

  static void reverse_rows(std::vector<float>& rows, std::int64_t size) {
    for (auto row = rows.begin(); row != rows.end(); row += size) std::reverse(row, row + size);
  }

  static void reverse_windows(Case& c) {
    const WindowStrides strides = window_strides(c.problem);
    std::vector<float>& windows = c["conv_state"];
    const std::int64_t last = c.problem.window_places() - 1;
    for (std::int64_t row = 0; row < c.problem.num_pool_rows(); ++row) {
      for (std::int64_t channel = 0; channel < c.problem.conv_channels(); ++channel) {
        const std::int64_t first = row * strides.row + channel * strides.channel;
        for (std::int64_t j = 0; j < last - j; ++j) {
          std::swap(windows[static_cast<std::size_t>(first + j * strides.place)],
                    windows[static_cast<std::size_t>(first + (last - j) * strides.place)]);
        }
      }
    }
  }

  // Of tokens that own a window; element by element in memory.
  bool outputs_are_of(const Case& supposed) const {
    const auto wide = reference::evaluate<double>(supposed);
    double error = 0;
    double size = 0;
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      if (inputs_.slot(n) < 0) continue;
      for (std::int64_t t = inputs_.first_token(n); t < inputs_.first_token(n + 1); ++t) {
        for (std::int64_t c = 0; c < channels(); ++c) {
          const std::size_t at = place(t, c);
          const double expected = wide["conv_output"][at];
          error += std::pow(static_cast<double>(outputs_["conv_output"][at]) - expected, 2);
          size += expected * expected;
        }
      }
    }
    return std::sqrt(error) <= limit_ * std::sqrt(size);
  }

  void by_position() {
    const std::vector<std::string> evidence = {
        fmt::format("{} tokens are wrong, the first: {}", wrong_tokens_, first_wrong_)};
    if (only_starts_) {
      add("sequence start", "what the first width - 1 tokens of a sequence take from its window",
          evidence);
    } else {
      add("convolution", "weights, bias, activation or tokens of the convolution", evidence);
    }
  }

  void windows() {
    if (!p_.writes_conv_window()) return;
    const std::int64_t row = window_strides(p_).row;
    bool only_short = true;
    bool unchanged = true;
    std::int64_t wrong = 0;
    std::string first;
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      if (inputs_.slot(n) < 0) continue;
      bool right = true;
      bool kept = true;
      for (std::int64_t i = inputs_.slot(n) * row; i < (inputs_.slot(n) + 1) * row; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const float actual = outputs_["conv_state"][at];
        right = right &&
                actual == round_to(p_.state_dtype, static_cast<float>(wide_["conv_state"][at]));
        kept = kept && actual == round_to(p_.state_dtype, inputs_["conv_state"][at]);
      }
      if (right) continue;
      if (wrong++ == 0) first = fmt::format("sequence {} of {} tokens", n, inputs_.length(n));
      only_short = only_short && inputs_.length(n) < p_.window_places();
      unchanged = unchanged && kept;
    }
    if (wrong == 0) return;
    std::vector<std::string> evidence = {
        fmt::format("{} windows are wrong, the first: {}", wrong, first)};
    if (unchanged && p_.reads_conv_window()) evidence.push_back("they hold what they held before");
    const bool ring = p_.window_order == WindowOrder::ring;
    if (only_short) {
      add("short window",
          ring ? "the ring of a sequence shorter than it: its tokens among what it held"
               : "the window of a sequence shorter than it: its tokens after what is left of the "
                 "old one",
          evidence);
    } else {
      add("final window",
          ring ? fmt::format("the last raw inputs of a sequence, that of token t at place "
                             "(window_position + t) modulo {}",
                             p_.window_places())
               : fmt::format("the last {} raw inputs of a sequence, oldest first",
                             p_.window_places()),
          evidence);
    }
    found_.back().outputs = {"conv_state"};
  }

  const Case& inputs_;
  const Problem& p_;
  const Arrays<double>& wide_;
  const Outputs& outputs_;
  double limit_;
  std::int64_t wrong_tokens_ = 0;
  bool only_starts_ = true;
  std::string first_wrong_;
  std::vector<FaultPattern> found_;
};

}  // namespace

std::vector<FaultPattern> find_convolution_patterns(const CheckedReference& reference,
                                                    const Outputs& outputs) {
  return ConvolutionPatterns(reference, outputs).find();
}

}  // namespace gdn
