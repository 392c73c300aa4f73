#include "reference/causal_conv1d.h"

#include "interface/gate_arithmetic.h"
#include "interface/operations/convolution_operands.h"
#include "reference/parallel.h"

namespace gdn::reference {
namespace {

// One channel of one sequence. `ext` holds the old window, then the sequence's inputs.
template <typename Scalar>
Scalar convolve_at(const std::vector<Scalar>& ext, std::int64_t t, const float* weight,
                   std::int64_t width, Scalar bias, Activation activation) {
  Scalar sum = bias;
  for (std::int64_t j = 0; j < width; ++j) sum += Scalar(weight[j]) * ext[t + j];
  return activation == Activation::silu ? sum * gate_arithmetic::sigmoid(sum) : sum;
}

}  // namespace

template <typename Scalar>
ConvResult<Scalar> causal_conv1d(const Case& inputs, int threads) {
  const Problem& problem = inputs.problem;
  const std::int64_t channels = problem.conv_channels();
  const std::int64_t width = problem.conv_width;
  const std::int64_t places = problem.window_places();
  const std::int64_t first_read = places - (width - 1);  // what lies before it is only kept
  const std::int64_t total_tokens = problem.total_tokens();
  const bool channels_fastest = problem.conv_layout == ConvLayout::channels;
  const std::int64_t token_stride = channels_fastest ? channels : 1;
  const std::int64_t channel_stride = channels_fastest ? 1 : total_tokens;

  const std::vector<float>& qkv = inputs["qkv"];
  const std::vector<float>& weight = inputs["conv_weight"];
  const WindowStrides strides = window_strides(problem);
  const bool reads = problem.reads_conv_window();
  const bool writes = problem.writes_conv_window();
  const bool ring = problem.window_order == WindowOrder::ring;
  const float* bias = problem.conv_bias ? inputs["conv_bias"].data() : nullptr;
  const float* residual =
      problem.conv_residual == ConvResidual::tensor ? inputs["residual"].data() : nullptr;
  ConvResult<Scalar> result;
  result.output.assign(qkv.size(), Scalar(0));  // what sequences with slot -1 keep
  if (reads || writes) {
    result.state.assign(inputs["conv_state"].begin(), inputs["conv_state"].end());
  }

  // Those of no tokens, and of sequences without a row, stay zeros.
  const std::int64_t checkpoints = has_windows(problem) ? problem.checkpoints : 0;
  result.checkpoint_windows.assign(
      static_cast<std::size_t>(problem.num_sequences() * checkpoints * strides.row), Scalar(0));

  const auto sequence_channels = [&](std::int64_t n, std::int64_t c_begin, std::int64_t c_end) {
    const std::int64_t slot = inputs.slot(n);
    if (slot < 0) return;
    const bool fresh = problem.fresh_windows &&
                       inputs.other_indices["has_window"][static_cast<std::size_t>(n)] == 0;
    const bool has_window = reads && !fresh;
    const std::int64_t first = inputs.first_token(n);
    const std::int64_t length = inputs.length(n);
    // Where the oldest input lies before the call: a ring turns by a place a token.
    const std::int64_t oldest =
        ring ? inputs.other_indices["window_position"][static_cast<std::size_t>(n)] % places : 0;
    // The window after so many tokens: with N places new slot j is x[tokens - N + j] if that index is
    // >= 0, else old slot tokens + j: N entries of ext, for any number of tokens.
    const auto store_window = [&](const std::vector<Scalar>& ext, std::int64_t tokens,
                                  Scalar* row) {
      const std::int64_t first_place = ring ? (oldest + tokens) % places : 0;
      for (std::int64_t j = 0; j < places; ++j) {
        row[(first_place + j) % places * strides.place] = ext[tokens + j];
      }
    };
    std::vector<Scalar> ext(places + length);
    for (std::int64_t c = c_begin; c < c_end; ++c) {
      const std::int64_t row = slot * strides.row + c * strides.channel;
      for (std::int64_t j = 0; j < places; ++j) {
        const std::int64_t at = row + (oldest + j) % places * strides.place;
        ext[j] = has_window ? Scalar(inputs["conv_state"][at]) : Scalar(0);
      }
      for (std::int64_t t = 0; t < length; ++t) {
        ext[places + t] = Scalar(qkv[(first + t) * token_stride + c * channel_stride]);
      }
      const Scalar channel_bias = bias == nullptr ? Scalar(0) : Scalar(bias[c]);
      for (std::int64_t t = 0; t < length; ++t) {
        const Scalar y = convolve_at(ext, first_read + t, &weight[c * width], width, channel_bias,
                                     problem.activation);
        const std::int64_t at = (first + t) * token_stride + c * channel_stride;
        result.output[at] = problem.conv_residual == ConvResidual::none ? y
                            : problem.conv_residual == ConvResidual::input
                                ? y + ext[places + t]
                                : y + Scalar(residual[at]);
      }
      if (writes) store_window(ext, length, result.state.data() + row);
      for (std::int64_t j = 0; j < checkpoints; ++j) {
        const std::int64_t at = n * checkpoints + j;
        const std::int64_t tokens =
            inputs.other_indices["checkpoint_tokens"][static_cast<std::size_t>(at)];
        if (tokens == 0) continue;
        store_window(ext, tokens,
                     result.checkpoint_windows.data() + at * strides.row + c * strides.channel);
      }
    }
  };

  constexpr std::int64_t kChannelsPerItem = 64;
  const std::int64_t blocks = (channels + kChannelsPerItem - 1) / kChannelsPerItem;
  parallel_for(problem.num_sequences() * blocks, threads, [&](std::int64_t item) {
    const std::int64_t c_begin = item % blocks * kChannelsPerItem;
    sequence_channels(item / blocks, c_begin, std::min(channels, c_begin + kChannelsPerItem));
  });
  return result;
}

double convolution_flops(const Problem& problem) {
  return 2.0 * static_cast<double>(problem.total_tokens()) *
         static_cast<double>(problem.conv_channels() * problem.conv_width);
}

template ConvResult<float> causal_conv1d(const Case&, int);
template ConvResult<double> causal_conv1d(const Case&, int);
template ConvResult<long double> causal_conv1d(const Case&, int);

}  // namespace gdn::reference
