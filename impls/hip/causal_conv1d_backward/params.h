// The argument block of the kernels of the convolution's gradients, shared by host and device code.
#pragma once

#include <cstdint>

#include "hip/element.h"
#include "interface/index_array.h"

namespace gdn::hip {

constexpr int kConvGradientChannels = 64;  ///< of a workgroup, which is one wave
constexpr int kConvGradientSumRows = 4;    ///< waves of a workgroup that adds partial sums

struct ConvGradientParams {
  const void* input;     ///< at the strides below, token type
  const void* d_output;  ///< likewise
  void* d_input;         ///< likewise
  const void* weight;    ///< [channels, width]
  const void* bias;      ///< [channels], or null
  IndexArray sequence_offsets;
  IndexArray slot_index;  ///< or null = identity
  IndexArray has_window;  ///< 0 = zeros stand before the sequence; null = none is 0
  const void* window;     ///< windows at the strides below, or null = zeros
  const void* d_final;    ///< likewise, or null: no window was written
  void* d_initial;        ///< likewise, null where `window` is
  float* d_weight;        ///< [channels, width]
  float* d_bias;          ///< [channels], null without a bias
  float* partial_sums;    ///< [groups, width + 1, channels], by lag; the last those of the bias
  std::int64_t channels;
  std::int64_t input_token_stride;  ///< elements; likewise all strides
  std::int64_t d_output_token_stride;
  std::int64_t d_input_token_stride;
  std::int64_t channel_stride;  ///< of all three
  std::int64_t window_row_stride;
  std::int64_t window_channel_stride;
  std::int64_t window_place_stride;
  std::int32_t num_sequences;
  std::int32_t width;
  std::int32_t run_log2;         ///< tokens of a tile
  std::int32_t tiles_per_group;  ///< of a workgroup, one after the other
  std::int32_t groups;
  std::int32_t silu;
  std::int32_t residual;
  Element weight_element;
  Element window_element;
};

}  // namespace gdn::hip
