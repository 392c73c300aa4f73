// The token recurrence on a state that a block holds in registers (state_tile.cuh), one sweep a step:
//
//   S <- diag(alpha) S;   a = S^T k;   b = S^T q;   u = beta (v - a);   o = b + (k . q) u;   S <- S + k u^T
//
// a and b are taken together, before the update, so that a step has one reduction and the output needs
// no second sweep; k . q and the lengths of q and k are summed with them, and normalisation is a factor
// of the sums. A thread loads what it needs of the query, the key and the value, which neighbours find in
// the cache. Staging them in shared memory, by one warp or by all, put a barrier and a chain of dependent
// instructions before the first product; in an earlier form of this code that took 1.3 to 1.4 times as long
// where the state has 16 bits. Decays of key channels alone are decoded together and shared.
//
// Bound, beyond the first token, by instructions: of a warp and token, by estimate, some 400, of which 32
// elements a thread take 128, the sums 60, gates 100. Asking for the next token early, in registers or in
// the L1 cache, made 4 tokens 2 to 33 % slower (H200), but for float32 decode in vk, 3 % faster by L1.
//
// Of each value of the block one thread, its owner, has the value itself and takes u and o; u then goes
// to all threads that hold elements of the value.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/state_tile.cuh"
#include "cuda/gated_delta/step_records.cuh"
#include "cuda/gated_delta/tile_launch.cuh"
#include "cuda/raw_run.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

template <typename State, StateLayout kLayout, int kKeyDim>
class TileRecurrence {
 public:
  using Tile = StateTile<State, kLayout, kKeyDim>;
  using Shape = typename Tile::Shape;

  struct Shared {
    float decay[2][kKeyDim];  ///< of key channels; one is read while the next is written
    /// kv: sums over the keys of each warp (of a and of b, a value each, then three), and u.
    static constexpr int kSums = Shape::kByKeys ? 2 * Shape::kBlockValues + 3 : 1;
    float warp_sums[Shape::kByKeys ? Shape::kWarps : 1][kSums];
    float u[Shape::kByKeys ? Shape::kBlockValues : 1];
  };

  __device__ TileRecurrence(const GatedDeltaParams& params, DType token_dtype,
                            const TilePlace& place, Shared& shared, Tile& tile)
      : p_(params),
        token_dtype_(token_dtype),
        head_(place.head),
        key_head_(place.key_head),
        thread_(static_cast<int>(threadIdx.x)),
        is_first_tile_(place.first_value == 0),
        shared_(shared),
        tile_(tile) {
    // vk: the lanes of a group share out its values, kCopies of them one each. kv: thread t has the
    // block's value t.
    owned_ = Shape::kByKeys ? place.first_value + thread_
                            : tile.value(thread_ % Shape::kLanes / kCopies);
    const bool owner = Shape::kByKeys ? thread_ < Shape::kBlockValues : thread_ % kCopies == 0;
    const bool in_head = owned_ < params.value_head_dim;
    loads_value_ = in_head && (owner || !Shape::kByKeys);
    stores_output_ = in_head && owner;
  }

  /// Of a step, what a thread needs.
  struct Step {
    float key[Shape::kKeys];    ///< not normalised
    float query[Shape::kKeys];  ///< nor scaled
    float value;                ///< its own; 0 where it owns none
    float decay;                ///< of the head; 1 in all steps of a token but the first
    float beta;
    const float* channel_decay;  ///< [Dk], or null: `decay` is that of every key
  };

  /// Runs `length` > 0 tokens from `first` on, over a tile whose loads have been issued. With kKeeps
  /// `records` are written.
  template <bool kKeeps>
  __device__ __forceinline__ void run(std::int64_t first, std::int64_t length,
                                      const StepRecords& records) {
    const std::int64_t end = first + length;
    std::int64_t token = first;
    int number = 0;  // of the token's step
    int buffer = 0;
    RawStep raw = load(token, number);
    tile_.unpack();
    while (true) {
      const bool last = number + 1 == p_.steps;
      const Step step = unpack(raw, token, number, buffer);
      tile_.decay(step.channel_decay, step.decay);
      const Sums sums = sweep(step);
      const float own_u = step.beta * (p_.additive_update ? step.value : step.value - sums.key);
      if (last && stores_output_) {
        store_element(p_.output, output_index(p_, token, head_, owned_), p_.output_dtype,
                      fmaf(sums.key_query, own_u, sums.query));
      }
      const float factored_u = sums.key_factor * own_u;  // which S takes with the key as it came
      if (kKeeps) keep(records, token, number, raw, step, factored_u);
      float u[Shape::kValues];
      spread(factored_u, u);
      tile_.add_product(step.key, u);

      number = last ? 0 : number + 1;
      token += last;
      if (token == end) return;
      if (last) buffer ^= 1;  // decays are those of a token
      raw = load(token, number);
    }
  }

 private:
  static constexpr int kRuns = Shape::kKeys / Shape::kRun;
  /// vk: lanes of a group that own the same value.
  static constexpr int kCopies = Shape::kByKeys ? 1 : Shape::kLanes / Shape::kValues;

  /// A step's operands as they lie in memory.
  struct RawStep {
    RawRun<Shape::kRun> key[kRuns];
    RawRun<Shape::kRun> query[kRuns];
    float value;
    float gate;
    float beta;
  };

  struct Sums {
    float key;         ///< S^T k of the owned value, normalised
    float query;       ///< S^T q, normalised and scaled
    float key_query;   ///< k . q, the same
    float key_factor;  ///< what normalises the key
  };

  /// Issues all loads and waits for none but the value's.
  __device__ __forceinline__ RawStep load(std::int64_t token, int number) const {
    const std::int64_t query = token * p_.query_token_stride + key_head_ * kKeyDim;
    const std::int64_t key =
        token * p_.key_token_stride + (number * p_.num_key_heads + key_head_) * kKeyDim;
    const std::int64_t value =
        token * p_.value_token_stride + (number * p_.num_value_heads + head_) * p_.value_head_dim;
    RawStep raw;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      raw.key[r].load(p_.key, key + tile_.key(r * Shape::kRun), token_dtype_);
      raw.query[r].load(p_.query, query + tile_.key(r * Shape::kRun), token_dtype_);
    }
    raw.beta =
        p_.gates.beta[token * p_.gates.beta_token_stride + number * p_.num_value_heads + head_];
    raw.gate = p_.channel_decay ? 0.0f : p_.gates.gate[token * p_.gates.gate_token_stride + head_];
    raw.value = loads_value_ ? load_element(p_.value, value + owned_, token_dtype_) : 0.0f;
    return raw;
  }

  /// A barrier where decays are those of key channels.
  __device__ __forceinline__ Step unpack(const RawStep& raw, std::int64_t token, int number,
                                         int buffer) {
    Step step;
    step.channel_decay = nullptr;
    step.decay = 1;
    if (number == 0) {
      if (p_.channel_decay) {
        step.channel_decay = shared_.decay[buffer];
        decode_channels(token, shared_.decay[buffer]);
      } else {
        step.decay = decode_decay(p_.gates, raw.gate, head_);
      }
    }
    step.beta = decode_beta(p_.gates, raw.beta);
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      float run[Shape::kRun];
      raw.key[r].unpack(token_dtype_, run);
#pragma unroll
      for (int j = 0; j < Shape::kRun; ++j) step.key[r * Shape::kRun + j] = run[j];
      raw.query[r].unpack(token_dtype_, run);
#pragma unroll
      for (int j = 0; j < Shape::kRun; ++j) step.query[r * Shape::kRun + j] = run[j];
    }
    step.value = raw.value;
    return step;
  }

  __device__ __forceinline__ void decode_channels(std::int64_t token, float (&decay)[kKeyDim]) {
    const float* const gate = p_.gates.gate + token * p_.gates.gate_token_stride + head_ * kKeyDim;
#pragma unroll 1
    for (int at = thread_; at < kKeyDim; at += Shape::kThreads) {
      decay[at] = decode_decay(p_.gates, gate[at], head_, head_ * kKeyDim + at);
    }
    __syncthreads();
  }

  /// One block of a key head writes its key, the first one of a value head the decay, every one its u.
  __device__ __forceinline__ void keep(const StepRecords& records, std::int64_t token, int number,
                                       const RawStep& raw, const Step& step, float u) const {
    if (stores_output_) records.u[u_record(p_, token, number, head_) + owned_] = u;
    if (!is_first_tile_) return;
    const int lane = thread_ % 32;
    const bool has_own_keys = Shape::kByKeys ? lane % Shape::kLanes == 0 : thread_ < Shape::kLanes;
    if (has_own_keys && head_ == key_head_ * p_.value_heads_per_key_head) {
      const std::int64_t at = key_record(p_, token, number, key_head_);
#pragma unroll
      for (int r = 0; r < kRuns; ++r) {
        raw.key[r].store(records.key, at + tile_.key(r * Shape::kRun), records.key_dtype);
      }
    }
    if (number != 0) return;
    float* const decay = records.decay + decay_record(p_, token, head_);
    if (step.channel_decay == nullptr) {
      if (thread_ == 0) decay[0] = step.decay;
    } else {
      for (int i = thread_; i < kKeyDim; i += Shape::kThreads) decay[i] = step.channel_decay[i];
    }
  }

  __device__ __forceinline__ Sums sweep(const Step& step) {
    float of_key[Shape::kValues] = {};
    float of_query[Shape::kValues] = {};
    float products[3] = {};  // k . q, k . k and q . q; the last two where they are normalised
#pragma unroll
    for (int j = 0; j < Shape::kKeys; ++j) {
      const float key = step.key[j];
      const float query = step.query[j];
#pragma unroll
      for (int i = 0; i < Shape::kValues; ++i) {
        of_key[i] = fmaf(tile_.at(j, i), key, of_key[i]);
        of_query[i] = fmaf(tile_.at(j, i), query, of_query[i]);
      }
      products[0] = fmaf(key, query, products[0]);
    }
    if (p_.normalize_qk) {
#pragma unroll
      for (int j = 0; j < Shape::kKeys; ++j) {
        products[1] = fmaf(step.key[j], step.key[j], products[1]);
        products[2] = fmaf(step.query[j], step.query[j], products[2]);
      }
    }
    Sums result;
    if constexpr (Shape::kByKeys) {
      add_warps(of_key, of_query, products, result);
    } else {
      result.key = add_lanes(of_key);
      result.query = add_lanes(of_query);
      for (int i = 0; i < (p_.normalize_qk ? 3 : 1); ++i) products[i] = add_all_lanes(products[i]);
    }
    result.key_factor = 1;
    float query_factor = p_.scale;
    if (p_.normalize_qk) {
      result.key_factor = 1 / sqrtf(products[1] + kNormEpsilon);
      query_factor = p_.scale / sqrtf(products[2] + kNormEpsilon);
    }
    result.key *= result.key_factor;
    result.query *= query_factor;
    result.key_query = products[0] * result.key_factor * query_factor;
    return result;
  }

  /// vk: over the lanes of a group.
  __device__ __forceinline__ static float add_all_lanes(float sum) {
#pragma unroll
    for (int mask = Shape::kLanes / 2; mask > 0; mask /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    }
    return sum;
  }

  /// vk: the sum of the value that the lane owns. Lanes that still have several values each keep the
  /// half that they will own and give the other half away: kValues - 1 exchanges, not one for each
  /// value and level.
  __device__ __forceinline__ float add_lanes(float (&sums)[Shape::kValues]) const {
    int mask = Shape::kLanes / 2;
#pragma unroll
    for (int kept = Shape::kValues / 2; kept > 0; kept /= 2, mask /= 2) {
      const bool upper = (thread_ & mask) != 0;
#pragma unroll
      for (int i = 0; i < kept; ++i) {
        const float given = upper ? sums[i] : sums[kept + i];
        const float own = upper ? sums[kept + i] : sums[i];
        sums[i] = own + __shfl_xor_sync(0xffffffffu, given, mask);
      }
    }
#pragma unroll
    for (; mask > 0; mask /= 2) sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], mask);
    return sums[0];
  }

  /// kv: over the groups of a warp, then over the warps, in their order, by the thread that owns the
  /// value; the products by all.
  __device__ __forceinline__ void add_warps(const float (&of_key)[Shape::kValues],
                                            const float (&of_query)[Shape::kValues],
                                            float (&products)[3], Sums& result) {
    const int lane = thread_ % 32;
    const int first = lane % Shape::kLanes * Shape::kValues;
    float* const warp_sums = shared_.warp_sums[thread_ / 32];
    const auto put = [&](float sum, int at, bool stores) {
#pragma unroll
      for (int mask = Shape::kLanes; mask < 32; mask *= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      }
      if (stores) warp_sums[at] = sum;
    };
#pragma unroll
    for (int i = 0; i < Shape::kValues; ++i) {
      put(of_key[i], first + i, lane < Shape::kLanes);
      put(of_query[i], Shape::kBlockValues + first + i, lane < Shape::kLanes);
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) put(products[i], 2 * Shape::kBlockValues + i, lane == 0);
    __syncthreads();
    const auto take = [&](int at) {
      float sum = 0;
#pragma unroll 8
      for (int w = 0; w < Shape::kWarps; ++w) sum += shared_.warp_sums[w][at];
      return sum;
    };
    const bool owner = thread_ < Shape::kBlockValues;
    result.key = owner ? take(thread_) : 0.0f;
    result.query = owner ? take(Shape::kBlockValues + thread_) : 0.0f;
#pragma unroll
    for (int i = 0; i < 3; ++i) products[i] = take(2 * Shape::kBlockValues + i);
  }

  /// u of the thread's values, from their owners.
  __device__ __forceinline__ void spread(float own_u, float (&u)[Shape::kValues]) {
    if constexpr (Shape::kByKeys) {
      if (thread_ < Shape::kBlockValues) shared_.u[thread_] = own_u;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < Shape::kValues; ++i) {
        u[i] = shared_.u[thread_ % Shape::kLanes * Shape::kValues + i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < Shape::kValues; ++i) {
        u[i] = __shfl_sync(0xffffffffu, own_u, i * kCopies, Shape::kLanes);
      }
    }
  }

  const GatedDeltaParams& p_;
  DType token_dtype_;
  int head_;
  int key_head_;
  int thread_;
  bool is_first_tile_;  ///< of the head
  int owned_;           ///< head dim index of the value that the thread owns, or has a copy of
  bool loads_value_;    ///< needs the value
  bool stores_output_;  ///< is its owner
  Shared& shared_;
  Tile& tile_;
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
