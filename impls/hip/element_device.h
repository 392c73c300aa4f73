// Element types on the device: loads, stores and the conversions between them. Included by .hip
// files only.
#pragma once

#include <type_traits>

#include "hip/element.h"
#include "hip/lanes_device.h"

namespace gdn::hip {

/// bfloat16 as stored: this card has no arithmetic in it.
struct Bfloat16 {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(Half x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(Bfloat16 x) {
  return __builtin_bit_cast(float, static_cast<unsigned>(x.bits) << 16);
}

/// Round to nearest even; NaN stays NaN.
__device__ __forceinline__ Bfloat16 to_bfloat16(float x) {
  const unsigned bits = __builtin_bit_cast(unsigned, x);
  const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  return {static_cast<unsigned short>((x != x ? bits | 0x400000u : rounded) >> 16)};
}

/// Calls f with a null pointer of the element's type: f(static_cast<const float*>(nullptr)) and so
/// on. A uniform branch around code that is compiled once per type.
template <typename F>
__device__ __forceinline__ void with_element(Element element, F f) {
  if (element == Element::float32) {
    f(static_cast<const float*>(nullptr));
  } else if (element == Element::float16) {
    f(static_cast<const Half*>(nullptr));
  } else {
    f(static_cast<const Bfloat16*>(nullptr));
  }
}

template <typename T>
__device__ __forceinline__ T* mutable_array(const T*, void* array) {
  return static_cast<T*>(array);
}
__device__ __forceinline__ void store_as(float* to, float x) { *to = x; }
__device__ __forceinline__ void store_as(Half* to, float x) { *to = static_cast<Half>(x); }
__device__ __forceinline__ void store_as(Bfloat16* to, float x) { *to = to_bfloat16(x); }

/// Element `index` of an array whose type is known at run time only: uniform branches, used where a
/// kernel touches memory rarely (states) or last (outputs).
__device__ __forceinline__ float load_element(const void* array, Element element,
                                              std::int64_t index) {
  if (element == Element::float32) return static_cast<const float*>(array)[index];
  if (element == Element::float16) return to_float(static_cast<const Half*>(array)[index]);
  return to_float(static_cast<const Bfloat16*>(array)[index]);
}
__device__ __forceinline__ void store_element(void* array, Element element, std::int64_t index,
                                              float x) {
  if (element == Element::float32) {
    static_cast<float*>(array)[index] = x;
  } else if (element == Element::float16) {
    static_cast<Half*>(array)[index] = static_cast<Half>(x);
  } else {
    static_cast<Bfloat16*>(array)[index] = to_bfloat16(x);
  }
}

/// N consecutive elements, moved by one access.
template <typename T, int N>
struct alignas(N * sizeof(T)) Packet {
  T x[N];
};
/// Elements offset .. offset + N - 1 of an array, or its first N if they are not `inside` it: no
/// load waits in a branch for the one before it.
template <typename T, int N>
__device__ __forceinline__ Packet<T, N> load_inside_or_first(bool inside, const T* array,
                                                             unsigned offset) {
  constexpr int kBytes = N * sizeof(T);
  using Word = std::conditional_t<kBytes % 4 == 0, unsigned, unsigned short>;
  using Words = Packet<Word, kBytes / static_cast<int>(sizeof(Word))>;
  return __builtin_bit_cast(Packet<T, N>,
                            *reinterpret_cast<const Words*>(array + (inside ? offset : 0u)));
}
/// The packet, or zeros if it is not `inside`. This is a use of what was loaded: the load's wait.
template <typename T, int N>
__device__ __forceinline__ Packet<T, N> zero_outside(bool inside, const Packet<T, N>& packet) {
  constexpr int kBytes = N * sizeof(T);
  using Word = std::conditional_t<kBytes % 4 == 0, unsigned, unsigned short>;
  auto words = __builtin_bit_cast(Packet<Word, kBytes / static_cast<int>(sizeof(Word))>, packet);
#pragma unroll
  for (Word& word : words.x) word = inside ? word : Word{0};
  return __builtin_bit_cast(Packet<T, N>, words);
}
/// Elements offset .. offset + N - 1 of an array, or zeros if they are not `inside` it.
template <typename T, int N>
__device__ __forceinline__ Packet<T, N> load_inside(bool inside, const T* array, unsigned offset) {
  return zero_outside(inside, load_inside_or_first<T, N>(inside, array, offset));
}

/// Stores the packet by one access. 16-bit elements go as words made of two: a copy of the packet
/// would be one store per element to the compiler, which does not always put them together again.
template <typename T, int N>
__device__ __forceinline__ void store_packet(T* to, const Packet<T, N>& packet) {
  if constexpr (sizeof(T) == 2) {
    Packet<unsigned, N / 2> words;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const unsigned low = __builtin_bit_cast(unsigned short, packet.x[2 * i]);
      const unsigned high = __builtin_bit_cast(unsigned short, packet.x[2 * i + 1]);
      words.x[i] = low | high << 16;
    }
    *reinterpret_cast<Packet<unsigned, N / 2>*>(to) = words;
  } else {
    *reinterpret_cast<Packet<T, N>*>(to) = packet;
  }
}

__device__ __forceinline__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

}  // namespace gdn::hip
