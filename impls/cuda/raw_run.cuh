// Elements as they lie in memory, for kernels that load ahead of use.
#pragma once

#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/target.h"
#include "interface/dtype.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// `kCount` consecutive elements as they lie in memory: loading ahead of use must not wait for a
/// conversion. The first is aligned to what kCount 16-bit elements take, 16 bytes at most.
template <int kCount>
struct RawRun {
  std::uint32_t words[kCount];  ///< two elements a word where they have 16 bits

  __device__ __forceinline__ void load(const void* array, std::int64_t index, DType dtype) {
    if (dtype == DType::float32) {
      load_words<kCount>(static_cast<const float*>(array) + index);
    } else {
      load_words<kCount / 2>(static_cast<const std::uint16_t*>(array) + index);
    }
  }
  __device__ __forceinline__ void store(void* array, std::int64_t index, DType dtype) const {
    if (dtype == DType::float32) {
      store_words<kCount>(static_cast<float*>(array) + index);
    } else {
      store_words<kCount / 2>(static_cast<std::uint16_t*>(array) + index);
    }
  }
  __device__ __forceinline__ void unpack(DType dtype, float (&values)[kCount]) const {
    switch (dtype) {
      case DType::bfloat16:
        return unpack_16_bits<__nv_bfloat16>(values);
      case DType::float16:
        return unpack_16_bits<__half>(values);
      case DType::float32:
      case DType::int8:
        break;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = __uint_as_float(words[i]);
  }

 private:
  template <typename T>
  __device__ __forceinline__ void unpack_16_bits(float (&values)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = widen_half_word<T>(words[i / 2], i % 2);
  }
  template <int kWords>
  struct alignas(kWords % 4 == 0   ? 16
                 : kWords % 2 == 0 ? 8
                                   : 4) Words {
    static constexpr int kAtOnce = kWords % 4 == 0 ? 4 : kWords % 2 == 0 ? 2 : 1;
    std::uint32_t words[kAtOnce];
  };
  template <int kWords>
  __device__ __forceinline__ void load_words(const void* from) {
    using AtOnce = Words<kWords>;
#pragma unroll
    for (int i = 0; i < kWords; i += AtOnce::kAtOnce) {
      const AtOnce loaded = static_cast<const AtOnce*>(from)[i / AtOnce::kAtOnce];
#pragma unroll
      for (int j = 0; j < AtOnce::kAtOnce; ++j) words[i + j] = loaded.words[j];
    }
  }
  template <int kWords>
  __device__ __forceinline__ void store_words(void* to) const {
    using AtOnce = Words<kWords>;
#pragma unroll
    for (int i = 0; i < kWords; i += AtOnce::kAtOnce) {
      AtOnce stored;
#pragma unroll
      for (int j = 0; j < AtOnce::kAtOnce; ++j) stored.words[j] = words[i + j];
      static_cast<AtOnce*>(to)[i / AtOnce::kAtOnce] = stored;
    }
  }
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
