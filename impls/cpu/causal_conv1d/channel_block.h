// Blocks of a convolution's channels as dense rows of float32: what goes in and out by tokens, in either
// layout, and the weights. Of the convolution and of its gradients.
#pragma once

#include <cstdint>

#include "interface/operations/causal_conv1d.h"
#include "interface/problem.h"

namespace gdn::cpu {

/// Channels of a block; rows of so many floats are whole vectors of every instruction set.
inline constexpr std::int64_t kBlockChannels = 64;

struct ChannelBlock {
  std::int64_t first_channel, channels;
};

/// Where results go; a convolution may have several, as rounded ones for the caller beside float32
/// ones for the next pass.
struct ConvolutionOutput {
  void* data = nullptr;
  DType dtype = DType::float32;
  ConvLayout layout = ConvLayout::channels;  ///< [T, channels] or [channels, T]
  TokenRows rows = {};                       ///< of [channels, T]
};

/// What goes in by tokens.
struct TokenInput {
  const void* data = nullptr;
  DType dtype = DType::float32;
  ConvLayout layout = ConvLayout::channels;
  std::int64_t token_stride = 0;  ///< of [T, channels]
  TokenRows rows = {};            ///< of [channels, T]
};

/// Tokens `first` .. `first + count - 1` of the block to rows [count, block.channels]. `scratch` holds
/// `count` floats.
void load_token_block(const TokenInput& from, std::int64_t first, std::int64_t count,
                      const ChannelBlock& block, float* rows, float* scratch);
/// The other way, to one of `channels` channels.
void store_token_block(const ConvolutionOutput& to, std::int64_t channels, std::int64_t first,
                       std::int64_t count, const ChannelBlock& block, const float* rows,
                       float* scratch);
/// weight [width, block.channels] and bias [block.channels], zeros where the problem has none.
/// `scratch` holds width * block.channels floats.
void load_weight_block(const Problem& problem, const CausalConv1dArguments& arguments,
                       const ChannelBlock& block, float* weight, float* bias, float* scratch);

}  // namespace gdn::cpu
