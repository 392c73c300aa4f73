// hip/direct: gradients of the causal convolution (docs/contract.md, section 1.12), in two launches.
//
// A lane walks tiles of consecutive tokens for a channel. It holds the last inputs and the last g, the gradient
// behind the weighted sum, by their lag; a token gives
//
//     g = d_y act'(bias + sum_i a_i x[t - i]);   d_a_i += g x[t - i];   d_x[t - (kLags - 1)] = sum_i a_i g[.. + i]
//
// with a_i = weight[width - 1 - i]. The inputs of a tile's end need g of width - 1 tokens behind it, which the
// tile computes again, so that what it writes of d_x is the same whatever its neighbours do. The first tile of a
// sequence goes on to the window before it, and the gradient of the new window is added where its inputs lie.
//
// Sums over tokens stay in registers over all tiles of a workgroup and are written once, [groups, width + 1,
// channels]; a second kernel adds those of the groups in a fixed order. No atomics.
//
// Bound by: memory traffic, one read of inputs and of d_y and one write of d_x, where channels are contiguous.
// Not measured on a card.
#include "hip/causal_conv1d_backward/params.h"
#include "hip/compensated_sum_device.h"
#include "hip/element_device.h"

namespace gdn::hip {
namespace {

/// Tokens of a sequence, counted from its first. All of it is scalar.
struct Tile {
  std::int64_t sequence_first;
  std::int64_t row;  ///< of the windows; negative = padding
  int length;
  int begin, end;
  int reads_window;
};

/// First tile that sequence n can own: every sequence has at least those that it needs, and a tile's number
/// needs no table and no division.
__device__ __forceinline__ std::int64_t first_tile(const ConvGradientParams& p, std::int64_t n) {
  return (static_cast<std::int64_t>(p.sequence_offsets[n]) >> p.run_log2) + n;
}

/// Tile `index`; false if there is none.
__device__ __forceinline__ bool find_tile(const ConvGradientParams& p, std::int64_t index,
                                          Tile& tile) {
  std::int64_t n = 0, above = p.num_sequences;  // first_tile(n) <= index < first_tile(above)
  while (above - n > 1) {
    const std::int64_t middle = n + ((above - n) >> 1);
    if (first_tile(p, middle) <= index) {
      n = middle;
    } else {
      above = middle;
    }
  }
  const std::int64_t first = p.sequence_offsets[n];
  tile.sequence_first = uniform(first);
  tile.length = uniform(static_cast<int>(p.sequence_offsets[n + 1] - first));
  tile.begin = uniform(static_cast<int>((index - first_tile(p, n)) << p.run_log2));
  const int end = tile.begin + (1 << p.run_log2);
  tile.end = end < tile.length ? end : tile.length;
  tile.row = uniform(p.slot_index ? static_cast<std::int64_t>(p.slot_index[n]) : n);
  tile.reads_window = 0;
  if (p.window != nullptr) {
    tile.reads_window = uniform(p.has_window ? static_cast<int>(p.has_window[n] != 0) : 1);
  }
  return tile.begin < tile.length || tile.begin == 0;  // an empty sequence still has a window
}

/// The slope of z sigmoid(z): s (1 + z (1 - s)). With e = exp(-|z|) one of s and 1 - s is 1 / (1 + e) and the
/// other e / (1 + e): neither loses its digits, and nothing overflows.
__device__ __forceinline__ float silu_slope(float z) {
  const float e = expf(-fabsf(z));
  const float large = 1.0f / (1.0f + e), small = e * large;
  return fmaf(z, large * small, z >= 0.0f ? large : small);
}

/// Of a channel: weights by their lag, and sums of a tile.
template <int kLags>
struct Channel {
  std::int64_t number;
  float a[kLags];
  float bias;
  float d_a[kLags];
  float d_bias;
};

template <typename Token, int kLags>
__device__ __forceinline__ void walk_tile(const ConvGradientParams& p, const Tile& tile,
                                          Channel<kLags>& channel) {
  const int window = uniform(p.width) - 1;  // of a tile: what follows from it is not kept for all
  const std::int64_t at_channel = channel.number * p.channel_stride;
  const Token* const input =
      static_cast<const Token*>(p.input) + tile.sequence_first * p.input_token_stride + at_channel;
  const Token* const d_output = static_cast<const Token*>(p.d_output) +
                                tile.sequence_first * p.d_output_token_stride + at_channel;
  Token* const d_input =
      static_cast<Token*>(p.d_input) + tile.sequence_first * p.d_input_token_stride + at_channel;
  const auto input_at = [&](int t) { return to_float(input[t * p.input_token_stride]); };
  const auto d_output_at = [&](int t) { return to_float(d_output[t * p.d_output_token_stride]); };
  const auto store = [&](int t, float d) { store_as(d_input + t * p.d_input_token_stride, d); };
  if (tile.row < 0) {  // padding: zeros, and in no sum
    for (int t = tile.begin; t < tile.end; ++t) store(t, 0.0f);
    return;
  }
  const auto place = [&](int j) {
    return tile.row * p.window_row_stride + channel.number * p.window_channel_stride +
           j * p.window_place_stride;
  };

  // x[i] and g[i] are those of token t - i; at first of t = begin - 1.
  float x[kLags], g[kLags];
#pragma unroll
  for (int i = 0; i < kLags; ++i) {
    const int t = tile.begin - 1 - i;
    g[i] = 0.0f;
    x[i] = 0.0f;
    if (i >= window) continue;
    if (t >= 0) {
      x[i] = input_at(t);
    } else if (tile.reads_window != 0 && window + t >= 0) {
      x[i] = load_element(p.window, p.window_element, place(window + t));
    }
  }

  // g is needed of tokens up to g_end, d_x is a sum up to kLags - 1 tokens behind its own.
  const int g_end = tile.end + window < tile.length ? tile.end + window : tile.length;
  const int stop = tile.end + kLags - 1;
  const int first_written = tile.begin == 0 ? -window : tile.begin;
  float next_x = 0.0f, next_d = 0.0f;
  if (tile.begin < g_end) {
    next_x = input_at(tile.begin);
    next_d = d_output_at(tile.begin);
  }
#pragma unroll 1
  for (int t = tile.begin; t < stop; ++t) {
#pragma unroll
    for (int i = kLags - 1; i > 0; --i) {
      x[i] = x[i - 1];
      g[i] = g[i - 1];
    }
    x[0] = next_x;
    g[0] = next_d;
    next_x = 0.0f;
    next_d = 0.0f;
    if (t + 1 < g_end) {  // on its way while this token is computed
      next_x = input_at(t + 1);
      next_d = d_output_at(t + 1);
    }
    if (p.silu != 0) {
      float z = channel.bias;
#pragma unroll
      for (int i = kLags - 1; i >= 0; --i) z = fmaf(channel.a[i], x[i], z);
      g[0] *= silu_slope(z);
    }
    if (t < tile.end) {
      channel.d_bias += g[0];
#pragma unroll
      for (int i = 0; i < kLags; ++i) channel.d_a[i] = fmaf(g[0], x[i], channel.d_a[i]);
    }

    const int u = t - (kLags - 1);  // whose sum is complete
    if (u < first_written || u >= tile.end) continue;
    float d = 0.0f;
#pragma unroll
    for (int i = 0; i < kLags; ++i) d = fmaf(channel.a[i], g[kLags - 1 - i], d);
    const int in_new_window = u + window - tile.length;
    if (p.d_final != nullptr && in_new_window >= 0) {
      d += load_element(p.d_final, p.window_element, place(in_new_window));
    }
    if (u >= 0) {
      store(u, p.residual != 0 ? d + d_output_at(u) : d);
    } else if (p.d_initial != nullptr) {
      store_element(p.d_initial, p.window_element, place(u + window),
                    tile.reads_window != 0 ? d : 0.0f);
    }
  }
}

/// Lags: taps that registers are for, of which the problem has `width`. Grid: x = tiles of 64 channels,
/// y = groups of tiles of tokens.
template <typename Token, int kLags>
__device__ __forceinline__ void gradients(const ConvGradientParams& p) {
  Channel<kLags> channel;
  channel.number = static_cast<std::int64_t>(blockIdx.x) * kConvGradientChannels + threadIdx.x;
  if (channel.number >= p.channels) return;
  channel.bias = p.bias == nullptr ? 0.0f : load_element(p.bias, p.weight_element, channel.number);
#pragma unroll
  for (int i = 0; i < kLags; ++i) {
    channel.a[i] = 0.0f;
    if (i < p.width) {
      channel.a[i] =
          load_element(p.weight, p.weight_element, channel.number * p.width + p.width - 1 - i);
    }
  }
  channel.d_bias = 0.0f;
#pragma unroll
  for (int i = 0; i < kLags; ++i) channel.d_a[i] = 0.0f;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * p.tiles_per_group;
#pragma unroll 1
  for (int k = 0; k < p.tiles_per_group; ++k) {
    Tile tile;
    if (find_tile(p, first + k, tile)) walk_tile<Token, kLags>(p, tile, channel);
  }
  const int width = uniform(p.width);
  float* const sums = p.partial_sums +
                      static_cast<std::int64_t>(blockIdx.y) * (width + 1) * p.channels +
                      channel.number;
#pragma unroll
  for (int i = 0; i < kLags; ++i) {
    if (i < width) sums[i * p.channels] = channel.d_a[i];
  }
  sums[width * p.channels] = channel.d_bias;
}

struct GroupSums {
  float sum[kConvGradientSumRows][kConvGradientChannels];
  float rest[kConvGradientSumRows][kConvGradientChannels];
};

/// The sums of all groups, in the same order always: each row takes every fourth. Grid: x = tiles of 64 channels,
/// y = lag, or behind the last the bias.
__device__ __forceinline__ void gradient_sums(const ConvGradientParams& p) {
  GDN_LDS(shared, GroupSums);
  const int column = static_cast<int>(threadIdx.x) % kConvGradientChannels;
  const int row = static_cast<int>(threadIdx.x) / kConvGradientChannels;
  const int lag = static_cast<int>(blockIdx.y);
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * kConvGradientChannels + column;
  CompensatedSum sum;
  if (channel < p.channels) {
    for (std::int64_t group = row; group < p.groups; group += kConvGradientSumRows) {
      sum.add(p.partial_sums[(group * (p.width + 1) + lag) * p.channels + channel]);
    }
  }
  shared.sum[row][column] = sum.sum;
  shared.rest[row][column] = sum.rest;
  __syncthreads();
  if (row > 0 || channel >= p.channels) return;
#pragma unroll
  for (int i = 1; i < kConvGradientSumRows; ++i) {
    sum.add(CompensatedSum{shared.sum[i][column], shared.rest[i][column]});
  }
  const float total = sum.sum + sum.rest;
  if (lag < p.width) {
    p.d_weight[channel * p.width + p.width - 1 - lag] = total;
  } else if (p.d_bias != nullptr) {
    p.d_bias[channel] = total;
  }
}

}  // namespace

#define GDN_CONV_GRADIENTS(suffix, Token, lags)                                            \
  extern "C" __global__ __launch_bounds__(                                                 \
      kConvGradientChannels) void conv_gradients_##lags##_##suffix(ConvGradientParams p) { \
    gradients<Token, lags>(p);                                                             \
  }
GDN_CONV_GRADIENTS(f32, float, 4)
GDN_CONV_GRADIENTS(f16, Half, 4)
GDN_CONV_GRADIENTS(bf16, Bfloat16, 4)
GDN_CONV_GRADIENTS(f32, float, 15)
GDN_CONV_GRADIENTS(f16, Half, 15)
GDN_CONV_GRADIENTS(bf16, Bfloat16, 15)

extern "C" __global__ __launch_bounds__(
    kConvGradientChannels* kConvGradientSumRows) void conv_gradient_sums(ConvGradientParams p) {
  gradient_sums(p);
}

}  // namespace gdn::hip
