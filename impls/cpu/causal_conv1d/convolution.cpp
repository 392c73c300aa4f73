#include "cpu/causal_conv1d/convolution.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/element.h"

namespace gdn::cpu {
namespace {

// A tile of 64 tokens by kBlockChannels, with its outputs, lies in the first-level cache.
constexpr std::int64_t kTileTokens = 64;

}  // namespace

Convolution::Convolution(const Problem& problem, const CausalConv1dArguments& arguments,
                         std::vector<ConvolutionOutput> outputs)
    : problem_(problem),
      arguments_(arguments),
      outputs_(std::move(outputs)),
      channels_(problem.conv_channels()),
      strides_(window_strides(problem)),
      num_blocks_((channels_ + kBlockChannels - 1) / kBlockChannels),
      convolve_rows_(version_for(instruction_set(), GDN_CPU_VERSIONS(convolve_rows))) {}

std::int64_t Convolution::workspace_floats(const Problem& problem) {
  const std::int64_t width = problem.conv_width;
  const std::int64_t added =
      problem.conv_residual == ConvResidual::tensor ? kTileTokens * kBlockChannels : 0;
  // ext, y, weights, bias, a column of tokens, and what is added to y.
  return kBlockChannels * ((kTileTokens + width - 1) + kTileTokens + width + 1) +
         std::max(kTileTokens, kBlockChannels * width) + added;
}

Convolution::Window Convolution::window_of(std::int64_t sequence, std::int64_t slot) const {
  Window window{slot, arguments_.state_in != nullptr, 0, 0, 0};
  if (arguments_.has_window && arguments_.has_window[sequence] == 0) window.reads = false;
  if (!arguments_.window_position) return window;
  const std::int64_t places = problem_.window_places();
  const std::int64_t num_tokens =
      arguments_.sequence_offsets[sequence + 1] - arguments_.sequence_offsets[sequence];
  window.oldest = arguments_.window_position[sequence] % places;
  window.oldest_after = (window.oldest + num_tokens) % places;
  const bool in_place = arguments_.state_in == arguments_.state_out;
  if (window.reads && in_place) window.stays = std::max<std::int64_t>(0, places - num_tokens);
  return window;
}

void Convolution::load_window(const Window& window, const ChannelBlock& block, float* rows) const {
  const std::int64_t read = problem_.conv_width - 1;
  const std::int64_t older = problem_.window_places() - read;
  const DType dtype = problem_.state_dtype;
  for (std::int64_t c = 0; c < block.channels; ++c) {
    for (std::int64_t j = 0; j < read; ++j) {
      const std::int64_t index =
          place(window.slot, block.first_channel + c, window.oldest, older + j);
      decode(dtype, element(arguments_.state_in, index, dtype), rows + j * block.channels + c, 1);
    }
  }
}

void Convolution::store_window(const Window& window, const ChannelBlock& block,
                               const float* rows) const {
  const std::int64_t read = problem_.conv_width - 1;
  const std::int64_t older = problem_.window_places() - read;
  const DType dtype = problem_.state_dtype;
  for (std::int64_t c = 0; c < block.channels; ++c) {
    for (std::int64_t j = std::max<std::int64_t>(0, window.stays - older); j < read; ++j) {
      const std::int64_t index =
          place(window.slot, block.first_channel + c, window.oldest_after, older + j);
      encode(dtype, rows + j * block.channels + c, element(arguments_.state_out, index, dtype), 1);
    }
  }
}

void Convolution::move_older_inputs(const Window& window, const ChannelBlock& block,
                                    std::int64_t sequence) const {
  const std::int64_t first_token = arguments_.sequence_offsets[sequence];
  const std::int64_t num_tokens = arguments_.sequence_offsets[sequence + 1] - first_token;
  const std::int64_t places = problem_.window_places();
  const std::int64_t older = places - (problem_.conv_width - 1);
  const DType dtype = problem_.state_dtype;
  for (std::int64_t c = 0; c < block.channels; ++c) {
    const std::int64_t channel = block.first_channel + c;
    for (std::int64_t j = window.stays; j < older; ++j) {
      const float value = input_of(window, channel, first_token, num_tokens - places + j);
      const std::int64_t index = place(window.slot, channel, window.oldest_after, j);
      encode(dtype, &value, element(arguments_.state_out, index, dtype), 1);
    }
  }
}

float Convolution::input_of(const Window& window, std::int64_t channel, std::int64_t first_token,
                            std::int64_t i) const {
  float value = 0;
  if (i >= 0) {
    const std::int64_t token = first_token + i;
    const std::int64_t index = problem_.conv_layout == ConvLayout::channels
                                   ? token * arguments_.input_token_stride + channel
                                   : arguments_.input_rows.at(channel, token);
    decode(problem_.token_dtype, element(arguments_.input, index, problem_.token_dtype), &value, 1);
  } else if (window.reads) {
    const std::int64_t index =
        place(window.slot, channel, window.oldest, problem_.window_places() + i);
    decode(problem_.state_dtype, element(arguments_.state_in, index, problem_.state_dtype), &value,
           1);
  }
  return value;
}

void Convolution::store_checkpoints(const Window* window, const ChannelBlock& block,
                                    std::int64_t sequence) const {
  if (arguments_.checkpoint_windows == nullptr) return;
  const std::int64_t places = problem_.window_places();
  const std::int64_t first_token = arguments_.sequence_offsets[sequence];
  for (std::int64_t j = 0; j < problem_.checkpoints; ++j) {
    const std::int64_t row = sequence * problem_.checkpoints + j;
    const std::int64_t tokens = window == nullptr ? 0 : arguments_.checkpoint_tokens[row];
    const std::int64_t oldest =
        arguments_.window_position && tokens > 0 ? (window->oldest + tokens) % places : 0;
    for (std::int64_t c = block.first_channel; c < block.first_channel + block.channels; ++c) {
      for (std::int64_t i = 0; i < places; ++i) {
        const float value =
            tokens == 0 ? 0.0f : input_of(*window, c, first_token, tokens - places + i);
        encode(
            problem_.state_dtype, &value,
            element(arguments_.checkpoint_windows, place(row, c, oldest, i), problem_.state_dtype),
            1);
      }
    }
  }
}

void Convolution::store_tokens(std::int64_t first, std::int64_t count, const ChannelBlock& block,
                               const float* rows, float* scratch) const {
  for (const ConvolutionOutput& output : outputs_) {
    store_token_block(output, channels_, first, count, block, rows, scratch);
  }
}

void Convolution::run_item(std::int64_t item, float* workspace) const {
  const std::int64_t sequence = item / num_blocks_;
  const std::int64_t first_channel = item % num_blocks_ * kBlockChannels;
  const ChannelBlock block{first_channel, std::min(kBlockChannels, channels_ - first_channel)};
  const std::int64_t first_token = arguments_.sequence_offsets[sequence];
  const std::int64_t num_tokens = arguments_.sequence_offsets[sequence + 1] - first_token;
  const std::int64_t slot = arguments_.slot_index ? arguments_.slot_index[sequence] : sequence;
  const std::int64_t width = problem_.conv_width, window = width - 1;

  float* ext = workspace;                                    // [window + tile, channels]
  float* y = ext + (window + kTileTokens) * kBlockChannels;  // [tile, channels]
  float* weight = y + kTileTokens * kBlockChannels;          // [width, channels]
  float* bias = weight + width * kBlockChannels;             // [channels]
  float* scratch = bias + kBlockChannels;                    // a column of tokens or weights
  // [tile, channels]; only where a tensor is added
  float* tensor = scratch + std::max(kTileTokens, kBlockChannels * width);

  if (slot < 0) {  // padding: no window is read or written, the outputs are zeros
    std::fill_n(y, kTileTokens * kBlockChannels, 0.0f);
    for (std::int64_t start = 0; start < num_tokens; start += kTileTokens) {
      const std::int64_t count = std::min(kTileTokens, num_tokens - start);
      store_tokens(first_token + start, count, block, y, scratch);
    }
    store_checkpoints(nullptr, block, sequence);
    return;
  }

  load_weight_block(problem_, arguments_, block, weight, bias, scratch);

  const Window held = window_of(sequence, slot);
  if (held.reads) {
    load_window(held, block, ext);
  } else {
    std::fill_n(ext, window * block.channels, 0.0f);
  }
  for (std::int64_t start = 0; start < num_tokens; start += kTileTokens) {
    const std::int64_t count = std::min(kTileTokens, num_tokens - start);
    load_token_block(inputs(), first_token + start, count, block, ext + window * block.channels,
                     scratch);
    convolve_rows_(ext, weight, bias, count, block.channels, width,
                   problem_.activation == Activation::silu, y);
    if (problem_.conv_residual != ConvResidual::none) {
      const float* added = ext + window * block.channels;
      if (arguments_.residual != nullptr) {
        load_token_block(residual(), first_token + start, count, block, tensor, scratch);
        added = tensor;
      }
      for (std::int64_t i = 0; i < count * block.channels; ++i) y[i] += added[i];
    }
    store_tokens(first_token + start, count, block, y, scratch);
    // The last inputs lead the next tile, and after the last tile they are the new window: for a
    // sequence shorter than the window that keeps the newest of the old one.
    std::memmove(ext, ext + count * block.channels,
                 static_cast<std::size_t>(window * block.channels) * sizeof(float));
  }
  store_checkpoints(&held, block, sequence);
  // An empty sequence leaves its row as it is; out of place that takes a copy, and where nothing was
  // read its window is zeros.
  const bool stays = num_tokens == 0 && held.reads && arguments_.state_in == arguments_.state_out;
  if (arguments_.state_out == nullptr || stays) return;
  move_older_inputs(held, block, sequence);
  store_window(held, block, ext);
}

}  // namespace gdn::cpu
