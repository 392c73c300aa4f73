// Where the inputs of a sequence's window lie, before a call and after it, whatever the form of the windows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/causal_conv1d/conv.cuh"
#include "cuda/causal_conv1d/tiles.cuh"
#include "cuda/element.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// The window of a sequence. `Params`: what a kernel takes; its windows are ordinary where it is not derived from
/// ConvParams.
template <typename Params>
struct SequenceWindow {
  static constexpr bool Ordinary = !std::is_base_of_v<ConvParams, Params>;
  const Params& p;
  const Tile& tile;
  bool reads = true;
  int oldest = 0, oldest_after = 0;  // places of the oldest input; other than 0 in rings alone
  bool in_ring = false;

  __device__ __forceinline__ SequenceWindow(const Params& params, const Tile& of)
      : p(params), tile(of) {
    if constexpr (!Ordinary) {
      reads = p.window_in != nullptr && (!p.has_window || p.has_window[tile.sequence] != 0);
      in_ring = static_cast<bool>(p.window_position);
      if (in_ring) {
        oldest = static_cast<int>(p.window_position[tile.sequence] % p.window_places);
        oldest_after = static_cast<int>((std::int64_t{oldest} + tile.length) % p.window_places);
      }
    }
  }

  __device__ __forceinline__ int places() const {
    if constexpr (Ordinary)
      return p.width - 1;
    else
      return p.window_places;
  }
  __device__ __forceinline__ bool is_read() const {
    return Ordinary ? p.window_in != nullptr : reads;
  }
  /// Whether the call writes it: not in place where it would write what it read.
  __device__ __forceinline__ bool moves() const {
    return p.window_out != nullptr &&
           (tile.length > 0 || !is_read() || p.window_in != p.window_out);
  }
  /// Whether what the tokens leave of the old window stays where it lies: it is not written then.
  __device__ __forceinline__ bool stays() const {
    return in_ring && reads && p.window_in == p.window_out;
  }
  /// Where the places of a channel begin.
  __device__ __forceinline__ std::int64_t begin(std::int64_t channel) const {
    if constexpr (Ordinary)
      return (tile.row * p.channels + channel) * (p.width - 1);
    else
      return tile.row * p.window_strides.row + channel * p.window_strides.channel;
  }
  /// Of the i-th channel from the one at `begin` on.
  template <typename Place>
  __device__ __forceinline__ std::int64_t at(std::int64_t begin, int i, Place place) const {
    if constexpr (Ordinary)
      return begin + i * (p.width - 1) + place;
    else
      return begin + i * p.window_strides.channel + place * p.window_strides.place;
  }
  /// The place of input number `number` of a window, counted from the oldest one.
  __device__ __forceinline__ int turned(int first, std::int64_t number) const {
    const int place = first + static_cast<int>(number);
    return place < p.window_places ? place : place - p.window_places;
  }
  /// The old input of that number; 0 where none is read.
  template <typename Number>
  __device__ __forceinline__ float old(std::int64_t begin, int i, Number number) const {
    if constexpr (Ordinary)
      return is_read() ? load_element(p.window_in, at(begin, i, number), p.window_dtype) : 0.0f;
    else
      return reads ? load_element(p.window_in, at(begin, i, turned(oldest, number)), p.window_dtype)
                   : 0.0f;
  }
  /// The new input of that number.
  __device__ __forceinline__ void store(std::int64_t begin, int i, int number, float value) const {
    if constexpr (Ordinary)
      store_element(p.window_out, at(begin, i, number), p.window_dtype, value);
    else
      store_element(p.window_out, at(begin, i, turned(oldest_after, number)), p.window_dtype,
                    value);
  }
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
