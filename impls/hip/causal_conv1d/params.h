// The argument block of the convolution kernels, shared by host and device code.
#pragma once

#include <cstdint>

#include "hip/element.h"
#include "interface/index_array.h"

namespace gdn::hip {

constexpr int kConvTileTokens = 64;
constexpr int kConvTileChannels = 64;
constexpr int kConvMaxWindow = 14;  ///< width - 1; a longer window is moved input by input

struct ConvParams {
  const void* input;   ///< [T, channels], or [channels, T] if time_fastest
  const void* weight;  ///< [channels, width], token type or float32, as the kernel's name says
  const void* bias;    ///< [channels] in the type of the weights, or null
  IndexArray sequence_offsets;
  IndexArray slot_index;         ///< or null = identity
  IndexArray has_window;         ///< 0 = zeros stand before the sequence; null = none is 0
  IndexArray checkpoint_tokens;  ///< [N, K], of the kernels that write windows inside the call
  IndexArray window_position;    ///< tokens before the call, of rings; null = no rings
  const void* state_in;          ///< windows at the strides below, or null = zeros
  void* state_out;               ///< or null where windows are not written
  const void* residual;          ///< as input, of the kernels that add it behind the activation
  void* checkpoint_windows;      ///< [N, K] windows at the strides below, or null
  void* output;                  ///< as input, token type; or null
  float* intermediate;           ///< [T, channels]; or null
  std::int64_t tokens;           ///< T, as planned: the stride of a channel if time_fastest
  std::int64_t channels;
  std::int64_t input_token_stride;     ///< elements, of [T, channels]
  std::int64_t residual_token_stride;  ///< likewise
  std::int64_t window_row_stride;      ///< elements, of the windows; likewise the next two
  std::int64_t window_channel_stride;
  std::int64_t window_place_stride;
  std::int32_t token_tiles;  ///< grid y: tiles beyond are strided over
  std::int32_t width;
  std::int32_t silu;
  std::int32_t time_fastest;
  std::int32_t in_place;
  Element token_element;
  Element state_element;
  std::int32_t checkpoints;    ///< K
  std::int32_t window_places;  ///< inputs of a channel in a window; width - 1 of them are read
};

}  // namespace gdn::hip
