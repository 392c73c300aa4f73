#include "cpu/causal_conv1d/channel_block.h"

#include <algorithm>

#include "cpu/element.h"

namespace gdn::cpu {
namespace {

/// body(begin, tokens) for the pieces of `count` tokens from `first` on that lie side by side.
template <typename Body>
void for_pieces(const TokenRows& rows, std::int64_t first, std::int64_t count, const Body& body) {
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t tokens = std::min(count - begin, rows.tokens_from(first + begin));
    body(begin, tokens);
    begin += tokens;
  }
}

}  // namespace

void load_token_block(const TokenInput& from, std::int64_t first, std::int64_t count,
                      const ChannelBlock& block, float* rows, float* scratch) {
  if (from.layout == ConvLayout::channels) {
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t index = (first + t) * from.token_stride + block.first_channel;
      decode(from.dtype, element(from.data, index, from.dtype), rows + t * block.channels,
             block.channels);
    }
    return;
  }
  for (std::int64_t c = 0; c < block.channels; ++c) {
    for_pieces(from.rows, first, count, [&](std::int64_t begin, std::int64_t tokens) {
      const std::int64_t index = from.rows.at(block.first_channel + c, first + begin);
      decode(from.dtype, element(from.data, index, from.dtype), scratch + begin, tokens);
    });
    for (std::int64_t t = 0; t < count; ++t) rows[t * block.channels + c] = scratch[t];
  }
}

void store_token_block(const ConvolutionOutput& to, std::int64_t channels, std::int64_t first,
                       std::int64_t count, const ChannelBlock& block, const float* rows,
                       float* scratch) {
  if (to.layout == ConvLayout::channels) {
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t index = (first + t) * channels + block.first_channel;
      encode(to.dtype, rows + t * block.channels, element(to.data, index, to.dtype),
             block.channels);
    }
    return;
  }
  for (std::int64_t c = 0; c < block.channels; ++c) {
    for (std::int64_t t = 0; t < count; ++t) scratch[t] = rows[t * block.channels + c];
    for_pieces(to.rows, first, count, [&](std::int64_t begin, std::int64_t tokens) {
      const std::int64_t index = to.rows.at(block.first_channel + c, first + begin);
      encode(to.dtype, scratch + begin, element(to.data, index, to.dtype), tokens);
    });
  }
}

void load_weight_block(const Problem& problem, const CausalConv1dArguments& arguments,
                       const ChannelBlock& block, float* weight, float* bias, float* scratch) {
  const std::int64_t width = problem.conv_width;
  const DType dtype = problem.effective_conv_weight_dtype();
  decode(dtype, element(arguments.weight, block.first_channel * width, dtype), scratch,
         block.channels * width);
  for (std::int64_t c = 0; c < block.channels; ++c) {
    for (std::int64_t j = 0; j < width; ++j)
      weight[j * block.channels + c] = scratch[c * width + j];
  }
  if (problem.conv_bias) {
    decode(dtype, element(arguments.bias, block.first_channel, dtype), bias, block.channels);
  } else {
    std::fill_n(bias, block.channels, 0.0f);
  }
}

}  // namespace gdn::cpu
