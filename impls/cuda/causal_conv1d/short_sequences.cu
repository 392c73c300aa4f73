// The convolution of sequences of a token or two, in one launch. A thread takes four neighbouring channels of one to
// four sequences, which it walks token by token. A sequence that is longer is right too, and slow.
//
// Bound by: latency with few sequences, device memory with many. A one-token step moves a window of three places in
// and out beside an input and an output, so most of what it moves are windows. They lie place after place for each
// channel: what a lane needs is 6 or 12 bytes a channel, apart from its neighbours' by as much, and lanes that load or
// store just that touch every sector three times. So a warp moves the windows of its 128 channels as the contiguous
// bytes that they are, through shared memory, and all sequences' windows and first inputs are under way at once.
// Sequences are taken by their number: nothing is searched for.
//
// Reached, H200, 8192 bfloat16 channels, 1 / 16 / 128 / 512 sequences of one token: bfloat16 windows .0051 / .0055 /
// .0102 / .0242 ms, float32 ones .0052 / .0060 / .0127 / .0356; in tiles .0057 / .0065 / .0124 / .0336 and .0060 /
// .0070 / .0147 / .0396 (data/measured/h200-2026-11-27). Lost, bfloat16, 512: one to three sequences a warp .0348,
// .0292 and .0276 for .0271 with four; the first token asked for where it most likely lies with several sequences a
// warp, too, .0287 for .0273. What bounds one sequence, for which FLA's kernel takes .0041, is not known.
#include <algorithm>

#include "cuda/causal_conv1d/channel_vectors.cuh"
#include "cuda/causal_conv1d/short_sequences.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/overlap.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/ptx.cuh"
#include "cuda/shared_memory.cuh"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kCount = 4;   // channels of a thread
constexpr int kPlaces = 3;  // of a window
constexpr int kWarpChannels = kWarp * kCount;
constexpr int kBlockChannels = kWarps * kWarpChannels;

/// `count` elements that are contiguous in both places, of whole 16 bytes, by the lanes of a warp together.
template <typename Element>
__device__ __forceinline__ void begin_load(Element* to, const Element* from, int count, int lane) {
  constexpr int kCopy = Vector16<Element>::kCount;
#pragma unroll 1
  for (int i = lane * kCopy; i < count; i += kWarp * kCopy) copy16_async(to + i, from + i);
}
template <typename Element>
__device__ __forceinline__ void store(Element* to, const Element* from, int count, int lane) {
  constexpr int kCopy = Vector16<Element>::kCount;
#pragma unroll 1
  for (int i = lane * kCopy; i < count; i += kWarp * kCopy) {
    *reinterpret_cast<Vector16<Element>*>(to + i) =
        *reinterpret_cast<const Vector16<Element>*>(from + i);
  }
}

/// Of a sequence, what a warp's channels have: their windows, and the first token.
template <typename Token, typename Element>
struct alignas(16) Staged {
  Element window[kWarpChannels * kPlaces];
  Token first[kWarpChannels];
};

/// A lane's part of a staged window, oldest inputs first.
template <typename Element>
__device__ __forceinline__ void get_window(const Element* window, int lane,
                                           float (&history)[kPlaces][kCount]) {
  PerChannel<kCount, kPlaces> own;
  own.template load_whole<Element>(window, lane * kCount * kPlaces);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int j = 0; j < kPlaces; ++j) history[j][i] = own.values[i][j];
  }
}
template <typename Element>
__device__ __forceinline__ void set_window(Element* window, int lane,
                                           const float (&history)[kPlaces][kCount]) {
  PerChannel<kCount, kPlaces> own;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int j = 0; j < kPlaces; ++j) own.values[i][j] = history[j][i];
  }
  own.template store_whole<Element>(window, lane * kCount * kPlaces);
}

struct Place {
  int first = 0, length = 0;  ///< tokens
  int row = -1;               ///< of the window pool; -1 = padding, or no such sequence

  __device__ __forceinline__ static Place of(const OrdinaryConvParams& p, std::int64_t sequence) {
    Place place;
    if (sequence >= p.num_sequences) return place;
    const std::int64_t end = p.sequence_offsets[sequence + 1];
    place.first = static_cast<int>(p.sequence_offsets[sequence]);
    place.length = static_cast<int>(end) - place.first;
    place.row = static_cast<int>(p.slot_index ? p.slot_index[sequence] : sequence);
    return place;
  }
  __device__ __forceinline__ Place of_lane(int lane) const {
    return {__shfl_sync(0xffffffffu, first, lane), __shfl_sync(0xffffffffu, length, lane),
            __shfl_sync(0xffffffffu, row, lane)};
  }
};

template <typename Token, typename Weight, typename Element, typename Output>
__global__ void __launch_bounds__(kWarps* kWarp, 5)
    conv_short_kernel(const OrdinaryConvParams p, int channel_blocks, int sequences) {
  using Vector = LoadedChannels<Token, kCount>;
  GDN_DYNAMIC_SHARED_MEMORY(shared, 16);
  hopper::allow_overlap();  // a layer's recurrence, which asks for its states meanwhile
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto block = static_cast<int>(blockIdx.x);
  const std::int64_t warp_channel =
      std::int64_t{block % channel_blocks} * kBlockChannels + warp * kWarpChannels;
  if (warp_channel >= p.channels) return;
  const std::int64_t channel = warp_channel + lane * kCount;
  const bool has_channels = channel < p.channels;
  const auto channels =
      static_cast<int>(min(p.channels - warp_channel, std::int64_t{kWarpChannels}));
  auto* const staged = reinterpret_cast<Staged<Token, Element>*>(shared) + warp * sequences;

  const std::int64_t first_sequence = std::int64_t{block / channel_blocks} * sequences;
  const auto* const input = static_cast<const Token*>(p.input);
  const auto begin_window = [&](int s, std::int64_t row) {
    begin_load(
        staged[s].window,
        static_cast<const Element*>(p.window_in) + (row * p.channels + warp_channel) * kPlaces,
        channels * kPlaces, lane);
  };
  const auto begin_first = [&](int s, std::int64_t token) {
    begin_load(staged[s].first, input + token * p.input_token_stride + warp_channel, channels,
               lane);
  };

  // One sequence's are asked for where they most likely lie before that is known: of one token each, sequence n has
  // token n, and without slots row n. A warp of several sequences has enough under way; there this loses.
  const bool window_is_there = sequences == 1 && !p.slot_index;
  const bool guesses_token = sequences == 1 && first_sequence < p.token_capacity;
  if (window_is_there) begin_window(0, first_sequence);
  if (guesses_token) begin_first(0, first_sequence);
  commit_copies();

  // Lane s knows where sequence s lies.
  Place own;
  if (lane < sequences) own = Place::of(p, first_sequence + lane);
  PerChannel<kCount, kVectorWidth> weight = {};
  float bias[kCount] = {};
  if (has_channels) {
    weight.template load_whole<Weight>(p.weight, channel * kVectorWidth);
    if (p.bias != nullptr) load_channels(static_cast<const Weight*>(p.bias) + channel, bias);
  }
  const bool token_is_there = guesses_token && own.of_lane(0).first == first_sequence;
  if (guesses_token && !token_is_there) wait_copies<0>();  // another one comes to the same place
#pragma unroll 1
  for (int s = 0; s < sequences; ++s) {
    const Place place = own.of_lane(s);
    if (place.row < 0) continue;
    if (!window_is_there) begin_window(s, place.row);
    if (!token_is_there && place.length > 0) begin_first(s, place.first);
  }
  commit_copies();
  wait_copies<0>();
  __syncwarp();

#pragma unroll 1
  for (int s = 0; s < sequences; ++s) {
    const Place place = own.of_lane(s);
    auto* to = static_cast<Output*>(p.output) + place.first * p.channels + channel;
    if (place.row < 0) {
      const float zeros[kCount] = {};
#pragma unroll 1
      for (int t = 0; has_channels && t < place.length; ++t) {
        store_channels<Output>(to, t * p.channels, zeros);
      }
      continue;
    }
    float history[kPlaces][kCount];  // the inputs of the three tokens before, oldest first
    get_window(staged[s].window, lane, history);
    auto next = reinterpret_cast<const Vector*>(staged[s].first)[lane];
    const Token* from = input + place.first * p.input_token_stride + channel;
#pragma unroll 1
    for (int t = 0; has_channels && t < place.length; ++t) {
      const Vector newest = next;
      from += p.input_token_stride;
      if (t + 1 < place.length) next.load(from);
      float values[kCount], sums[kCount];
      newest.to_floats(values);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float value = values[i];
        float sum = bias[i];
#pragma unroll
        for (int j = 0; j < kPlaces; ++j) sum = fmaf(weight.values[i][j], history[j][i], sum);
        sums[i] = activate<Output>(fmaf(weight.values[i][kPlaces], value, sum), p.silu);
#pragma unroll
        for (int j = 0; j + 1 < kPlaces; ++j) history[j][i] = history[j + 1][i];
        history[kPlaces - 1][i] = value;
      }
      store_channels<Output>(to, 0, sums);
      to += p.channels;
    }
    // Not in place where it would write what it read.
    if (p.window_out == nullptr || (place.length == 0 && p.window_in == p.window_out)) continue;
    set_window(staged[s].window, lane, history);
    __syncwarp();
    store(static_cast<Element*>(p.window_out) + (place.row * p.channels + warp_channel) * kPlaces,
          staged[s].window, channels * kPlaces, lane);
  }
}

template <typename Token, typename Weight, typename Element, typename Output>
void launch(const OrdinaryConvParams& p, cudaStream_t stream) {
  // More sequences a warp only where blocks are more than a large card holds at once.
  constexpr std::int64_t kHeld = 640, kMost = 4;
  const std::int64_t channel_blocks = (p.channels + kBlockChannels - 1) / kBlockChannels;
  const std::int64_t sequences =
      std::clamp((p.num_sequences * channel_blocks + kHeld - 1) / kHeld, std::int64_t{1}, kMost);
  const std::int64_t groups = (p.num_sequences + sequences - 1) / sequences;
  launch_kernel(conv_short_kernel<Token, Weight, Element, Output>,
                grid_blocks(groups * channel_blocks, "causal_conv1d"), kWarps * kWarp,
                kWarps * sequences * sizeof(Staged<Token, Element>), stream, p,
                static_cast<int>(channel_blocks), static_cast<int>(sequences));
}

/// One type of an array that is in the tokens' or float32.
template <typename Token, typename Function>
void with_own_type(DType dtype, const Function& function) {
  dtype == DType::float32 ? function(float{}) : function(Token{});
}

}  // namespace

bool has_short_sequences(const AddingConvParams& p) {
  constexpr std::int64_t kLongest = 16;  // of which a thread waits for one after another
  return p.ordinary && p.window_in != nullptr && p.added == nullptr && p.longest <= kLongest &&
         p.token_dtype != DType::float32 &&
         (p.output_dtype == p.token_dtype || p.output_dtype == DType::float32) &&
         (p.window_dtype == p.token_dtype || p.window_dtype == DType::float32) &&
         p.width == kVectorWidth && p.channels % 8 == 0 && p.input_token_stride % 8 == 0 &&
         p.token_capacity <= 2 * p.num_sequences;
}

void enqueue_short_sequences(const OrdinaryConvParams& p, cudaStream_t stream) {
  with_element_type(p.token_dtype, [&](auto token) {
    using Token = decltype(token);
    if constexpr (sizeof(Token) == 2) {
      with_own_type<Token>(p.weight_dtype, [&](auto weight) {
        with_own_type<Token>(p.window_dtype, [&](auto window) {
          with_own_type<Token>(p.output_dtype, [&](auto output) {
            launch<Token, decltype(weight), decltype(window), decltype(output)>(p, stream);
          });
        });
      });
    }
  });
}

}  // namespace gdn::GDN_CUDA_TARGET
