// Vectors of Dk floats in shared memory, as the threads of a state tile (state_tile.cuh) read them: each
// its own part, in words of 16 bytes where a part is made of such, no two lanes in one bank.
#pragma once

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

template <typename Shape>
struct KeyParts {
  static constexpr int kAtOnce = Shape::kKeys % 4 == 0 ? 4 : 2;
  struct alignas(kAtOnce * sizeof(float)) AtOnce {
    float values[kAtOnce];
  };
  static constexpr int kWords = Shape::kKeys / kAtOnce;

  AtOnce words[Shape::kParts * kWords];

  __device__ __forceinline__ void write(int part, const float (&values)[Shape::kKeys]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      AtOnce word;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) word.values[i] = values[w * kAtOnce + i];
      words[place(part, w)] = word;
    }
  }
  /// The element of key `key` of the Dk, for threads that make them one by one.
  __device__ __forceinline__ float& at(int key) {
    const int run = key / Shape::kRun;
    const int part =
        run % Shape::kParts;  // a part's runs of vk lie kParts runs apart; of kv it has one
    const int in_part = run / Shape::kParts * Shape::kRun + key % Shape::kRun;
    return words[place(part, in_part / kAtOnce)].values[in_part % kAtOnce];
  }
  __device__ __forceinline__ void read(int part, float (&values)[Shape::kKeys]) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const AtOnce word = words[place(part, w)];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) values[w * kAtOnce + i] = word.values[i];
    }
  }

 private:
  // vk: the lanes of a group read different parts at a time, which therefore lie side by side. kv: they
  // read the same one.
  static __device__ __forceinline__ int place(int part, int word) {
    return Shape::kByKeys ? part * kWords + word : word * Shape::kParts + part;
  }
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
