// causal_conv1d_backward: the float64 reference, its work and its limits.
//
// Reverse mode of the convolution (docs/contract.md, section 1.2), straight from its equations. With ext
// the sequence's window followed by its inputs, z[t] = bias + sum_j w[j] ext[t + j], y[t] = act(z[t]),
// and W the width, of each channel
//
//     g[t] = dy[t] act'(z[t]);    d_bias = sum_t g[t];    d_w[j] = sum_t g[t] ext[t + j]
//     d_ext[u] = sum_j w[j] g[u - j], and d_final_window[u - L] from u = L on
//
// where g is zero outside the sequence's L tokens. d_ext begins with the gradient of the window and goes
// on with those of the inputs. SiLU's slope is s (1 + z (1 - s)) with s = sigmoid(z).
//
// Beside every gradient stand its terms: the square root of its square and of the squares of what it
// sums. A gradient of a single channel may cancel to any degree, and so may SiLU's slope, which is zero
// near z = -1.28: there the rounding of z alone moves it by as much as its own slope,
// s (1 - s) (2 + z (1 - 2 s)), times the sizes that z is the sum of.
//
// Limits. All is float32 arithmetic on float32 values: a rounding for each of width products, twice (z
// and d_ext), and what a sigmoid takes, none of it larger than the terms. Sums over T tokens of one
// sign, added one after the other, are wrong by sqrt(T / 3) roundings of the result; twice sqrt(T)
// allows any order. What is stored adds one rounding of its type. Gradients of weights are float32
// whatever the tokens are: nobody needs to round what they sum.
#include "interface/operations/causal_conv1d_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "interface/gate_arithmetic.h"
#include "interface/operations/convolution_operands.h"
#include "reference/backward_steps.h"
#include "reference/causal_conv1d.h"
#include "reference/gradients.h"
#include "reference/operation.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

// Element: float as stored, or the wide scalar that the step behind the convolution left.
template <typename Element, typename Scalar>
class Backward {
 public:
  Backward(const Case& inputs, const GivenGradient<Element, Scalar>& d_output)
      : inputs_(inputs),
        p_(inputs.problem),
        d_output_(d_output),
        channels_(p_.conv_channels()),
        width_(p_.conv_width),
        strides_(window_strides(p_)),
        token_stride_(p_.conv_layout == ConvLayout::channels ? channels_ : 1),
        channel_stride_(p_.conv_layout == ConvLayout::channels ? 1 : p_.total_tokens()) {}

  Arrays<Scalar> run(const EvaluationOptions& options) {
    const std::int64_t of_tokens = p_.total_tokens() * channels_;
    d_input_.assign(of_tokens, Scalar(0));  // what sequences with slot -1 keep
    d_weight_.assign(channels_ * width_, Scalar(0));
    d_bias_.assign(channels_, Scalar(0));
    if (p_.reads_conv_window()) {
      // Rows that no sequence owns are not written.
      d_initial_.assign(p_.num_pool_rows() * strides_.row,
                        std::numeric_limits<Scalar>::quiet_NaN());
    }
    constexpr std::int64_t kChannelsPerItem = 16;
    const std::int64_t items = (channels_ + kChannelsPerItem - 1) / kChannelsPerItem;
    parallel_for(items, options.threads, [&](std::int64_t item) {
      const std::int64_t end = std::min(channels_, (item + 1) * kChannelsPerItem);
      for (std::int64_t c = item * kChannelsPerItem; c < end; ++c) run_channel(c);
    });
    Arrays<Scalar> result;
    d_input_.put("d_qkv", result);
    d_weight_.put("d_conv_weight", result);
    if (p_.conv_bias) d_bias_.put("d_conv_bias", result);
    if (p_.reads_conv_window()) d_initial_.put("d_initial_window", result);
    return result;
  }

 private:
  std::int64_t at_token(std::int64_t token, std::int64_t channel) const {
    return token * token_stride_ + channel * channel_stride_;
  }
  Scalar weight(std::int64_t channel, std::int64_t j) const {
    return Scalar(inputs_["conv_weight"][static_cast<std::size_t>(channel * width_ + j)]);
  }
  std::int64_t place(std::int64_t slot, std::int64_t channel, std::int64_t j) const {
    return slot * strides_.row + channel * strides_.channel + j * strides_.place;
  }
  bool reads_window(std::int64_t sequence) const {
    if (!p_.reads_conv_window()) return false;
    return !p_.fresh_windows ||
           inputs_.other_indices["has_window"][static_cast<std::size_t>(sequence)] != 0;
  }

  // dy act'(z), with the sizes of which its rounding errors are.
  Sum<Scalar> behind_activation(const std::vector<Scalar>& ext, std::int64_t t,
                                std::int64_t channel, const Sum<Scalar>& given) const {
    if (p_.activation == Activation::none) return given;
    const Scalar dy = given.value;
    Scalar z = p_.conv_bias ? Scalar(inputs_["conv_bias"][static_cast<std::size_t>(channel)]) : 0;
    Scalar size = std::abs(z);
    for (std::int64_t j = 0; j < width_; ++j) {
      const Scalar product = weight(channel, j) * ext[static_cast<std::size_t>(t + j)];
      z += product;
      size += std::abs(product);
    }
    const Scalar s = gate_arithmetic::sigmoid(z);
    const Scalar rest = gate_arithmetic::sigmoid(-z);  // 1 - s, and exact where s is nearly 1
    const Scalar parts[] = {s, z * s * rest, size * s * rest * (2 + z * (rest - s))};
    const Scalar slope = parts[0] + parts[1];
    Sum<Scalar> sum{dy * slope, slope * slope * given.squares};
    for (const Scalar part : parts) sum.squares += dy * part * dy * part;
    return sum;
  }

  void run_channel(std::int64_t channel) {
    std::vector<Sum<Scalar>> d_weight(static_cast<std::size_t>(width_));
    Sum<Scalar> d_bias;
    for (std::int64_t n = 0; n < p_.num_sequences(); ++n) {
      run_sequence(n, channel, d_weight, d_bias);
    }
    for (std::int64_t j = 0; j < width_; ++j) {
      d_weight_.store(channel * width_ + j, d_weight[static_cast<std::size_t>(j)]);
    }
    d_bias_.store(channel, d_bias);
  }

  void run_sequence(std::int64_t n, std::int64_t channel, std::vector<Sum<Scalar>>& d_weight,
                    Sum<Scalar>& d_bias) {
    const std::int64_t slot = inputs_.slot(n);
    if (slot < 0) return;
    const std::int64_t first = inputs_.first_token(n), length = inputs_.length(n);
    const std::int64_t places = width_ - 1;
    std::vector<Scalar> ext(static_cast<std::size_t>(places + length), Scalar(0));
    for (std::int64_t j = 0; j < places && reads_window(n); ++j) {
      ext[static_cast<std::size_t>(j)] =
          Scalar(inputs_["conv_state"][static_cast<std::size_t>(place(slot, channel, j))]);
    }
    for (std::int64_t t = 0; t < length; ++t) {
      ext[static_cast<std::size_t>(places + t)] =
          Scalar(inputs_["qkv"][static_cast<std::size_t>(at_token(first + t, channel))]);
    }

    std::vector<Sum<Scalar>> d_ext(ext.size());
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t at = at_token(first + t, channel);
      const Sum<Scalar> dy{Scalar(d_output_.values[at]), d_output_.squares(at)};
      const Sum<Scalar> g = behind_activation(ext, t, channel, dy);
      d_bias.add(1, g);
      for (std::int64_t j = 0; j < width_; ++j) {
        d_weight[static_cast<std::size_t>(j)].add(ext[static_cast<std::size_t>(t + j)], g);
        d_ext[static_cast<std::size_t>(t + j)].add(weight(channel, j), g);
      }
      if (p_.conv_residual == ConvResidual::input) {
        d_ext[static_cast<std::size_t>(places + t)].add(1, dy);
      }
    }
    // The new window is the last width - 1 entries of ext.
    for (std::int64_t j = 0; j < places && p_.writes_conv_window(); ++j) {
      const Scalar d =
          Scalar(inputs_["d_final_window"][static_cast<std::size_t>(place(slot, channel, j))]);
      d_ext[static_cast<std::size_t>(length + j)].add(1, {d, 0});
    }

    for (std::int64_t t = 0; t < length; ++t) {
      d_input_.store(at_token(first + t, channel), d_ext[static_cast<std::size_t>(places + t)]);
    }
    if (!p_.reads_conv_window()) return;
    for (std::int64_t j = 0; j < places; ++j) {
      // Nothing depends on a window that zeros stood in the place of.
      const Sum<Scalar> d = reads_window(n) ? d_ext[static_cast<std::size_t>(j)] : Sum<Scalar>{};
      d_initial_.store(place(slot, channel, j), d);
    }
  }

  const Case& inputs_;
  const Problem& p_;
  GivenGradient<Element, Scalar> d_output_;
  std::int64_t channels_, width_;
  WindowStrides strides_;
  std::int64_t token_stride_, channel_stride_;
  Gradient<Scalar> d_input_, d_weight_, d_bias_, d_initial_;
};

template <typename Scalar>
Arrays<Scalar> evaluate_backward(const Case& inputs, const EvaluationOptions& options) {
  return Backward<float, Scalar>(inputs, {inputs["d_conv_output"].data()}).run(options);
}

ErrorLimits backward_limits(const Problem& p, const Conditioning&) {
  const double tokens = static_cast<double>(p.total_tokens());
  const double of_token = 24 * unit_roundoff(DType::float32);
  const double of_sums = of_token + 2 * std::sqrt(tokens) * unit_roundoff(DType::float32);
  ErrorLimits limits;
  for (const Operand& operand : p.operation->operands) {
    if (!operand.is_output() || !is_present(operand, p)) continue;
    const bool is_sum = operand.judging.per == JudgedPer::tensor;
    const double compute = is_sum ? of_sums : of_token;
    limits[operand.output_name()] = {
        std::min(compute + unit_roundoff(operand.dtype(p)), kLargestLimit), 0};
  }
  return limits;
}

// Where a call is cut, sums that are not yet complete are rounded as d_final_window of the earlier
// tokens' call, as often as a sum of width products can be cut; and the later tokens' call reads inputs
// as windows hold them.
void widen_backward(ErrorLimits& limits, const Problem& p, const Conditioning&, double roundings) {
  const double together = std::min(roundings, static_cast<double>(p.conv_width - 1));
  const double window = unit_roundoff(p.state_dtype);
  const double of_inputs = window > unit_roundoff(p.token_dtype) ? 2 * window : 0;
  for (auto& [name, limit] : limits) {
    limit.relative_l2 = std::min(limit.relative_l2 + together * window + of_inputs, kLargestLimit);
  }
}

}  // namespace

template <typename Scalar>
Arrays<Scalar> convolution_gradients(const Case& inputs,
                                     const GivenGradient<Scalar, Scalar>& d_output,
                                     const EvaluationOptions& options) {
  return Backward<Scalar, Scalar>(inputs, d_output).run(options);
}
template Arrays<float> convolution_gradients(const Case&, const GivenGradient<float, float>&,
                                             const EvaluationOptions&);
template Arrays<double> convolution_gradients(const Case&, const GivenGradient<double, double>&,
                                              const EvaluationOptions&);
template Arrays<long double> convolution_gradients(const Case&,
                                                   const GivenGradient<long double, long double>&,
                                                   const EvaluationOptions&);

const ReferenceOperation& causal_conv1d_backward_reference() {
  static const ReferenceOperation operation = {
      .operation = causal_conv1d_backward_operation(),
      .honours = {"channels", "slots", "pool_rows", "state", "width", "bias", "act", "residual",
                  "weights", "conv_layout", "window_layout", "window", "fresh"},
      .evaluate_float = evaluate_backward<float>,
      .evaluate_double = evaluate_backward<double>,
      .evaluate_long_double = evaluate_backward<long double>,
      // z once more, d_ext and d_w, each with the squares of the latter two's terms.
      .flops = [](const Problem& p) { return 5 * convolution_flops(p); },
      .conditioning = nullptr,
      .limits = backward_limits,
      .widen = widen_backward};
  return operation;
}

}  // namespace gdn::reference
