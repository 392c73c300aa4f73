// Recorded steps (step_records.cuh) done again to a tile of a state. The records of the next steps are
// staged in shared memory, those of the first ones in the shadow of the state's load.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/key_parts.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/staged_steps.cuh"
#include "cuda/gated_delta/tile/state_tile.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// Recorded steps of a block, of a tile of this shape.
template <typename Shape>
struct StagedRecords {
  static constexpr int kSteps = 8;
  static constexpr int kKeyDim = Shape::kKeyDim;

  /// Together, so that one address leads to all of them.
  struct Step {
    KeyParts<Shape> key;
    float u[Shape::kBlockValues];  ///< 0 behind the head
    float channel_decay[kKeyDim];  ///< where decays are those of key channels
    float decay;                   ///< of the head
  };
  Step steps[kSteps];

  /// The next `count` steps from step `first_number` of `first` on, by all warps.
  template <typename Records>
  __device__ __forceinline__ void stage(const GatedDeltaParams& p, const Records& records,
                                        const TilePlace& place, std::int64_t first,
                                        int first_number, int count) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
    for (int s = static_cast<int>(threadIdx.x / 32); s < count; s += Shape::kWarps) {
      const std::int64_t token = first + (first_number + s) / p.steps;
      const int number = (first_number + s) % p.steps;
      const std::int64_t values = records.u_at(p, token, number, place.head);
      Step& step = steps[s];
#pragma unroll
      for (int i = lane; i < Shape::kBlockValues; i += 32) {
        const int at = place.first_value + i;
        step.u[i] = at < p.value_head_dim ? records.load_u(values + at) : 0.0f;
      }
      if (lane < Shape::kParts) {
        RawKeys<Shape> raw;
        raw.load(records.key, records.key_at(p, token, number, place.key_head), lane,
                 records.key_dtype);
        float keys[Shape::kKeys];
        raw.unpack(records.key_dtype, keys);
        step.key.write(lane, keys);
      }
      if (number != 0) continue;
      const float* const kept = records.decay + records.decay_at(p, token, place.head);
      if (!p.channel_decay) {
        if (lane == 0) step.decay = kept[0];
      } else {
        for (int i = lane; i < kKeyDim; i += 32) step.channel_decay[i] = kept[i];
      }
    }
  }
};

/// `Records`: StepRecords, or what has its functions. Does the steps of `length` > 0 tokens from `first` on to a tile whose loads have been issued.
template <typename Shape, typename Records>
__device__ __forceinline__ void replay_steps(const GatedDeltaParams& p, const Records& records,
                                             const TilePlace& place, std::int64_t first,
                                             std::int64_t length, StagedRecords<Shape>& staged,
                                             StateTile<Shape>& tile) {
  using Staged = StagedRecords<Shape>;
  std::int64_t remaining = length * p.steps;
  std::int64_t token = first;
  int number = 0;  // of the token's step
  const auto stage = [&] {
    const int count = static_cast<int>(min(std::int64_t{Staged::kSteps}, remaining));
    staged.stage(p, records, place, token, number, count);
    remaining -= count;
    __syncthreads();
    return count;
  };
  int count = stage();
  tile.unpack();
  while (true) {
#pragma unroll 1
    for (int s = 0; s < count; ++s) {
      const typename Staged::Step& step = staged.steps[s];
      if (number == 0) {
        tile.decay(p.channel_decay ? step.channel_decay : nullptr, step.decay);
      }
      float key[Shape::kKeys];
      float u[Shape::kValues];
      step.key.read(tile.part(), key);
#pragma unroll
      for (int i = 0; i < Shape::kValues; ++i) {
        u[i] = step.u[tile.value(i) - place.first_value];
      }
      tile.add_product(key, u);
      const bool last_of_token = number + 1 == p.steps;
      number = last_of_token ? 0 : number + 1;
      token += last_of_token;
    }
    if (remaining == 0) return;
    __syncthreads();  // these steps have been read
    count = stage();
  }
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
