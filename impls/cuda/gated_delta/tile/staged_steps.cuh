// The next steps of a block in shared memory, with all that does not depend on the state: keys, queries and
// values in float32, decays, betas, k . q and what normalises k and q. A warp prepares a step, in the shadow
// of the state's load, and the threads of all warps read it: of a step they are left with what they do to
// the state.
//
// Sums are taken in the order in which a block takes them that stages nothing (recurrence.cuh), so that
// both give the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/key_parts.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/state_tile.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/gated_delta/tile/token_states.cuh"
#include "cuda/raw_run.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// What the sums of a step are multiplied with.
struct StepFactors {
  float key;        ///< what normalises the key
  float query;      ///< the query, and scales it
  float key_query;  ///< k . q with both
};

/// Adds k . q and, where they are normalised, k . k and q . q.
template <int kKeys>
__device__ __forceinline__ void add_step_products(const float (&key)[kKeys],
                                                  const float (&query)[kKeys], bool normalized,
                                                  float (&products)[3]) {
#pragma unroll
  for (int j = 0; j < kKeys; ++j) products[0] = fmaf(key[j], query[j], products[0]);
  if (!normalized) return;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    products[1] = fmaf(key[j], key[j], products[1]);
    products[2] = fmaf(query[j], query[j], products[2]);
  }
}

__device__ __forceinline__ StepFactors step_factors(const GatedDeltaParams& p,
                                                    const float (&products)[3]) {
  StepFactors factors;
  factors.key = 1;
  factors.query = p.scale;
  if (p.normalize_qk) {
    factors.key = 1 / sqrtf(products[1] + kNormEpsilon);
    factors.query = p.scale / sqrtf(products[2] + kNormEpsilon);
  }
  factors.key_query = products[0] * factors.key * factors.query;
  return factors;
}

/// A part's keys or queries of a step as they lie in memory.
template <typename Shape>
struct RawKeys {
  RawRun<Shape::kRun> runs[Shape::kRuns];

  /// Of the vector that begins at element `index`.
  __device__ __forceinline__ void load(const void* array, std::int64_t index, int part,
                                       DType dtype) {
#pragma unroll
    for (int r = 0; r < Shape::kRuns; ++r) {
      runs[r].load(array, index + Shape::key(part, r * Shape::kRun), dtype);
    }
  }
  __device__ __forceinline__ void store(void* array, std::int64_t index, int part,
                                        DType dtype) const {
#pragma unroll
    for (int r = 0; r < Shape::kRuns; ++r) {
      runs[r].store(array, index + Shape::key(part, r * Shape::kRun), dtype);
    }
  }
  __device__ __forceinline__ void unpack(DType dtype, float (&values)[Shape::kKeys]) const {
#pragma unroll
    for (int r = 0; r < Shape::kRuns; ++r) {
      float run[Shape::kRun];
      runs[r].unpack(dtype, run);
#pragma unroll
      for (int j = 0; j < Shape::kRun; ++j) values[r * Shape::kRun + j] = run[j];
    }
  }
};

/// Element of the key of a token's step, and of the query of a token.
__device__ __forceinline__ std::int64_t step_key_index(const GatedDeltaParams& p,
                                                       std::int64_t token, int number,
                                                       int key_head) {
  return token * p.key_token_stride +
         static_cast<std::int64_t>(number * p.num_key_heads + key_head) * p.key_head_dim;
}
__device__ __forceinline__ std::int64_t step_query_index(const GatedDeltaParams& p,
                                                         std::int64_t token, int key_head) {
  return token * p.query_token_stride + static_cast<std::int64_t>(key_head) * p.key_head_dim;
}
__device__ __forceinline__ std::int64_t step_value_index(const GatedDeltaParams& p,
                                                         std::int64_t token, int number, int head) {
  return token * p.value_token_stride +
         static_cast<std::int64_t>(number * p.num_value_heads + head) * p.value_head_dim;
}
__device__ __forceinline__ std::uint32_t load_step_beta(const GateParams& p, std::int64_t token,
                                                        int number, int head) {
  return load_number_bits(p.beta, token, number * p.num_value_heads + head);
}

/// Steps of a block, of a tile of this shape.
template <typename Shape>
struct StagedSteps {
  static constexpr int kSteps = 8;
  static constexpr int kKeyDim = Shape::kKeyDim;

  /// Together, so that one address leads to all of them.
  struct Step {
    KeyParts<Shape> key;
    KeyParts<Shape> query;
    float value[Shape::kBlockValues];  ///< 0 behind the head
    float channel_decay[kKeyDim];      ///< where decays are those of key channels
    StepFactors factors;
    float beta;
    float decay;  ///< of the head; 1 in all steps of a token but the first
  };
  Step steps[kSteps];

  /// The next `count` steps from step `number` of `token` on, by all warps. Where records are kept
  /// (StepRecords, or what has its functions), the keys and decays go to them too, each from one block.
  template <typename Kept>
  __device__ __forceinline__ void stage(const GatedDeltaParams& p, DType token_dtype,
                                        const TilePlace& place, std::int64_t token, int number,
                                        int count, const Kept& kept) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
    for (int s = static_cast<int>(threadIdx.x / 32); s < count; s += Shape::kWarps) {
      const int step = number + s;
      stage_step(p, token_dtype, place, token + step / p.steps, step % p.steps, steps[s], lane,
                 kept);
    }
  }

  /// The decays of a token's key channels, by `threads` threads.
  static __device__ __forceinline__ void stage_channels(const GatedDeltaParams& p, int head,
                                                        std::int64_t token,
                                                        float (&decays)[kKeyDim], int thread,
                                                        int threads) {
#pragma unroll 1
    for (int at = thread; at < kKeyDim; at += threads) {
      decays[at] = channel_decay_of(p.gates, token, head, at);
    }
  }

 private:
  template <typename Kept>
  __device__ __forceinline__ void stage_step(const GatedDeltaParams& p, DType token_dtype,
                                             const TilePlace& place, std::int64_t token, int number,
                                             Step& step, int lane, const Kept& kept) {
    const int part = Shape::kByKeys ? lane : lane % Shape::kLanes;
    const bool has_part = part < Shape::kParts;
    RawKeys<Shape> raw_key = {};
    RawKeys<Shape> raw_query = {};
    if (has_part) {
      raw_key.load(p.key, step_key_index(p, token, number, place.key_head), part, token_dtype);
      raw_query.load(p.query, step_query_index(p, token, place.key_head), part, token_dtype);
    }
    const std::uint32_t raw_beta = load_step_beta(p.gates, token, number, place.head);
    const std::uint32_t raw_gate =
        p.channel_decay || number != 0 ? 0 : load_number_bits(p.gates.gate, token, place.head);
    const std::int64_t values = step_value_index(p, token, number, place.head);
#pragma unroll
    for (int i = lane; i < Shape::kBlockValues; i += 32) {
      const int at = place.first_value + i;
      step.value[i] =
          at < p.value_head_dim ? load_element(p.value, values + at, token_dtype) : 0.0f;
    }
    float head_decay = 1;
    if (number == 0) {
      if (p.channel_decay) {
        stage_channels(p, place.head, token, step.channel_decay, lane, 32);
      } else {
        head_decay = decode_decay(p.gates, widen_bits(raw_gate, p.gates.gate.type), place.head);
      }
    }
    float keys[Shape::kKeys];
    float queries[Shape::kKeys];
    raw_key.unpack(token_dtype, keys);
    raw_query.unpack(token_dtype, queries);
    float products[3] = {};
    add_step_products(keys, queries, p.normalize_qk, products);
#pragma unroll
    for (int i = 0; i < 3; ++i) products[i] = add_parts(products[i]);
    const bool writes_part = lane < Shape::kParts;
    if (writes_part) {
      step.key.write(part, keys);
      step.query.write(part, queries);
    }
    if (lane == 0) {
      step.factors = step_factors(p, products);
      step.beta = decode_beta(p.gates, widen_bits(raw_beta, p.gates.beta.type));
      step.decay = head_decay;
    }
    if constexpr (!std::is_same_v<Kept, TokenStates>) {
      record_step(p, place, token, number, step, lane, raw_key, kept);
    }
  }

  /// The key as it came, once a key head, and the decays, once a value head; both by one block.
  template <typename Records>
  static __device__ __forceinline__ void record_step(const GatedDeltaParams& p,
                                                     const TilePlace& place, std::int64_t token,
                                                     int number, const Step& step, int lane,
                                                     const RawKeys<Shape>& raw_key,
                                                     const Records& records) {
    if (place.first_value != 0) return;
    if (lane < Shape::kParts && place.head == place.key_head * p.value_heads_per_key_head) {
      raw_key.store(records.key, records.key_at(p, token, number, place.key_head), lane,
                    records.key_dtype);
    }
    if (number != 0) return;
    float* const kept = records.decay + records.decay_at(p, token, place.head);
    if (!p.channel_decay) {
      if (lane == 0) kept[0] = step.decay;
      return;
    }
    // Each lane reads what it has written.
    for (int i = lane; i < kKeyDim; i += 32) kept[i] = step.channel_decay[i];
  }

  /// Over the parts of the keys. vk: over the lanes of a group. kv: over the groups of each warp that
  /// will hold a part, then over these warps in their order.
  static __device__ __forceinline__ float add_parts(float sum) {
    constexpr int kTogether = Shape::kByKeys ? Shape::kGroups : Shape::kLanes;
#pragma unroll
    for (int mask = kTogether / 2; mask > 0; mask /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    }
    if constexpr (Shape::kByKeys) {
      float all = 0;
#pragma unroll
      for (int w = 0; w < Shape::kWarps; ++w) {
        all += __shfl_sync(0xffffffffu, sum, w * Shape::kGroups);
      }
      return all;
    } else {
      return sum;
    }
  }
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
