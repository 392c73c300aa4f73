// cuda/direct: gradients of the causal convolution (docs/contract.md, section 1.12), in two launches.
//
// A thread walks tiles of consecutive tokens for four neighbouring channels (or one, where they are not
// aligned, lie time fastest, or widths are larger than four). It holds the last inputs and the last g, the
// gradient behind the weighted sum, by their lag; a token gives
//
//     g = d_y act'(bias + sum_i a_i x[t - i]);   d_a_i += g x[t - i];   d_x[t - (kLags - 1)] = sum_i a_i g[.. + i]
//
// with a_i = weight[width - 1 - i]. The inputs of a tile's end need g of width - 1 tokens behind it, which the
// tile computes again: what it writes of d_x is the same whatever its neighbours do, and so are its bits. The
// first tile of a sequence goes on to the window before it, whose gradients are more of the same sums, and the
// gradient of the new window is added where its inputs lie.
//
// Sums over tokens stay in registers over all tiles of a block and are written once, [blocks, width + 1,
// channels]; a second kernel adds those of the blocks in a fixed order, in float64. No atomics.
//
// Tokens inside a tile, whose sums lie in it too, take a path without a question about ends, and what is under way is
// kept in words of two channels: with a question for each token, and channels taken apart as they came, it was bound
// by instructions, 1.54 ms on an H100 for what is below.
//
// Bound by device memory: one read of inputs and of d_y, one write of d_x, (width - 1) / tile of the reads again.
// Reached on an H200, 32768 tokens of 8192 channels, width 4, SiLU: 0.416 ms in bfloat16, 3.87 TB/s (0.423 of 16
// sequences), 0.916 in float32, 3.52; 8192 tokens of 3072 channels 0.061, 2.47. 28 instructions for an element.
// Tried with those tokens when there were 37 and it took 0.63 ms: two channels a thread 0.62; eight tokens under way
// 0.87 (the threads that their registers would have held); tiles of 64, 128, 256, 512 tokens 0.69, 0.64, 0.63, 0.62.
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "cuda/activation.cuh"
#include "cuda/causal_conv1d/channel_vectors.cuh"
#include "cuda/causal_conv1d/tiles.cuh"
#include "cuda/element.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/sum_of_parts.cuh"
#include "cuda/target.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/convolution_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kMaxWidth = 15;
constexpr int kThreads = 128;
constexpr int kVector = 4;                           // channels of a thread: 8 or 16 bytes
constexpr int kLongestRun = 512, kShortestRun = 32;  // tokens of a tile
constexpr std::int64_t kManyBlocks = 396;            // three for each SM of a Hopper card
constexpr std::int64_t kMostGroups = 1024;  // sums that the second launch adds for a weight

/// An array by tokens and channels, in either layout.
struct TokenArray {
  const void* data = nullptr;
  std::int64_t token_stride = 0, channel_stride = 1;

  __device__ __forceinline__ std::int64_t at(std::int64_t token, std::int64_t channel) const {
    return token * token_stride + channel * channel_stride;
  }
};

struct GradientParams {
  TokenArray input, d_output, d_input;  // of d_input `data` is written
  const void* weight = nullptr;         // [channels, width], in weight_dtype
  const void* bias = nullptr;           // [channels] in weight_dtype, or null
  IndexArray sequence_offsets;
  IndexArray slot_index;          // none: sequence n has row n
  IndexArray has_window;          // none: every sequence reads its window
  const void* window = nullptr;   // null: zeros stand before the sequences
  const void* d_final = nullptr;  // null: no window was written
  void* d_initial = nullptr;      // there where `window` is
  float* d_weight = nullptr;
  float* d_bias = nullptr;  // null: no bias
  float* partial_sums =
      nullptr;  // [groups, width + 1, channels], by lag; the last those of the bias
  WindowStrides window_strides;
  DType weight_dtype = DType::float32;
  DType window_dtype = DType::float32;
  std::int64_t num_sequences = 0;
  std::int64_t channels = 0;
  std::int32_t width = 4;
  std::int32_t run = 64;             // tokens of a tile
  std::int32_t tiles_per_group = 1;  // of a block, one after the other
  std::int32_t groups = 1;
  bool silu = false;
  bool residual = false;
};

/// What is known of a problem alone: how its tokens are cut.
struct Shape {
  std::int32_t run = kLongestRun;
  std::int32_t tiles_per_group = 1;
  std::int32_t groups = 1;

  explicit Shape(const Problem& p) {
    const std::int64_t tokens = p.total_tokens(), sequences = p.num_sequences();
    const std::int64_t per_block = std::int64_t{kThreads} * kVector;
    const std::int64_t channel_blocks = (p.conv_channels() + per_block - 1) / per_block;
    // Longer tiles read less of their neighbours, shorter ones fill a card.
    while (run > kShortestRun && most_tiles(tokens, sequences, run) * channel_blocks < kManyBlocks)
      run /= 2;
    const std::int64_t tiles = most_tiles(tokens, sequences, run);
    tiles_per_group = static_cast<std::int32_t>((tiles + kMostGroups - 1) / kMostGroups);
    groups = static_cast<std::int32_t>((tiles + tiles_per_group - 1) / tiles_per_group);
  }
  std::int64_t workspace_floats(const Problem& p) const {
    return groups * (p.conv_width + 1) * p.conv_channels();
  }
};

/// Channels of one token, as they lie.
template <bool kVectors, typename Token, int Count>
__device__ __forceinline__ Channels<Token, Count> token_at(const TokenArray& array,
                                                           std::int64_t token,
                                                           std::int64_t channel) {
  static_assert(kVectors || Count == 1);
  return channels_at<kVectors, Token, Count>(static_cast<const Token*>(array.data) +
                                             array.at(token, channel));
}

/// Lags: taps that registers are for, of which the problem has `width`. Ahead: tokens under way while as many
/// are computed.
template <typename Token, int Lags, int Count, int Ahead>
__global__ void __launch_bounds__(kThreads, sizeof(Token) == 2 ? 4 : 3)
    conv_gradients_kernel(const GradientParams p, const int channel_blocks) {
  constexpr bool kVectors = Count > 1;
  const std::int64_t channel =
      (static_cast<int>(blockIdx.x) % channel_blocks * kThreads + static_cast<int>(threadIdx.x)) *
      std::int64_t{Count};
  const int group = static_cast<int>(blockIdx.x) / channel_blocks;
  const bool has_channels = channel < p.channels;
  const int window = p.width - 1;

  float a[Lags][Count], d_a[Lags][Count];  // by lag
  float bias[Count], d_bias[Count];
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    bias[c] = has_channels && p.bias != nullptr ? load_element(p.bias, channel + c, p.weight_dtype)
                                                : 0.0f;
    d_bias[c] = 0;
#pragma unroll
    for (int i = 0; i < Lags; ++i) {
      d_a[i][c] = 0;
      a[i][c] = has_channels && i < p.width
                    ? load_element(p.weight, (channel + c) * p.width + window - i, p.weight_dtype)
                    : 0.0f;
    }
  }

  for (int k = 0; k < p.tiles_per_group; ++k) {
    Tile tile;
    const std::int64_t index = static_cast<std::int64_t>(group) * p.tiles_per_group + k;
    if (!find_tile(p, index, p.run, tile) || !has_channels) continue;
    const std::int64_t first = tile.sequence_first;
    const auto store = [&](std::int64_t at, const float(&d)[Count]) {
      auto* const to = static_cast<Token*>(const_cast<void*>(p.d_input.data)) + at;
      Channels<Token, Count> values;
#pragma unroll
      for (int c = 0; c < Count; ++c) values.values[c] = from_float<Token>(d[c]);
      *reinterpret_cast<Channels<Token, Count>*>(to) = values;
    };
    if (tile.row < 0) {  // padding: zeros, and in no sum
      const float zeros[Count] = {};
      for (int t = tile.begin; t < tile.end; ++t) store(p.d_input.at(first + t, channel), zeros);
      continue;
    }
    const bool reads = p.window != nullptr && (!p.has_window || p.has_window[tile.sequence] != 0);
    const auto place = [&](int c, int j) {
      return tile.row * p.window_strides.row + (channel + c) * p.window_strides.channel +
             j * p.window_strides.place;
    };

    // x[i] and g[i] are those of token t - i; at first of t = begin - 1.
    float x[Lags][Count], g[Lags][Count];
#pragma unroll
    for (int i = 0; i < Lags; ++i) {
      const int t = tile.begin - 1 - i;
      const bool in_window = t < 0 && reads && window + t >= 0;
      Channels<Token, Count> tokens{};
      if (t >= 0 && i < window)
        tokens = token_at<kVectors, Token, Count>(p.input, first + t, channel);
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        g[i][c] = 0;
        x[i][c] = in_window ? load_element(p.window, place(c, window + t), p.window_dtype)
                  : t >= 0 && i < window ? to_float(tokens.values[c])
                                         : 0.0f;
      }
    }

    // g is needed of tokens up to g_end, d_x is a sum up to Lags - 1 tokens behind its own.
    const int g_end = min(tile.length, tile.end + window);
    const int stop = tile.end + Lags - 1;
    const int first_written = tile.begin == 0 ? -window : tile.begin;
    LoadedChannels<Token, Count> next_x[Ahead], next_d[Ahead];
    const auto* from_x =
        static_cast<const Token*>(p.input.data) + p.input.at(first + tile.begin, channel);
    const auto* from_d =
        static_cast<const Token*>(p.d_output.data) + p.d_output.at(first + tile.begin, channel);
    const auto load = [&](int t) {
#pragma unroll
      for (int s = 0; s < Ahead; ++s) {
        if (t + s < g_end) {
          next_x[s].load(from_x);
          next_d[s].load(from_d);
        }
        from_x += p.input.token_stride;
        from_d += p.d_output.token_stride;
      }
    };
    std::int64_t to =
        p.d_input.at(first + tile.begin - Lags, channel);  // of the token whose sum is complete
    // One token. `inner`: it is of the tile, and so is the one whose sum it completes; that one is in no window.
    const auto step = [&](auto inner, int t, const LoadedChannels<Token, Count>& now_x,
                          const LoadedChannels<Token, Count>& now_d) {
      constexpr bool kInner = decltype(inner)::value;
      to += p.d_input.token_stride;
#pragma unroll
      for (int i = Lags - 1; i > 0; --i) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          x[i][c] = x[i - 1][c];
          g[i][c] = g[i - 1][c];
        }
      }
      const bool has_g = kInner || t < g_end, in_sums = kInner || t < tile.end;
      now_x.to_floats(x[0]);
      now_d.to_floats(g[0]);
#pragma unroll
      for (int c = 0; c < Count && !kInner; ++c) {
        x[0][c] = has_g ? x[0][c] : 0.0f;
        g[0][c] = has_g ? g[0][c] : 0.0f;
      }
      if (p.silu && has_g) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          float z = bias[c];
#pragma unroll
          for (int i = Lags - 1; i >= 0; --i) z = fmaf(a[i][c], x[i][c], z);
          g[0][c] *= silu_slope_for<Token>(z);
        }
      }
      if (in_sums) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          d_bias[c] += g[0][c];
#pragma unroll
          for (int i = 0; i < Lags; ++i) d_a[i][c] = fmaf(g[0][c], x[i][c], d_a[i][c]);
        }
      }

      const int u = t - (Lags - 1);  // whose sum is complete
      if (!kInner && (u < first_written || u >= tile.end)) return;
      float d[Count];
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        d[c] = 0;
#pragma unroll
        for (int i = 0; i < Lags; ++i) d[c] = fmaf(a[i][c], g[Lags - 1 - i][c], d[c]);
      }
      const int in_new_window = u + window - tile.length;
      if (!kInner && p.d_final != nullptr && in_new_window >= 0) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          d[c] += load_element(p.d_final, place(c, in_new_window), p.window_dtype);
        }
      }
      if (kInner || u >= 0) {
        if (p.residual) {
          const auto d_y = token_at<kVectors, Token, Count>(p.d_output, first + u, channel);
#pragma unroll
          for (int c = 0; c < Count; ++c) d[c] += to_float(d_y.values[c]);
        }
        store(to, d);
      } else if (p.d_initial != nullptr) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          store_element(p.d_initial, place(c, u + window), p.window_dtype, reads ? d[c] : 0.0f);
        }
      }
    };

    load(tile.begin);
    for (int begin = tile.begin; begin < stop; begin += Ahead) {
      LoadedChannels<Token, Count> now_x[Ahead], now_d[Ahead];
#pragma unroll
      for (int s = 0; s < Ahead; ++s) {
        now_x[s] = next_x[s];
        now_d[s] = next_d[s];
      }
      load(begin + Ahead);
      // Windows have fewer than Lags inputs: what is added to them is behind the tile's end.
      if (begin - tile.begin >= Lags - 1 && begin + Ahead <= tile.end) {
#pragma unroll
        for (int s = 0; s < Ahead; ++s) step(std::true_type{}, begin + s, now_x[s], now_d[s]);
        continue;
      }
#pragma unroll
      for (int s = 0; s < Ahead; ++s) {
        if (begin + s < stop) step(std::false_type{}, begin + s, now_x[s], now_d[s]);
      }
    }
  }

  if (!has_channels) return;
  float* const sums =
      p.partial_sums + static_cast<std::int64_t>(group) * (p.width + 1) * p.channels;
#pragma unroll
  for (int i = 0; i < Lags; ++i) {
    if (i >= p.width) continue;
#pragma unroll
    for (int c = 0; c < Count; ++c) sums[i * p.channels + channel + c] = d_a[i][c];
  }
#pragma unroll
  for (int c = 0; c < Count; ++c) sums[p.width * p.channels + channel + c] = d_bias[c];
}

/// A block for kSumColumns of (lag or bias, channel).
__global__ void __launch_bounds__(kSumThreads) conv_gradient_sums_kernel(const GradientParams p) {
  const std::int64_t columns = (p.width + 1) * p.channels;
  double sum;
  std::int64_t column;
  if (!sum_of_parts(p.partial_sums, p.groups, columns, column, sum)) return;
  const std::int64_t lag = column / p.channels, channel = column % p.channels;
  if (lag < p.width) {
    p.d_weight[channel * p.width + p.width - 1 - lag] = static_cast<float>(sum);
  } else if (p.d_bias != nullptr) {
    p.d_bias[channel] = static_cast<float>(sum);
  }
}

// ---- launch

template <typename Token, int Lags, int Count, int Ahead>
void launch_gradients(const GradientParams& p, cudaStream_t stream) {
  constexpr std::int64_t kPerBlock = std::int64_t{kThreads} * Count;
  const std::int64_t channel_blocks = (p.channels + kPerBlock - 1) / kPerBlock;
  launch_kernel(conv_gradients_kernel<Token, Lags, Count, Ahead>,
                grid_blocks(p.groups * channel_blocks, "causal_conv1d_backward"), kThreads, 0,
                stream, p, static_cast<int>(channel_blocks));
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

bool takes_vectors(const TokenArray& array) {
  return array.channel_stride == 1 && array.token_stride % kVector == 0 && is_aligned(array.data);
}

template <typename Token>
void enqueue_gradients(const GradientParams& p, cudaStream_t stream) {
  constexpr int kAhead = sizeof(Token) == 2 ? 4 : 2;
  const bool vectors = p.channels % kVector == 0 && takes_vectors(p.input) &&
                       takes_vectors(p.d_output) && takes_vectors(p.d_input);
  if (p.width > kVectorWidth) {
    launch_gradients<Token, kMaxWidth, 1, 1>(p, stream);
  } else if (vectors) {
    launch_gradients<Token, kVectorWidth, kVector, kAhead>(p, stream);
  } else {
    launch_gradients<Token, kVectorWidth, 1, kAhead>(p, stream);
  }
  const std::int64_t columns = (p.width + 1) * p.channels;
  launch_kernel(conv_gradient_sums_kernel,
                grid_blocks((columns + kSumColumns - 1) / kSumColumns, "sums over a batch"),
                kSumThreads, 0, stream, p);
}

GradientParams make_params(const Problem& problem, const CausalConv1dBackwardArguments& arguments,
                           const Shape& shape, float* partial_sums) {
  const bool by_channels = problem.conv_layout == ConvLayout::channels;
  const auto array = [&](const void* data, std::int64_t stride) {
    return by_channels ? TokenArray{data, stride, 1} : TokenArray{data, 1, problem.total_tokens()};
  };
  GradientParams p;
  p.input = array(arguments.forward.input, arguments.forward.input_token_stride);
  p.d_output = array(arguments.d_output, arguments.d_output_token_stride);
  p.d_input = array(arguments.d_input, problem.conv_channels());
  p.weight = arguments.forward.weight;
  p.bias = problem.conv_bias ? arguments.forward.bias : nullptr;
  p.sequence_offsets = arguments.forward.sequence_offsets;
  p.slot_index = arguments.forward.slot_index;
  p.has_window = arguments.forward.has_window;
  p.window = arguments.forward.state_in;
  p.d_final = arguments.d_final_window;
  p.d_initial = arguments.d_initial_window;
  p.d_weight = arguments.d_weight;
  p.d_bias = problem.conv_bias ? arguments.d_bias : nullptr;
  p.partial_sums = partial_sums;
  p.window_strides = window_strides(problem);
  p.weight_dtype = problem.effective_conv_weight_dtype();
  p.window_dtype = problem.state_dtype;
  p.num_sequences = problem.num_sequences();
  p.channels = problem.conv_channels();
  p.width = static_cast<std::int32_t>(problem.conv_width);
  p.run = shape.run;
  p.tiles_per_group = shape.tiles_per_group;
  p.groups = shape.groups;
  p.silu = problem.activation == Activation::silu;
  p.residual = problem.conv_residual == ConvResidual::input;
  return p;
}

class Direct final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/direct",
        .operation = causal_conv1d_backward_operation(),
        .honours = {"channels", "slots", "pool_rows", "state", "width", "bias", "act", "residual",
                    "weights", "conv_layout", "window_layout", "window", "fresh"},
        .backend = "cuda",
        .form = "direct",
        .summary =
            "tokens in tiles, four channels per thread, sums of weights by a second launch; bound "
            "by device memory",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 10,
        .examples = {"causal_conv1d_backward:channels=132,seq=20+3,dtype=f32",
                     "causal_conv1d_backward:channels=131,seq=70+2+0+1,dtype=bf16,width=3,bias=1",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=none",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=read,width=9",
                     "causal_conv1d_backward:channels=36,seq=9+1,dtype=bf16,window=written,"
                     "residual=1",
                     "causal_conv1d_backward:channels=36,seq=9+2+5+0,dtype=f16,fresh=1,weights=f32",
                     "causal_conv1d_backward:channels=131,seq=70+2+1,dtype=bf16,slots=padding,"
                     "window_layout=channels,conv_layout=time"}};
    return description;
  }

  Support supports(const Problem&) const override { return Support::yes(); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return Shape(problem).workspace_floats(problem) * static_cast<std::int64_t>(sizeof(float));
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const CausalConv1dBackwardArguments given =
        causal_conv1d_backward_arguments(problem, arguments);
    const Shape shape(problem);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(workspace_bytes(problem)));
    const GradientParams params = make_params(problem, given, shape, workspaces.back().as<float>());
    PlanInfo info;
    info.launches = 2;
    info.choice = "tiles of " + std::to_string(shape.run) + " tokens";
    const DType token = problem.token_dtype;
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces), [params, token](cudaStream_t stream) {
          with_element_type(
              token, [&](auto element) { enqueue_gradients<decltype(element)>(params, stream); });
        });
  }
};

}  // namespace

const Implementation& causal_conv1d_backward_direct() {
  static const Direct implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
