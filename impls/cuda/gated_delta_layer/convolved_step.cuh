// The step of a token as the block that runs it makes it: the convolution of the channels that its tile needs, into
// shared memory and in float32. Blocks of one key head all convolve its queries and keys, from windows that nobody
// has written yet, and one of them moves these windows behind the others.
#pragma once

#include <cstdint>

#include "cuda/causal_conv1d/channel_vectors.cuh"
#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/causal_conv1d/sequence_window.cuh"
#include "cuda/causal_conv1d/tiles.cuh"
#include "cuda/element.cuh"
#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/staged_steps.cuh"
#include "cuda/raw_run.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// Of one sequence, by all threads of a block whose tile has this shape. The block's channels are numbered by
/// themselves: queries, keys, then the values of its tile.
template <typename Shape>
class ConvolvedStep {
 public:
  using Step = typename StagedSteps<Shape>::Step;
  static constexpr int kKeyChannels = 2 * Shape::kKeyDim;  ///< queries and keys
  static constexpr int kChannels = kKeyChannels + Shape::kBlockValues;

  __device__ __forceinline__ ConvolvedStep(const ConvParams& convolution, const GatedDeltaParams& p,
                                           const TilePlace& place, const Tile& sequence)
      : p_(convolution),
        sequence_(sequence),
        window_(convolution, sequence),
        thread_(static_cast<int>(threadIdx.x)),
        end_(kKeyChannels + min(Shape::kBlockValues, p.value_head_dim - place.first_value)),
        first_query_(place.key_head * Shape::kKeyDim),
        query_to_key_(p.num_key_heads * Shape::kKeyDim),
        first_value_(2 * query_to_key_ + place.head * p.value_head_dim + place.first_value),
        shows_keys_(place.first_value == 0 &&
                    place.head == place.key_head * p.value_heads_per_key_head) {}

  /// What the sequence's first token has, whose window is read in vectors where ConvParams::whole.
  __device__ __forceinline__ void make_first(Step& step) const {
    if (!p_.whole) return make(0, step);
#pragma unroll 1
    for (int at = kCount * thread_; at < kChannels; at += kCount * Shape::kThreads) {
      float values[kCount] = {};
      if (at < end_) convolve_vector(channel(at), values);
#pragma unroll
      for (int i = 0; i < kCount; ++i) put(at + i, 0, values[i], step);
    }
  }
  /// Of any token, counted from the sequence's first.
  __device__ __forceinline__ void make(int token, Step& step) const {
#pragma unroll 1
    for (int at = thread_; at < kChannels; at += Shape::kThreads) {
      put(at, token, at < end_ ? convolve(channel(at), token) : 0.0f, step);
    }
  }
  /// Zeros to what a caller sees of a padding sequence's convolution.
  __device__ __forceinline__ void show_zeros() const {
    for (int token = 0; p_.output != nullptr && token < sequence_.length; ++token) {
      for (int at = thread_; at < end_; at += Shape::kThreads) show(at, token, 0.0f);
    }
  }

  __device__ __forceinline__ bool moves_windows() const { return window_.moves(); }
  /// The new windows of the queries and keys, once no block of the key head reads the old ones any more.
  __device__ __forceinline__ void move_key_windows() const { move_windows(0, kKeyChannels); }
  /// Those of the tile's values, which no other block reads.
  __device__ __forceinline__ void move_value_windows() const { move_windows(kKeyChannels, end_); }

 private:
  static constexpr int kCount = 4;  ///< channels of a vector
  static constexpr int kPlaces = kVectorWidth - 1;
  using State = typename Shape::State;

  __device__ __forceinline__ std::int64_t channel(int at) const {
    if (at < Shape::kKeyDim) return first_query_ + at;
    if (at < kKeyChannels) return first_query_ + query_to_key_ + at - Shape::kKeyDim;
    return first_value_ + at - kKeyChannels;
  }

  __device__ __forceinline__ void put(int at, int token, float value, Step& step) const {
    if (at < Shape::kKeyDim) {
      step.query.at(at) = value;
    } else if (at < kKeyChannels) {
      step.key.at(at - Shape::kKeyDim) = value;
    } else {
      step.value[at - kKeyChannels] = value;
    }
    if (p_.output != nullptr && at < end_) show(at, token, value);
  }

  /// conv_output, whose queries and keys are one block's to write.
  __device__ __forceinline__ void show(int at, int token, float value) const {
    if (at < kKeyChannels && !shows_keys_) return;
    const std::int64_t of = channel(at);
    const int of_all = sequence_.sequence_first + token;
    store_element(p_.output,
                  p_.output_layout == ConvLayout::time ? p_.output_rows.at(of, of_all)
                                                       : std::int64_t{of_all} * p_.channels + of,
                  p_.token_dtype, value);
  }

  __device__ __forceinline__ float input(std::int64_t channel, int token) const {
    const int of_all = sequence_.sequence_first + token;
    return load_element(p_.input,
                        p_.input_layout == ConvLayout::time
                            ? p_.input_rows.at(channel, of_all)
                            : std::int64_t{of_all} * p_.input_token_stride + channel,
                        p_.token_dtype);
  }
  /// The input of a token of the sequence or, below 0, of its old window, whose channel begins at `window`.
  __device__ __forceinline__ float input_or_old(std::int64_t channel, std::int64_t window,
                                                int token) const {
    return token >= 0 ? input(channel, token) : window_.old(window, 0, window_.places() + token);
  }

  __device__ __forceinline__ float convolve(std::int64_t channel, int token) const {
    const std::int64_t window = window_.begin(channel);
    float sum = p_.bias != nullptr ? load_element(p_.bias, channel, p_.weight_dtype) : 0.0f;
#pragma unroll 1
    for (int j = 0; j < p_.width; ++j) {
      sum = fmaf(load_element(p_.weight, channel * p_.width + j, p_.weight_dtype),
                 input_or_old(channel, window, token + j - (p_.width - 1)), sum);
    }
    return activate<float>(sum, p_.silu);
  }

  /// Of the first token and kCount channels: all loads are under way before the first is used.
  __device__ __forceinline__ void convolve_vector(std::int64_t channel,
                                                  float (&values)[kCount]) const {
    RawRun<kCount* kPlaces> raw_window = {};
    RawRun<kCount * kVectorWidth> raw_weight;
    RawRun<kCount> raw_input, raw_bias = {};
    if (window_.is_read()) {
      raw_window.load(p_.window_in, window_.begin(channel), kDType<State>);
    }
    raw_input.load(p_.input,
                   std::int64_t{sequence_.sequence_first} * p_.input_token_stride + channel,
                   p_.token_dtype);
    raw_weight.load(p_.weight, channel * kVectorWidth, p_.weight_dtype);
    if (p_.bias != nullptr) raw_bias.load(p_.bias, channel, p_.weight_dtype);
    float window[kCount * kPlaces], weight[kCount * kVectorWidth], newest[kCount];
    raw_window.unpack(kDType<State>, window);
    raw_weight.unpack(p_.weight_dtype, weight);
    raw_input.unpack(p_.token_dtype, newest);
    raw_bias.unpack(p_.weight_dtype, values);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float sum = values[i];
#pragma unroll
      for (int j = 0; j < kPlaces; ++j) {
        sum = fmaf(weight[i * kVectorWidth + j], window[i * kPlaces + j], sum);
      }
      values[i] =
          activate<float>(fmaf(weight[i * kVectorWidth + kPlaces], newest[i], sum), p_.silu);
    }
  }

  /// A thread reads and writes windows of its own channels alone.
  __device__ __forceinline__ void move_windows(int begin, int end) const {
    if (p_.whole && sequence_.length == 1) {
#pragma unroll 1
      for (int at = begin + kCount * thread_; at < end; at += kCount * Shape::kThreads) {
        move_vector(channel(at));
      }
      return;
    }
    const int places = window_.places();
#pragma unroll 1
    for (int at = begin + thread_; at < end; at += Shape::kThreads) {
      const std::int64_t of = channel(at);
      const std::int64_t window = window_.begin(of);
      // What stays of the old window moves to lower places: nothing is overwritten before it is read.
#pragma unroll 1
      for (int j = 0; j < places; ++j) {
        window_.store(window, 0, j, input_or_old(of, window, sequence_.length - places + j));
      }
    }
  }
  __device__ __forceinline__ void move_vector(std::int64_t channel) const {
    const std::int64_t window = window_.begin(channel);
    PerChannel<kCount, kPlaces> inputs = {};
    if (window_.is_read()) inputs.template load_whole<State>(p_.window_in, window);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j + 1 < kPlaces; ++j) inputs.values[i][j] = inputs.values[i][j + 1];
      inputs.values[i][kPlaces - 1] = input(channel + i, 0);
    }
    inputs.template store_whole<State>(p_.window_out, window);
  }

  const ConvParams& p_;
  const Tile& sequence_;
  SequenceWindow<ConvParams> window_;
  int thread_;
  int end_;  ///< of the block's channels: a head may end inside its last tile
  int first_query_, query_to_key_, first_value_;
  bool shows_keys_;
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
