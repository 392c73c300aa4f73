// Time-tiled direct convolution, one launch for outputs and windows.
//
// Every block takes one tile of consecutive tokens of one sequence. Tiles start at the sequence's
// first token, and only the first tile of a sequence touches its window: it reads the old one for
// its first width - 1 outputs and then writes the new one, so an update in place needs no second
// launch. Which sequence a tile belongs to is found on the device: tile i of all lies in the last
// sequence n with offsets[n] / kRun + n <= i, which leaves every sequence at least the tiles it
// needs (the few left over return at once) and needs no table from the host.
//
//   channels fastest: a thread walks the tile's tokens for four neighbouring channels (or one where
//     they are not aligned), the last width - 1 inputs in registers, the next ones under way: each
//     input is read from memory once, a warp's accesses are 256 or 512 contiguous bytes.
//   time fastest: a warp takes one channel, its lanes neighbouring tokens; the width-fold re-reads
//     are served by L1.
//
// Bound by device memory (one read of the input, one write of the output) only in part yet: 32768
// tokens of 8192 bf16 channels take 0.447 ms on an H200 (cold L2), 2.4 TB/s of the 4.1 a copy
// reaches; with inputs loaded one token at a time it was 0.524. Many one-token sequences are bound
// by the strided accesses to their windows: 512 of them take 0.141 ms.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/element.cuh"
#include "cuda/gates.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kMaxWidth = 15;
constexpr int kChannelThreads = 128;
constexpr int kChannelRun = 32;  // tokens per tile, channels fastest
constexpr int kTimeWarps = 8;
constexpr int kTimeRun = 256;  // tokens per tile, time fastest
static_assert(kChannelRun >= kMaxWidth - 1 && kTimeRun >= kMaxWidth - 1,
              "only a sequence's first tile may need the old window");

struct Tile {
  std::int64_t sequence_first;  // its first token, over all sequences
  std::int64_t length;          // of the sequence
  std::int64_t begin, end;      // tokens of the tile, counted from the sequence's first
  std::int64_t row;             // of the window pool; -1 = padding
};

/// First tile that sequence n can own.
__device__ __forceinline__ std::int64_t first_tile(const ConvParams& p, std::int64_t n, int run) {
  return p.sequence_offsets[n] / run + n;
}

/// Tile `index`; false if there is none.
__device__ bool find_tile(const ConvParams& p, std::int64_t index, int run, Tile& tile) {
  std::int64_t low = 0;  // first_tile(low) <= index < first_tile(high)
  std::int64_t high = p.num_sequences;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (first_tile(p, middle, run) <= index ? low : high) = middle;
  }
  tile.sequence_first = p.sequence_offsets[low];
  tile.length = p.sequence_offsets[low + 1] - tile.sequence_first;
  tile.begin = (index - first_tile(p, low, run)) * run;
  tile.end = min(tile.begin + run, tile.length);
  tile.row = p.slot_index != nullptr ? p.slot_index[low] : low;
  return tile.begin < tile.length || tile.begin == 0;  // an empty sequence still has a window
}

__device__ __forceinline__ float activate(float x, bool silu) {
  return silu ? __fdividef(x, 1.0f + expf(-x)) : x;
}

__device__ __forceinline__ std::int64_t token_element(const ConvParams& p, ConvLayout layout,
                                                      std::int64_t token, std::int64_t channel) {
  return layout == ConvLayout::channels ? token * p.channels + channel
                                        : channel * p.token_capacity + token;
}

// ---- channels fastest

template <typename Token, int Count>
struct alignas(Count * sizeof(Token)) Channels {
  Token values[Count];
};

template <typename Token, int Count>
__device__ __forceinline__ void load_channels(const Token* from, float (&to)[Count]) {
  const auto values = *reinterpret_cast<const Channels<Token, Count>*>(from);
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = to_float(values.values[i]);
}

template <typename Element, int Count>
__device__ __forceinline__ void store_channels(void* array, std::int64_t index,
                                               const float (&from)[Count]) {
  Channels<Element, Count> values;
#pragma unroll
  for (int i = 0; i < Count; ++i) values.values[i] = from_float<Element>(from[i]);
  *reinterpret_cast<Channels<Element, Count>*>(static_cast<Element*>(array) + index) = values;
}

/// Count channels per thread. Width: the compiled one; a narrower kernel has leading zero weights.
template <typename Token, int Width, int Count>
__global__ void __launch_bounds__(kChannelThreads)
    conv_channels_kernel(const ConvParams p, int channel_blocks) {
  Tile tile;
  if (!find_tile(p, blockIdx.x / channel_blocks, kChannelRun, tile)) return;
  const std::int64_t channel =
      (static_cast<std::int64_t>(blockIdx.x % channel_blocks) * kChannelThreads + threadIdx.x) *
      Count;
  if (channel >= p.channels) return;
  // Token t at t * stride.
  const std::int64_t stride = p.input_token_stride;
  const auto* const input =
      static_cast<const Token*>(p.input) + tile.sequence_first * stride + channel;
  const auto output_at = [&](std::int64_t t) {
    return token_element(p, p.output_layout, tile.sequence_first + t, channel);
  };

  const auto store = [&](std::int64_t t, const float(&values)[Count]) {
    if (Count > 1 && p.output_layout == ConvLayout::channels) {
      if (p.output_dtype == DType::float32) {
        store_channels<float>(p.output, output_at(t), values);
      } else {
        store_channels<Token>(p.output, output_at(t), values);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        store_element(p.output,
                      token_element(p, p.output_layout, tile.sequence_first + t, channel + i),
                      p.output_dtype, values[i]);
      }
    }
  };

  if (tile.row < 0) {
    const float zeros[Count] = {};
    for (std::int64_t t = tile.begin; t < tile.end; ++t) store(t, zeros);
    return;
  }

  const int skipped = Width - p.width;  // leading weights that are zero
  float weight[Width][Count];
  float bias[Count];
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    bias[i] = p.bias != nullptr ? to_float(static_cast<const Token*>(p.bias)[channel + i]) : 0.0f;
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      weight[j][i] = j < skipped ? 0.0f
                                 : to_float(static_cast<const Token*>(
                                       p.weight)[(channel + i) * p.width + j - skipped]);
    }
  }

  // history[j] is the input of token t - (Width - 1) + j.
  const int window = p.width - 1;
  const std::int64_t row = (tile.row * p.channels + channel) * window;
  float history[Width - 1][Count];
#pragma unroll
  for (int j = 0; j < Width - 1; ++j) {
    const std::int64_t t = tile.begin - (Width - 1) + j;
    if (j < skipped) {  // older than the window: weight 0, and there may be no such input
#pragma unroll
      for (int i = 0; i < Count; ++i) history[j][i] = 0;
    } else if (t >= 0) {
      load_channels<Token, Count>(input + t * stride, history[j]);
    } else {  // the first tile: t = -1 is the newest of the old window
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        history[j][i] = load_element(p.window_in, row + i * window + window + t, p.window_dtype);
      }
    }
  }

  if (tile.begin == 0) {
    // New window: the last width - 1 of (old window, sequence). What stays of the old window moves
    // to lower places, so in ascending order nothing is overwritten before it is read.
    if (p.window_out != nullptr && (tile.length > 0 || p.window_in != p.window_out)) {
      for (int j = 0; j < window; ++j) {
        const std::int64_t t = tile.length - window + j;
        for (int i = 0; i < Count; ++i) {
          const float value =
              t >= 0 ? to_float(input[t * stride + i])
                     : load_element(p.window_in, row + i * window + window + t, p.window_dtype);
          store_element(p.window_out, row + i * window + j, p.window_dtype, value);
        }
      }
    }
  }

  // Inputs are loaded kAhead tokens at a time, the next ones before these are used: stores to the
  // output, which might alias the input for all the compiler knows, would otherwise hold them back.
  constexpr int kAhead = 4;
  using Vector = Channels<Token, Count>;
  Vector batch[kAhead];
  const auto load_batch = [&](std::int64_t first) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i < tile.end) {
        batch[i] = *reinterpret_cast<const Vector*>(input + (first + i) * stride);
      }
    }
  };
  load_batch(tile.begin);
  for (std::int64_t first = tile.begin; first < tile.end; first += kAhead) {
    Vector inputs[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) inputs[i] = batch[i];
    load_batch(first + kAhead);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (first + n >= tile.end) break;
      float sums[Count];
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const float newest = to_float(inputs[n].values[i]);
        float sum = bias[i];
#pragma unroll
        for (int j = 0; j < Width - 1; ++j) sum = fmaf(weight[j][i], history[j][i], sum);
        sums[i] = activate(fmaf(weight[Width - 1][i], newest, sum), p.silu);
#pragma unroll
        for (int j = 0; j + 1 < Width - 1; ++j) history[j][i] = history[j + 1][i];
        history[Width - 2][i] = newest;
      }
      store(first + n, sums);
    }
  }
}

// ---- time fastest

template <typename Token>
__global__ void __launch_bounds__(32 * kTimeWarps)
    conv_time_kernel(const ConvParams p, std::int64_t channel_blocks) {
  Tile tile;
  if (!find_tile(p, blockIdx.x / channel_blocks, kTimeRun, tile)) return;
  const std::int64_t channel = blockIdx.x % channel_blocks * kTimeWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (channel >= p.channels) return;  // whole warps
  // Token t at t.
  const auto* const input =
      static_cast<const Token*>(p.input) + channel * p.token_capacity + tile.sequence_first;
  const int window = p.width - 1;
  const std::int64_t row = (tile.row * p.channels + channel) * window;
  const float bias =
      p.bias != nullptr ? to_float(static_cast<const Token*>(p.bias)[channel]) : 0.0f;
  const auto* const weight = static_cast<const Token*>(p.weight) + channel * p.width;

  for (std::int64_t t = tile.begin + lane; t < tile.end; t += 32) {
    float sum = bias;
    if (tile.row >= 0) {
      for (int j = 0; j < p.width; ++j) {
        const std::int64_t s = t - window + j;
        const float x = s >= 0 ? to_float(input[s])
                               : load_element(p.window_in, row + window + s, p.window_dtype);
        sum = fmaf(to_float(weight[j]), x, sum);
      }
      sum = activate(sum, p.silu);
    } else {
      sum = 0;
    }
    store_element(p.output, token_element(p, p.output_layout, tile.sequence_first + t, channel),
                  p.output_dtype, sum);
  }
  if (tile.begin != 0 || tile.row < 0) return;
  // A lane per place of the window; all have read the old one before any writes.
  const std::int64_t t = tile.length - window + lane;
  float value = 0;
  if (lane < window) {
    value =
        t >= 0 ? to_float(input[t]) : load_element(p.window_in, row + window + t, p.window_dtype);
  }
  __syncwarp();
  if (lane < window && p.window_out != nullptr &&
      (tile.length > 0 || p.window_in != p.window_out)) {
    store_element(p.window_out, row + lane, p.window_dtype, value);
  }
}

// ---- launch

std::int64_t most_tiles(const ConvParams& p, int run) {
  return p.token_capacity / run + p.num_sequences;
}

template <typename Token, int Width, int Count>
void launch_channels(const ConvParams& p, cudaStream_t stream) {
  const std::int64_t per_block = static_cast<std::int64_t>(kChannelThreads) * Count;
  const std::int64_t channel_blocks = (p.channels + per_block - 1) / per_block;
  const unsigned int blocks =
      grid_blocks(most_tiles(p, kChannelRun) * channel_blocks, "causal_conv1d");
  launch_kernel(conv_channels_kernel<Token, Width, Count>, blocks, kChannelThreads, 0, stream, p,
                static_cast<int>(channel_blocks));
}

template <typename Token>
void launch(const ConvParams& p, cudaStream_t stream) {
  if (p.input_layout == ConvLayout::time) {
    const std::int64_t channel_blocks = (p.channels + kTimeWarps - 1) / kTimeWarps;
    const unsigned int blocks =
        grid_blocks(most_tiles(p, kTimeRun) * channel_blocks, "causal_conv1d");
    launch_kernel(conv_time_kernel<Token>, blocks, 32 * kTimeWarps, 0, stream, p, channel_blocks);
    return;
  }
  constexpr int kVector = 4;  // 8 or 16 bytes: more would take the registers of half the warps
  const auto aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  };
  if (p.width > 4) {
    launch_channels<Token, kMaxWidth, 1>(p, stream);
  } else if (p.channels % kVector == 0 && p.input_token_stride % kVector == 0 && aligned(p.input) &&
             aligned(p.output)) {
    launch_channels<Token, 4, kVector>(p, stream);
  } else {
    launch_channels<Token, 4, 1>(p, stream);
  }
}

}  // namespace

ConvParams make_conv_params(const Problem& problem, const CausalConv1dArguments& arguments) {
  ConvParams p;
  p.input = arguments.input;
  p.weight = arguments.weight;
  p.bias = problem.conv_bias ? arguments.bias : nullptr;
  p.sequence_offsets = arguments.sequence_offsets;
  p.slot_index = arguments.slot_index;
  p.window_in = arguments.state_in;
  p.window_out = arguments.state_out;
  p.output = arguments.output;
  p.token_dtype = problem.token_dtype;
  p.window_dtype = problem.state_dtype;
  p.output_dtype = problem.token_dtype;
  p.input_layout = problem.conv_layout;
  p.output_layout = problem.conv_layout;
  p.num_sequences = problem.num_sequences();
  p.token_capacity = problem.total_tokens();
  p.channels = problem.conv_channels();
  p.input_token_stride = arguments.input_token_stride;
  p.width = static_cast<std::int32_t>(problem.conv_width);
  p.silu = problem.activation == Activation::silu;

  return p;
}

void enqueue_causal_conv1d(const ConvParams& params, cudaStream_t stream) {
  with_element_type(params.token_dtype,
                    [&](auto token) { launch<decltype(token)>(params, stream); });
  GDN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace gdn::GDN_CUDA_TARGET
