// Neighbouring channels of one token as vectors, and what each of them has behind one another: windows and weights.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/activation.cuh"
#include "cuda/element.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

inline constexpr int kVectorWidth = 4;  ///< widths up to this have vectors of channels

template <typename Token>
__device__ __forceinline__ float activate(float x, bool silu) {
  return silu ? silu_for<Token>(x) : x;
}

template <typename Token, int Count>
struct alignas(Count * sizeof(Token)) Channels {
  Token values[Count];
};

/// As a vector, or element by element.
template <bool kVector, typename Token, int Count>
__device__ __forceinline__ Channels<Token, Count> channels_at(const Token* from) {
  if constexpr (kVector) {
    return *reinterpret_cast<const Channels<Token, Count>*>(from);
  } else {
    Channels<Token, Count> result;
#pragma unroll
    for (int i = 0; i < Count; ++i) result.values[i] = from[i];
    return result;
  }
}

/// Channels of a token that is under way, a vector of them where there are several: in words, which are taken apart
/// only as they are read.
template <typename Token, int Count>
struct LoadedChannels {
  static constexpr int kBytes = Count * static_cast<int>(sizeof(Token));
  using Word = std::conditional_t<kBytes % sizeof(std::uint32_t) == 0, std::uint32_t, Token>;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  Channels<Word, kWords> words;

  __device__ __forceinline__ void load(const Token* from) {
    words = *reinterpret_cast<const Channels<Word, kWords>*>(from);
  }
  __device__ __forceinline__ void to_floats(float (&to)[Count]) const {
    if constexpr (std::is_same_v<Token, __nv_bfloat16> &&
                  sizeof(Word) == 4) {  // an instruction each
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        to[2 * i] = __uint_as_float(words.values[i] << 16);
        to[2 * i + 1] = __uint_as_float(words.values[i] & 0xffff0000u);
      }
    } else {
      Channels<Token, Count> channels;
      std::memcpy(&channels, &words, kBytes);
#pragma unroll
      for (int i = 0; i < Count; ++i) to[i] = to_float(channels.values[i]);
    }
  }
};

template <typename Token, int Count, bool kVector = true>
__device__ __forceinline__ void load_channels(const Token* from, float (&to)[Count]) {
  const auto values = channels_at<kVector, Token, Count>(from);
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = to_float(values.values[i]);
}

/// The same from an array whose type is known at run time.
template <int Count>
__device__ __forceinline__ void load_channels(const void* array, std::int64_t index, DType dtype,
                                              float (&to)[Count]) {
  if (dtype == DType::float32)
    return load_channels<float, Count>(static_cast<const float*>(array) + index, to);
  if (dtype == DType::bfloat16)
    return load_channels<__nv_bfloat16, Count>(static_cast<const __nv_bfloat16*>(array) + index,
                                               to);
  load_channels<__half, Count>(static_cast<const __half*>(array) + index, to);
}

template <typename Element, int Count>
__device__ __forceinline__ void store_channels(void* array, std::int64_t index,
                                               const float (&from)[Count]) {
  Channels<Element, Count> values;
#pragma unroll
  for (int i = 0; i < Count; ++i) values.values[i] = from_float<Element>(from[i]);
  *reinterpret_cast<Channels<Element, Count>*>(static_cast<Element*>(array) + index) = values;
}

/// What Count neighbouring channels have, one behind the other in memory: Places values each of their
/// windows or weights.
template <int Count, int Places>
struct PerChannel {
  float values[Count][Places];

  /// `whole`: Count elements at a time, which are aligned; else element by element.
  __device__ __forceinline__ void load(const void* array, std::int64_t index, DType dtype,
                                       bool whole) {
    if (!whole)
      return each(
          [&](int i, int j) { values[i][j] = load_element(array, index + i * Places + j, dtype); });
    if (dtype == DType::float32) return load_whole<float>(array, index);
    if (dtype == DType::bfloat16) return load_whole<__nv_bfloat16>(array, index);
    load_whole<__half>(array, index);
  }
  __device__ __forceinline__ void store(void* array, std::int64_t index, DType dtype,
                                        bool whole) const {
    if (!whole)
      return each(
          [&](int i, int j) { store_element(array, index + i * Places + j, dtype, values[i][j]); });
    if (dtype == DType::float32) return store_whole<float>(array, index);
    if (dtype == DType::bfloat16) return store_whole<__nv_bfloat16>(array, index);
    store_whole<__half>(array, index);
  }

  /// Elements of a type that is known, Count of them at a time.
  template <typename Element>
  __device__ __forceinline__ void load_whole(const void* array, std::int64_t index) {
    const auto* const from = reinterpret_cast<const Channels<Element, Count>*>(
        static_cast<const Element*>(array) + index);
    Channels<Element, Count> parts[Places];
#pragma unroll
    for (int j = 0; j < Places; ++j) parts[j] = from[j];
    each([&](int i, int j) {
      const int at = i * Places + j;
      values[i][j] = to_float(parts[at / Count].values[at % Count]);
    });
  }
  template <typename Element>
  __device__ __forceinline__ void store_whole(void* array, std::int64_t index) const {
    Channels<Element, Count> parts[Places];
    each([&](int i, int j) {
      const int at = i * Places + j;
      parts[at / Count].values[at % Count] = from_float<Element>(values[i][j]);
    });
    auto* const to =
        reinterpret_cast<Channels<Element, Count>*>(static_cast<Element*>(array) + index);
#pragma unroll
    for (int j = 0; j < Places; ++j) to[j] = parts[j];
  }

 private:
  template <typename Body>
  static __device__ __forceinline__ void each(const Body& body) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
#pragma unroll
      for (int j = 0; j < Places; ++j) body(i, j);
    }
  }
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
