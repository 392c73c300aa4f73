// The token recurrence on a state that a block holds in registers (state_tile.cuh), one sweep a step:
//
//   S <- diag(alpha) S;   a = S^T k;   b = S^T q;   u = beta (v - a);   o = b + (k . q) u;   S <- S + k u^T
//
// a and b are taken together, before the update, so that a step has one reduction and the output needs
// no second sweep; normalisation is a factor of the sums.
//
// Run directly, a step is loaded by the threads that need it, which find in the cache what neighbours
// have loaded, and k . q and the lengths of q and k are summed with a and b: for a first step a barrier
// and a chain of dependent instructions before the first product cost 1.3 to 1.4 times the time, where
// the state has 16 bits. Steps of drafts are staged in shared memory (staged_steps.cuh) while the state is
// under way: what they cost beyond the state's bytes is instructions, and what all threads of a block
// need is then made once. Both ways give the same bits.
//
// Of each value of the block one thread, its owner, has the value itself and takes u and o; u then goes
// to all threads that hold elements of the value.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/staged_steps.cuh"
#include "cuda/gated_delta/tile/state_tile.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/gated_delta/tile/token_states.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

template <typename Shape>
class TileRecurrence {
 public:
  using Tile = StateTile<Shape>;
  using Staged = StagedSteps<Shape>;
  static constexpr int kKeyDim = Shape::kKeyDim;

  struct Shared {
    float channel_decay[2][kKeyDim];  ///< of tokens run directly; one is read, the next written
    /// kv: sums over the keys of each warp (of a and of b, a value each, then three), and u.
    static constexpr int kSums = Shape::kByKeys ? 2 * Shape::kBlockValues + 4 : 4;
    alignas(16) float warp_sums[Shape::kByKeys ? Shape::kWarps : 1][kSums];
    alignas(16) float u[Shape::kByKeys ? Shape::kBlockValues : 4];
  };

  __device__ TileRecurrence(const GatedDeltaParams& params, DType token_dtype,
                            const TilePlace& place, Shared& shared, Tile& tile)
      : p_(params),
        token_dtype_(token_dtype),
        place_(place),
        thread_(static_cast<int>(threadIdx.x)),
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

  /// Runs `length` > 0 tokens from `first` on, over a tile whose loads have been issued, each step from
  /// memory as it comes. A barrier a token where decays are those of key channels. After each token
  /// `behind(token)` is called by every thread, the tile being the state before that token.
  template <typename Behind>
  __device__ __forceinline__ void run_directly(std::int64_t first, std::int64_t length,
                                               Behind behind) {
    const std::int64_t end = first + length;
    std::int64_t token = first;
    int number = 0;  // of the token's step
    int buffer = 0;
    RawStep raw = load(token, number);
    HeadGates of_head;  // asked for beside the first step, not behind the state
    if (!p_.channel_decay) of_head = head_gates(p_.gates, place_.head, place_.head);
    tile_.unpack();
    while (true) {
      if (number == 0) decay_state(raw, of_head, token, shared_.channel_decay[buffer]);
      Step step;
      raw.key.unpack(token_dtype_, step.key);
      raw.query.unpack(token_dtype_, step.query);
      float products[3] = {};
      add_step_products(step.key, step.query, p_.normalize_qk, products);
      const Sums sums = sweep(step, &products);
      const StepFactors factors = step_factors(p_, products);
      const float beta = decode_beta(p_.gates, widen_bits(raw.beta, p_.gates.beta.type));
      const float own_u = owners_u(beta, widen_bits(raw.value, token_dtype_), sums, factors);
      const bool last_of_token = number + 1 == p_.steps;
      if (last_of_token) {
        store_output(output_index(p_, token, place_.head, owned_), sums, factors, own_u);
      }
      update(step, factors.key * own_u);

      number = last_of_token ? 0 : number + 1;
      token += last_of_token;
      if (last_of_token) behind(token);
      if (token == end) return;
      buffer ^= static_cast<int>(last_of_token);
      raw = load(token, number);
    }
  }

  /// One token of one step, over a tile that is unpacked. The block has put into `from` all but the factors, which
  /// are summed with the products as they are directly. store(value, output) is called by the owner of each value,
  /// with its head dim index.
  template <typename Store>
  __device__ __forceinline__ void run_made(const typename Staged::Step& from, Store store) {
    Step step;
    from.key.read(tile_.part(), step.key);
    from.query.read(tile_.part(), step.query);
    float products[3] = {};
    add_step_products(step.key, step.query, p_.normalize_qk, products);
    tile_.decay(p_.channel_decay ? from.channel_decay : nullptr, from.decay);
    const Sums sums = sweep(step, &products);
    const StepFactors factors = step_factors(p_, products);
    const float value = loads_value_ ? from.value[owned_ - place_.first_value] : 0.0f;
    const float own_u = owners_u(from.beta, value, sums, factors);
    if (stores_output_) store(owned_, output_of(sums, factors, own_u));
    from.key.read(tile_.part(),
                  step.key);  // once more, rather than held while sums go round the block
    update(step, factors.key * own_u);
  }

  /// The same with steps that are staged, of which is `kept` what its type says: the StepRecords (or what
  /// has its functions), or the TokenStates behind them. With records the tile is left as it was before the
  /// last step. `kUnpacked`: so is the tile already.
  template <bool kUnpacked = false, typename Kept>
  __device__ __forceinline__ void run_keeping(std::int64_t first, std::int64_t length,
                                              const Kept& kept, Staged& staged) {
    constexpr bool kKeepsStates = std::is_same_v<Kept, TokenStates>;
    auto remaining = static_cast<int>(length * p_.steps);  // a sequence has fewer than 2^31
    std::int64_t token = first;
    int number = 0;  // of the token's step
    // Where the step's u lies of its own value and, with one step a token, the output: found once, since
    // finding it anew takes a tenth of a step's instructions.
    std::int64_t step_at = u_record(p_, first, 0, place_.head) + owned_;
    const int step_values = p_.num_value_heads * p_.value_head_dim;
    const auto stage = [&] {
      const int count = min(Staged::kSteps, remaining);
      staged.stage(p_, token_dtype_, place_, token, number, count, kept);
      remaining -= count;
      __syncthreads();
      return count;
    };
    int count = stage();
    if constexpr (!kUnpacked) tile_.unpack();
    while (true) {
#pragma unroll 1
      for (int s = 0; s < count; ++s) {
        const bool first_of_token = number == 0;
        const bool last_of_token = number + 1 == p_.steps;
        const typename Staged::Step& from = staged.steps[s];
        Step step;
        from.key.read(tile_.part(), step.key);
        from.query.read(tile_.part(), step.query);
        if (first_of_token) {
          tile_.decay(p_.channel_decay ? from.channel_decay : nullptr, from.decay);
        }
        const Sums sums = sweep(step, nullptr);
        const StepFactors factors = from.factors;
        const float value = loads_value_ ? from.value[owned_ - place_.first_value] : 0.0f;
        const float own_u = owners_u(from.beta, value, sums, factors);
        if (last_of_token) {
          const std::int64_t at =
              p_.steps == 1 ? step_at : output_index(p_, token, place_.head, owned_);
          store_output(at, sums, factors, own_u);
        }
        const float factored_u = factors.key * own_u;  // which S takes with the key as it came
        if constexpr (!kKeepsStates) {
          if (stores_output_) {
            kept.store_u(p_, token, place_.head, owned_, step_at, factored_u);
          }
          if (remaining == 0 && s + 1 == count) return;
        }
        // Read once more, rather than held in registers while sums go round the block.
        from.key.read(tile_.part(), step.key);
        update(step, factored_u);
        if constexpr (kKeepsStates) {
          if (last_of_token) tile_.store(kept.pool, token, place_.head);
        }
        number = last_of_token ? 0 : number + 1;
        token += last_of_token;
        step_at += step_values;
      }
      if (kKeepsStates && remaining == 0) return;
      __syncthreads();  // these steps have been read
      count = stage();
    }
  }

 private:
  /// vk: lanes of a group that own the same value.
  static constexpr int kCopies = Shape::kByKeys ? 1 : Shape::kLanes / Shape::kValues;

  /// A step's operands as they lie in memory.
  struct RawStep {
    RawKeys<Shape> key;
    RawKeys<Shape> query;
    std::uint32_t value;  ///< its own; 0 where it owns none
    std::uint32_t gate;
    std::uint32_t beta;
  };

  /// The thread's part of the vectors of a step.
  struct Step {
    float key[Shape::kKeys];
    float query[Shape::kKeys];
  };

  /// Of the owned value, without factors.
  struct Sums {
    float key;    ///< S^T k
    float query;  ///< S^T q
  };

  /// Issues all loads and waits for none.
  __device__ __forceinline__ RawStep load(std::int64_t token, int number) const {
    RawStep raw;
    raw.key.load(p_.key, step_key_index(p_, token, number, place_.key_head), tile_.part(),
                 token_dtype_);
    raw.query.load(p_.query, step_query_index(p_, token, place_.key_head), tile_.part(),
                   token_dtype_);
    raw.beta = load_step_beta(p_.gates, token, number, place_.head);
    raw.gate = p_.channel_decay ? 0 : load_number_bits(p_.gates.gate, token, place_.head);
    raw.value = 0;
    if (loads_value_) {
      const std::int64_t at = step_value_index(p_, token, number, place_.head) + owned_;
      raw.value = load_bits(p_.value, at, token_dtype_);
    }
    return raw;
  }

  __device__ __forceinline__ void decay_state(const RawStep& raw, const HeadGates& of_head,
                                              std::int64_t token, float (&channel_decay)[kKeyDim]) {
    if (!p_.channel_decay) {
      const float gate = widen_bits(raw.gate, p_.gates.gate.type);
      return tile_.decay(nullptr, decode_decay(p_.gates, gate, of_head));
    }
    Staged::stage_channels(p_, place_.head, token, channel_decay, thread_, Shape::kThreads);
    __syncthreads();
    tile_.decay(channel_decay, 1);
  }

  __device__ __forceinline__ float owners_u(float beta, float value, const Sums& sums,
                                            const StepFactors& factors) const {
    return beta * (p_.additive_update ? value : fmaf(-factors.key, sums.key, value));
  }

  /// To element `at` of the output.
  __device__ __forceinline__ void store_output(std::int64_t at, const Sums& sums,
                                               const StepFactors& factors, float own_u) const {
    if (!stores_output_) return;
    store_element(p_.output, at, p_.output_dtype, output_of(sums, factors, own_u));
  }
  static __device__ __forceinline__ float output_of(const Sums& sums, const StepFactors& factors,
                                                    float own_u) {
    return fmaf(factors.key_query, own_u, sums.query * factors.query);
  }

  /// `own_u` with the factor that normalises the key.
  __device__ __forceinline__ void update(const Step& step, float own_u) {
    float u[Shape::kValues];
    spread(own_u, u);
    tile_.add_product(step.key, u);
  }

  /// `products` of the thread's part, if given, are summed too.
  __device__ __forceinline__ Sums sweep(const Step& step, float (*products)[3]) {
    float of_key[Shape::kValues] = {};
    float of_query[Shape::kValues] = {};
#pragma unroll
    for (int j = 0; j < Shape::kKeys; ++j) {
#pragma unroll
      for (int i = 0; i < Shape::kValues; ++i) {
        of_key[i] = fmaf(tile_.at(j, i), step.key[j], of_key[i]);
        of_query[i] = fmaf(tile_.at(j, i), step.query[j], of_query[i]);
      }
    }
    if constexpr (Shape::kByKeys) return add_warps(of_key, of_query, products);
    Sums sums;
    sums.key = add_lanes(of_key);
    sums.query = add_lanes(of_query);
    if (products != nullptr) {
      for (int i = 0; i < (p_.normalize_qk ? 3 : 1); ++i) {
        (*products)[i] = add_all_lanes((*products)[i]);
      }
    }
    return sums;
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
  __device__ __forceinline__ Sums add_warps(const float (&of_key)[Shape::kValues],
                                            const float (&of_query)[Shape::kValues],
                                            float (*products)[3]) {
    const int lane = thread_ % 32;
    const int first = lane % Shape::kLanes * Shape::kValues;
    float* const warp_sums = shared_.warp_sums[thread_ / 32];
    // Of the two groups the lower one takes the sums of a and the upper one those of b: an exchange and a
    // place in a word of 16 bytes for each value, where every lane with every sum takes two of both.
    static_assert(Shape::kGroups == 2 && Shape::kValues % 4 == 0);
    const bool upper = lane >= Shape::kLanes;
    const int begin = upper ? Shape::kBlockValues + first : first;
#pragma unroll
    for (int i = 0; i < Shape::kValues; i += 4) {
      float own[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float given = upper ? of_key[i + j] : of_query[i + j];
        own[j] = upper ? of_query[i + j] : of_key[i + j];
        own[j] += __shfl_xor_sync(0xffffffffu, given, Shape::kLanes);
      }
      *reinterpret_cast<float4*>(warp_sums + begin + i) =
          make_float4(own[0], own[1], own[2], own[3]);
    }
    if (products != nullptr) {
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        float sum = (*products)[i];
        sum += __shfl_xor_sync(0xffffffffu, sum, Shape::kLanes);
        if (lane == 0) warp_sums[2 * Shape::kBlockValues + i] = sum;
      }
    }
    __syncthreads();
    const auto take = [&](int at) {
      float sum = 0;
#pragma unroll 8
      for (int w = 0; w < Shape::kWarps; ++w) sum += shared_.warp_sums[w][at];
      return sum;
    };
    const bool owner = thread_ < Shape::kBlockValues;
    Sums sums;
    sums.key = owner ? take(thread_) : 0.0f;
    sums.query = owner ? take(Shape::kBlockValues + thread_) : 0.0f;
    if (products != nullptr) {
#pragma unroll
      for (int i = 0; i < 3; ++i) (*products)[i] = take(2 * Shape::kBlockValues + i);
    }
    return sums;
  }

  /// u of the thread's values, from their owners.
  __device__ __forceinline__ void spread(float own_u, float (&u)[Shape::kValues]) {
    if constexpr (Shape::kByKeys) {
      if (thread_ < Shape::kBlockValues) shared_.u[thread_] = own_u;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < Shape::kValues; i += 4) {
        const float4 word = *reinterpret_cast<const float4*>(
            shared_.u + thread_ % Shape::kLanes * Shape::kValues + i);
        u[i] = word.x;
        u[i + 1] = word.y;
        u[i + 2] = word.z;
        u[i + 3] = word.w;
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
  TilePlace place_;
  int thread_;
  int owned_;           ///< head dim index of the value that the thread owns, or has a copy of
  bool loads_value_;    ///< needs the value
  bool stores_output_;  ///< is its owner
  Shared& shared_;
  Tile& tile_;
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
