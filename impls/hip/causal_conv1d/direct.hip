// hip/direct: causal_conv1d as its definition says, a sum of `width` products per channel and
// token. The lanes lie along whichever of channels and tokens is contiguous in memory.
//
// Two kernels, in stream order: the outputs, which read the old windows, then the windows, so that
// windows updated in place are never read after they change. Windows inside the call (checkpoints) are a
// third one, between them.
//
// Bound by: memory traffic; the `width` reads of an input mostly hit the L1 cache.
#include "hip/causal_conv1d/params.h"
#include "hip/element_device.h"

namespace gdn::hip {
namespace {

constexpr int kWaves = 4;
constexpr int kThreads = 64 * kWaves;

struct Sequence {
  std::int64_t first, length, row;
  bool reads_window;
  int oldest,
      oldest_after;  // places of the oldest input in the window; other than 0 in rings alone
};
/// value % places, value not negative, bit by bit: the compiler makes a division of an approximate
/// reciprocal, whose last bits it has to trust.
__device__ __forceinline__ int modulo(std::int64_t value, int places) {
  std::uint32_t rest = 0;
  for (int bit = 62; bit >= 0; --bit) {
    rest = 2 * rest + static_cast<std::uint32_t>((value >> bit) & 1);
    if (rest >= static_cast<std::uint32_t>(places)) rest -= static_cast<std::uint32_t>(places);
  }
  return static_cast<int>(rest);
}
__device__ __forceinline__ Sequence sequence_of(const ConvParams& p, int n) {
  const std::int64_t first = p.sequence_offsets[n];
  const std::int64_t row = p.slot_index ? p.slot_index[n] : n;
  const bool reads_window = p.state_in != nullptr && (!p.has_window || p.has_window[n] != 0);
  const std::int64_t length = p.sequence_offsets[n + 1] - first;
  if (!p.window_position) return {first, length, row, reads_window, 0, 0};
  const int oldest = modulo(p.window_position[n], p.window_places);
  const int oldest_after = modulo(oldest + length, p.window_places);
  return {first, length, row, reads_window, oldest, oldest_after};
}
__device__ __forceinline__ std::int64_t token_index(const ConvParams& p, std::int64_t token,
                                                    std::int64_t channel) {
  return p.time_fastest != 0 ? channel * p.tokens + token : token * p.channels + channel;
}
__device__ __forceinline__ std::int64_t input_index(const ConvParams& p, std::int64_t token,
                                                    std::int64_t channel) {
  return p.time_fastest != 0 ? channel * p.tokens + token : token * p.input_token_stride + channel;
}
__device__ __forceinline__ std::int64_t residual_index(const ConvParams& p, std::int64_t token,
                                                       std::int64_t channel) {
  return p.time_fastest != 0 ? channel * p.tokens + token
                             : token * p.residual_token_stride + channel;
}
__device__ __forceinline__ std::int64_t window_index(const ConvParams& p, std::int64_t row,
                                                     std::int64_t channel) {
  return row * p.window_row_stride + channel * p.window_channel_stride;
}

/// Place of input number `number` of a window, counted from the oldest one.
__device__ __forceinline__ int turned(const ConvParams& p, int oldest, std::int64_t number) {
  const int place = oldest + static_cast<int>(number);
  return place < p.window_places ? place : place - p.window_places;
}

/// Input number `number` of the sequence's old window, which begins at `window`; 0 where it reads none.
__device__ __forceinline__ float old_input(const ConvParams& p, const Sequence& sequence,
                                           std::int64_t window, std::int64_t number) {
  const std::int64_t index = window + turned(p, sequence.oldest, number) * p.window_place_stride;
  return !sequence.reads_window ? 0.0f : load_element(p.state_in, p.state_element, index);
}

template <typename Token, typename Weight, bool residual>
__device__ __forceinline__ float convolved(const ConvParams& p, const Sequence& sequence,
                                           std::int64_t t, std::int64_t channel) {
  const Weight* const weight = static_cast<const Weight*>(p.weight) + channel * p.width;
  const Token* const input = static_cast<const Token*>(p.input);
  const int window = p.width - 1;
  float sum = p.bias == nullptr ? 0.0f : to_float(static_cast<const Weight*>(p.bias)[channel]);
  for (int j = 0; j < p.width; ++j) {
    const std::int64_t i = t + j - window;  // within the sequence; before it, in the old window
    const float x = i >= 0 ? to_float(input[input_index(p, sequence.first + i, channel)])
                           : old_input(p, sequence, window_index(p, sequence.row, channel),
                                       p.window_places + i);
    sum = fmaf(to_float(weight[j]), x, sum);
  }
  const float y = p.silu != 0 ? sum * sigmoid(sum) : sum;
  if constexpr (!residual) return y;
  const Token* const added = static_cast<const Token*>(p.residual);
  return y + to_float(added[residual_index(p, sequence.first + t, channel)]);
}

/// Grid: x = tiles of 64 channels, y = tiles of 64 tokens, z = sequence. Weight: what weights and bias
/// are in memory, Token or float.
template <typename Token, typename Weight, bool residual>
__device__ __forceinline__ void outputs(const ConvParams& p) {
  const Sequence sequence = sequence_of(p, static_cast<int>(blockIdx.z));
  const int lane = static_cast<int>(threadIdx.x) % 64, wave = static_cast<int>(threadIdx.x) / 64;
  for (std::int64_t tile = blockIdx.y; tile * kConvTileTokens < sequence.length;
       tile += p.token_tiles) {
    for (int step = 0; step < 64 / kWaves; ++step) {
      const int across = wave + kWaves * step;  // along the index that is not contiguous
      const std::int64_t t = tile * kConvTileTokens + (p.time_fastest != 0 ? lane : across);
      const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kConvTileChannels +
                                   (p.time_fastest != 0 ? across : lane);
      if (t >= sequence.length || channel >= p.channels) continue;
      const float y =
          sequence.row < 0 ? 0.0f : convolved<Token, Weight, residual>(p, sequence, t, channel);
      const std::int64_t token = sequence.first + t;
      if (p.output != nullptr) {
        store_as(&static_cast<Token*>(p.output)[token_index(p, token, channel)], y);
      }
      if (p.intermediate != nullptr) p.intermediate[token * p.channels + channel] = y;
    }
  }
}

/// Grid: x = tiles of 256 channels, z = sequence. One thread owns a window: it is read whole before
/// any of it is written.
template <typename Token>
__device__ __forceinline__ void windows(const ConvParams& p) {
  const Sequence sequence = sequence_of(p, static_cast<int>(blockIdx.z));
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= p.channels || sequence.row < 0) return;
  if (sequence.length == 0 && sequence.reads_window && p.in_place != 0) return;
  const int window = p.window_places;
  const std::int64_t at = window_index(p, sequence.row, channel);
  if (window > kConvMaxWindow || p.window_position) {
    // What stays of the old window moves to lower places: in ascending order nothing is overwritten
    // before it is read. In a ring it does not move, and is not written in place.
    const bool stays = p.window_position && sequence.reads_window && p.in_place != 0;
    for (int j = 0; j < window; ++j) {
      const std::int64_t i = sequence.length - window + j;
      if (i < 0 && stays) continue;
      const float value = i >= 0 ? to_float(static_cast<const Token*>(
                                       p.input)[input_index(p, sequence.first + i, channel)])
                                 : old_input(p, sequence, at, window + i);
      const int place = turned(p, sequence.oldest_after, j);
      store_element(p.state_out, p.state_element, at + place * p.window_place_stride, value);
    }
    return;
  }
  float x[kConvMaxWindow];
#pragma unroll
  for (int j = 0; j < kConvMaxWindow; ++j) {
    if (j >= window) continue;
    const std::int64_t i = sequence.length - window + j;
    x[j] = i >= 0 ? to_float(static_cast<const Token*>(
                        p.input)[input_index(p, sequence.first + i, channel)])
                  : old_input(p, sequence, at, sequence.length + j);
  }
#pragma unroll
  for (int j = 0; j < kConvMaxWindow; ++j) {
    if (j < window)
      store_element(p.state_out, p.state_element, at + j * p.window_place_stride, x[j]);
  }
}

/// Grid: x = tiles of 256 channels, y = checkpoints of a sequence, z = sequence. One thread has a window.
template <typename Token>
__device__ __forceinline__ void checkpoints(const ConvParams& p) {
  const Sequence sequence = sequence_of(p, static_cast<int>(blockIdx.z));
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel >= p.channels) return;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.z) * p.checkpoints + blockIdx.y;
  const std::int64_t tokens = sequence.row < 0 ? 0 : p.checkpoint_tokens[row];
  const int oldest_then = p.window_position ? modulo(sequence.oldest + tokens, p.window_places) : 0;
  const std::int64_t from = window_index(p, sequence.row, channel);
  const std::int64_t to = window_index(p, row, channel);
  for (int j = 0; j < p.window_places; ++j) {
    const std::int64_t i = tokens - p.window_places + j;
    float value = 0;
    if (tokens > 0) {
      value = i >= 0 ? to_float(static_cast<const Token*>(
                           p.input)[input_index(p, sequence.first + i, channel)])
                     : old_input(p, sequence, from, p.window_places + i);
    }
    const int place = turned(p, oldest_then, j);
    store_element(p.checkpoint_windows, p.state_element, to + place * p.window_place_stride, value);
  }
}

}  // namespace

#define GDN_CONV_OUTPUTS(suffix, Token, Weight)                                                 \
  extern "C" __global__ __launch_bounds__(kThreads) void conv_outputs_##suffix(ConvParams p) {  \
    outputs<Token, Weight, false>(p);                                                           \
  }                                                                                             \
  extern "C" __global__ __launch_bounds__(kThreads) void conv_residual_##suffix(ConvParams p) { \
    outputs<Token, Weight, true>(p);                                                            \
  }
#define GDN_CONV(suffix, Token)                                                                    \
  GDN_CONV_OUTPUTS(suffix, Token, Token)                                                           \
  extern "C" __global__ __launch_bounds__(kThreads) void conv_windows_##suffix(ConvParams p) {     \
    windows<Token>(p);                                                                             \
  }                                                                                                \
  extern "C" __global__ __launch_bounds__(kThreads) void conv_checkpoints_##suffix(ConvParams p) { \
    checkpoints<Token>(p);                                                                         \
  }
GDN_CONV(f32, float)
GDN_CONV(f16, Half)
GDN_CONV(bf16, Bfloat16)
GDN_CONV_OUTPUTS(f16_weights_f32, Half, float)
GDN_CONV_OUTPUTS(bf16_weights_f32, Bfloat16, float)

}  // namespace gdn::hip
