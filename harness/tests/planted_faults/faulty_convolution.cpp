#include "harness/tests/planted_faults/faulty_convolution.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "interface/dtype.h"
#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::testing {
namespace {

double silu(double x) { return x / (1 + std::exp(-x)); }

float read(DType dtype, const void* array, std::int64_t at) {
  float value = 0;
  decode(dtype, static_cast<const char*>(array) + at * static_cast<std::int64_t>(size_of(dtype)),
         &value, 1);
  return value;
}
void write(DType dtype, void* array, std::int64_t at, double x) {
  const auto value = static_cast<float>(x);
  encode(dtype, &value, static_cast<char*>(array) + at * static_cast<std::int64_t>(size_of(dtype)),
         1);
}

class FaultyConvolutionPlan : public Plan {
 public:
  FaultyConvolutionPlan(const Problem& problem, const CausalConv1dArguments& arguments, Fault fault)
      : p_(problem), a_(arguments), fault_(fault) {
    info_.launches = 1;
  }
  const PlanInfo& info() const override { return info_; }

  void run() override {
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      for (std::int64_t c = 0; c < p_.conv_channels(); ++c) run_channel(n, c);
    }
  }

 private:
  bool is(Fault fault) const { return fault_ == fault; }

  // Where token t of channel c lies, of input and output.
  std::int64_t place(std::int64_t t, std::int64_t c) const {
    const bool by_time = p_.conv_layout == ConvLayout::time && !is(Fault::conv_layout_ignored);
    return by_time ? c * p_.total_tokens() + t : t * p_.conv_channels() + c;
  }
  double token(std::int64_t t, std::int64_t c) const {
    const bool dense = p_.conv_layout == ConvLayout::time || fault_ == Fault::conv_stride_ignored;
    const std::int64_t at = dense ? place(t, c) : t * a_.input_token_stride + c;
    return static_cast<double>(read(p_.token_dtype, a_.input, at));
  }
  double activated(double x) const {
    return p_.activation == Activation::silu && !is(Fault::conv_activation_ignored) ? silu(x) : x;
  }
  std::int64_t slot_of(std::int64_t n) const {
    if (!a_.slot_index || is(Fault::conv_row_of_sequence)) return n;
    const std::int64_t slot = a_.slot_index[n];
    return slot < 0 && is(Fault::conv_padding_is_row_0) ? 0 : slot;
  }

  // Oldest first; zeros for a slot of -1.
  std::vector<double> window_of(std::int64_t n, std::int64_t slot, std::int64_t c) const {
    const std::int64_t size = p_.conv_width - 1;
    std::vector<double> window(static_cast<std::size_t>(size), 0.0);
    if (slot < 0 || is(Fault::conv_window_not_read)) return window;
    for (std::int64_t j = 0; j < size; ++j) {
      const std::int64_t at = (slot * p_.conv_channels() + c) * size + j;
      window[static_cast<std::size_t>(j)] =
          static_cast<double>(read(p_.state_dtype, a_.state_in, at));
    }
    if (is(Fault::conv_window_newest_first)) std::reverse(window.begin(), window.end());
    const std::int64_t first = a_.sequence_offsets[n];
    if (is(Fault::conv_reads_previous_sequence) && first >= size) {
      for (std::int64_t j = 0; j < size; ++j) {
        window[static_cast<std::size_t>(j)] = token(first - size + j, c);
      }
    }
    return window;
  }

  void store_window(std::int64_t slot, std::int64_t c, std::vector<double> window) const {
    if (is(Fault::conv_window_newest_first)) std::reverse(window.begin(), window.end());
    const auto size = static_cast<std::int64_t>(window.size());
    for (std::int64_t j = 0; j < size; ++j) {
      const double x = window[static_cast<std::size_t>(j)];
      write(p_.state_dtype, a_.state_out, (slot * p_.conv_channels() + c) * size + j,
            is(Fault::conv_window_activated) ? activated(x) : x);
    }
  }

  double output(const std::vector<double>& extended, std::int64_t t, std::int64_t c) const {
    const double bias = a_.bias == nullptr || is(Fault::conv_bias_ignored)
                            ? 0.0
                            : static_cast<double>(read(p_.token_dtype, a_.bias, c));
    const bool late = is(Fault::conv_bias_after_activation);
    double sum = late ? 0 : bias;
    for (std::int64_t j = 0; j < p_.conv_width; ++j) {
      const std::int64_t tap = is(Fault::conv_taps_reversed) ? p_.conv_width - 1 - j : j;
      sum += static_cast<double>(read(p_.token_dtype, a_.weight, c * p_.conv_width + tap)) *
             extended[static_cast<std::size_t>(t + j)];
    }
    return activated(sum) + (late ? bias : 0);
  }

  void run_channel(std::int64_t n, std::int64_t c) const {
    const std::int64_t first = a_.sequence_offsets[n];
    const std::int64_t length = a_.sequence_offsets[n + 1] - first;
    const std::int64_t slot = slot_of(n);
    const std::vector<double> window = window_of(n, slot, c);
    std::vector<double> extended = window;
    for (std::int64_t t = 0; t < length; ++t) extended.push_back(token(first + t, c));
    for (std::int64_t t = 0; t < length; ++t) {
      const bool zero = slot < 0 && !is(Fault::conv_padding_computed);
      write(p_.token_dtype, a_.output, place(first + t, c), zero ? 0 : output(extended, t, c));
    }
    if (slot < 0) return;
    std::vector<double> next(extended.end() - static_cast<std::ptrdiff_t>(window.size()),
                             extended.end());
    const auto size = static_cast<std::int64_t>(window.size());
    if (length > 0 && length < size) {
      if (is(Fault::conv_short_window_kept)) next = window;
      if (is(Fault::conv_short_window_zeroed)) std::fill_n(next.begin(), size - length, 0.0);
    }
    if (length == 0 && is(Fault::conv_empty_clears_window)) next.assign(window.size(), 0.0);
    store_window(slot, c, next);
  }

  Problem p_;
  CausalConv1dArguments a_;
  Fault fault_;
  PlanInfo info_;
};

class FaultyConvolution : public Implementation {
 public:
  explicit FaultyConvolution(Fault fault) : fault_(fault) {
    description_.name = "cpu/faulty_" + name_of(fault);
    description_.operation = causal_conv1d_operation();
    description_.honours = convolution_options();
    description_.backend = "cpu";
    description_.form = "direct";
    description_.summary = "planted fault for tests: " + name_of(fault);
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem& p) const override {
    return p.operation == causal_conv1d_operation() ? Support::yes()
                                                    : Support::no("does causal_conv1d");
  }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device&) const override {
    require_supported(*this, problem);
    return std::make_unique<FaultyConvolutionPlan>(
        problem, causal_conv1d_arguments(problem, arguments), fault_);
  }

 private:
  Fault fault_;
  Description description_;
};

}  // namespace

std::unique_ptr<Implementation> make_faulty_convolution(Fault fault) {
  return std::make_unique<FaultyConvolution>(fault);
}

}  // namespace gdn::testing
