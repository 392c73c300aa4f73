// The records of a head of a sequence in its ring, as cuda/chunkwise takes them. With the records i = 0 .. n - 1, r_i
// the product of the decays behind record i, and r the product of all, the state that the tokens begin with is
//
//     S' = r S + sum over i of r_i key_i update_i^T
//
// and is not made but where the sequence folds. A product of its rows with a vector x is
//
//     x^T S' = r x^T S + sum over i of (x . key_i) r_i update_i^T
//
// taken by tensor cores, sixteen records at a time: the keys times four tokens' keys and queries, whose results lie as
// the next product's right operand wants them, and the updates times these. Updates times r_i and the results of the
// first product are pairs of bfloat16, the upper half and the rest: 2^-16 of them off at most.
//
// A fold takes the updates as left operand and the keys as right one; the sums are the state's elements, in the lanes
// that hold them (StateOperand::elements).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta_ring/params.cuh"
#include "cuda/gated_delta_verify/state_operand.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

template <typename Shape>
class RingRecords {
 public:
  using Operand = StateOperand<Shape>;
  using Update = std::conditional_t<std::is_same_v<typename Shape::State, __nv_bfloat16>,
                                    __nv_bfloat16, float>;

  __device__ RingRecords(const GatedDeltaParams& p, const RingParams& ring, const TilePlace& place,
                         std::int64_t row)
      : p_(p),
        ring_(ring),
        key_(static_cast<__nv_bfloat16*>(ring.key) + row * ring.key_row_stride +
             place.key_head * Shape::kKeyDim),
        update_(static_cast<Update*>(ring.update) + row * ring.update_row_stride +
                place.head * p.value_head_dim),
        decay_(ring.decay + row * ring.decay_row_stride + place.head),
        first_(static_cast<int>(ring.first[place.sequence])),
        length_(static_cast<int>(ring.length[place.sequence])),
        folds_(ring_folds(p.pool, ring, place.sequence)) {}

  // ---- the tokens' own records

  __device__ __forceinline__ void store_update(std::int64_t /*output_at*/, int token, int value,
                                               float update) const {
    update_of_record(length_ + token)[value] = from_float<Update>(update);
  }
  __device__ __forceinline__ float load_update(int token, int value) const {
    return to_float(update_of_record(length_ + token)[value]);
  }
  __device__ __forceinline__ void store_decay(int token, float decay) const {
    decay_of_record(length_ + token) = decay;
  }
  __device__ __forceinline__ __nv_bfloat16* key(int token) const {
    return key_of_record(length_ + token);
  }

  // ---- those that there are

 private:
  static constexpr int kGroup = 16;  ///< records that one instruction takes
  static constexpr bool kIsExact = std::is_same_v<Update, __nv_bfloat16>;  ///< as one bfloat16
  static constexpr int kUpdateWords = Operand::kLaneValues * static_cast<int>(sizeof(Update)) / 4;

 public:
  /// The lane's updates of a group of records as they lie in memory: of four records those of its values.
  struct Updates {
    struct alignas(4 * kUpdateWords) Values {
      std::uint32_t words[kUpdateWords];
    } of_record[4];  ///< record_of(i, lane), zeros where there is none
  };
  /// Of the newest group.
  __device__ __forceinline__ Updates load_updates(int first_value, int lane) const {
    return load_updates(last_group(), first_value, lane);
  }

  /// The products of a group's keys with four tokens' columns, each times what is left of the record, as the right
  /// operand of a product with the updates. And what is left of the state, or of the groups before.
  struct WithColumns {
    std::uint32_t high[2];
    std::uint32_t low[2];
    float left;
  };
  /// Of the newest group.
  __device__ __forceinline__ WithColumns products_with(const TokenVector<Shape>& column,
                                                       int lane) const {
    if (length_ == 0) return {{0, 0}, {0, 0}, 1};
    return products_with(last_group(), column, lane, 1);
  }

  /// `products` of the rows of the state with the columns become those of the state with the records in it.
  __device__ __forceinline__ void add_to_products(const WithColumns& newest, const Updates& updates,
                                                  const TokenVector<Shape>& column, int first_value,
                                                  int lane,
                                                  typename Operand::Products& products) const {
    if (length_ == 0) return;
    float left = newest.left;
    typename Operand::Products of_older = {};
#pragma unroll 1
    for (int first = last_group() - kGroup; first >= 0; first -= kGroup) {
      const WithColumns older = products_with(first, column, lane, left);
      multiply_add(older, load_updates(first, first_value, lane), of_older);
      left = older.left;
    }
#pragma unroll
    for (int tile = 0; tile < Shape::kTiles; ++tile) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        products[tile][c] = fmaf(left, products[tile][c], of_older[tile][c]);
      }
    }
    multiply_add(newest, updates, products);
  }

  static constexpr bool kMayFold = true;
  __device__ __forceinline__ bool folds() const { return folds_; }

  /// Makes the state with the records in it, of the warp's rows, and stores it. It comes once more, from the cache as a
  /// rule.
  __device__ __forceinline__ void fold(const StatePool& pool, std::int64_t row, int head,
                                       int first_value, int lane) const {
    Operand state;
    state.load(pool, row, head, first_value, lane);
    float of_state = 1;
    const Scaled newest = load_scaled(last_group(), first_value, lane, of_state);
    const float behind_newest = of_state;
#pragma unroll 1
    for (int first = last_group() - kGroup; first >= 0; first -= kGroup) {
      float left[4];
      left_of_records(load_decay(first, lane), lane, of_state, left);
    }
    // A full reset forgets whatever the state held, infinities included.
    const bool kept = of_state != 0;
#pragma unroll
    for (int j = 0; j < Shape::kVectorWords; ++j) {
      float sums[Shape::kTiles][4][4];  // [tile][pair m of the lane's eight keys]
      for_each_pair([&](int tile, int m) {
        const float4 e = state.elements(tile, j, m);
        sums[tile][m][0] = kept ? of_state * e.x : 0.0f;
        sums[tile][m][1] = kept ? of_state * e.y : 0.0f;
        sums[tile][m][2] = kept ? of_state * e.z : 0.0f;
        sums[tile][m][3] = kept ? of_state * e.w : 0.0f;
      });
      if (length_ > 0) add_products(newest, last_group(), j, lane, sums);
      float behind = behind_newest;
#pragma unroll 1
      for (int first = last_group() - kGroup; first >= 0; first -= kGroup) {
        add_products(load_scaled(first, first_value, lane, behind), first, j, lane, sums);
      }
      for_each_pair([&](int tile, int m) {
        const float(&e)[4] = sums[tile][m];
        state.set_elements(tile, j, m, {e[0], e[1], e[2], e[3]});
      });
    }
    state.store(pool, row, head, first_value, lane);
  }

 private:
  /// The updates of a group as left operand, each times what is left of it, in two parts.
  struct Scaled {
    std::uint32_t high[Shape::kTiles][4];
    std::uint32_t low[Shape::kTiles][4];
  };

  template <typename Body>
  __device__ __forceinline__ static void for_each_pair(const Body& body) {
#pragma unroll
    for (int tile = 0; tile < Shape::kTiles; ++tile) {
#pragma unroll
      for (int m = 0; m < 4; ++m) body(tile, m);
    }
  }

  __device__ __forceinline__ int place(int record) const {
    const int at = first_ + record;
    return at < ring_.places ? at : at - ring_.places;
  }
  __device__ __forceinline__ __nv_bfloat16* key_of_record(int record) const {
    return key_ + std::int64_t{place(record)} * (p_.num_key_heads * Shape::kKeyDim);
  }
  __device__ __forceinline__ Update* update_of_record(int record) const {
    return update_ + std::int64_t{place(record)} * (p_.num_value_heads * p_.value_head_dim);
  }
  __device__ __forceinline__ float& decay_of_record(int record) const {
    return decay_[place(record) * p_.num_value_heads];
  }
  /// Of the record, or where there is no such one of the last one: what is multiplied with 0 is a number.
  __device__ __forceinline__ const __nv_bfloat16* live_key(int record) const {
    return key_of_record(min(record, length_ - 1));
  }

  /// Where the last group of records begins: 0 where there are none.
  __device__ __forceinline__ int last_group() const {
    return max(length_ - 1, 0) / kGroup * kGroup;
  }

  /// The record of a group that is column 2 t + i % 2 + 8 (i / 2) of an operand.
  __device__ __forceinline__ static int record_of(int i, int lane) {
    return 2 * (lane % 4) + i % 2 + 8 * (i / 2);
  }

  __device__ __forceinline__ Updates load_updates(int first, int first_value, int lane) const {
    const int value = first_value + Operand::kLaneValues * (lane / 4);
    Updates updates;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int record = first + record_of(i, lane);
      updates.of_record[i] = {};
      if (record < length_ && value < p_.value_head_dim) {
        updates.of_record[i] =
            *reinterpret_cast<const typename Updates::Values*>(update_of_record(record) + value);
      }
    }
    return updates;
  }

  /// Of record first + lane % 16, 1 where there is none.
  __device__ __forceinline__ float load_decay(int first, int lane) const {
    const int record = first + lane % kGroup;
    return record < length_ ? decay_of_record(record) : 1.0f;
  }

  /// left[i]: what is left of record_of(i, lane) at the ring's end, the product of the decays behind it. `behind`, that
  /// of the groups behind, becomes that of this group too.
  __device__ __forceinline__ static void left_of_records(float decay, int lane, float& behind,
                                                         float (&left)[4]) {
    const int e = lane % kGroup;
    float from_here = decay;
#pragma unroll
    for (int apart = 1; apart < kGroup; apart *= 2) {
      const float later = __shfl_sync(0xffffffffu, from_here, e + apart, kGroup);
      if (e + apart < kGroup) from_here *= later;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int next = record_of(i, lane) + 1;
      const float later = __shfl_sync(0xffffffffu, from_here, next, kGroup);
      left[i] = next < kGroup ? behind * later : behind;
    }
    behind *= __shfl_sync(0xffffffffu, from_here, 0, kGroup);
  }

  __device__ __forceinline__ WithColumns products_with(int first, const TokenVector<Shape>& column,
                                                       int lane, float behind) const {
    WithColumns with_columns;
    float left[4];
    left_of_records(load_decay(first, lane), lane, behind, left);
    with_columns.left = behind;
    const __nv_bfloat16* const keys[2] = {live_key(first + lane / 4),
                                          live_key(first + 8 + lane / 4)};
    // Row g: column g of the tokens. Columns 2 t and 2 t + 1: records of the first eight, and of the others.
    float products[2][4] = {};
#pragma unroll
    for (int j = 0; j < Shape::kVectorWords; ++j) {
      const uint4 a = column.words[j];
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const uint4 c = token_word(keys[eight], j, lane % 4);
        mma_m16n8k16<__nv_bfloat16>(products[eight], {a.x, 0, a.y, 0}, c.x, c.y);
        mma_m16n8k16<__nv_bfloat16>(products[eight], {a.z, 0, a.w, 0}, c.z, c.w);
      }
    }
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
      Operand::in_parts(__float_as_uint(left[2 * eight] * products[eight][0]),
                        __float_as_uint(left[2 * eight + 1] * products[eight][1]),
                        with_columns.high[eight], with_columns.low[eight]);
    }
    return with_columns;
  }

  /// products += updates times the keys' products with the columns.
  __device__ __forceinline__ static void multiply_add(const WithColumns& with_columns,
                                                      const Updates& updates,
                                                      typename Operand::Products& products) {
#pragma unroll
    for (int tile = 0; tile < Shape::kTiles; ++tile) {
      std::uint32_t high[4];
      std::uint32_t low[4];
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const auto& a = updates.of_record[2 * second].words;
        const auto& b = updates.of_record[2 * second + 1].words;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int to = 2 * second + half;  // the order of the instruction's registers
          if constexpr (kIsExact) {
            high[to] = half == 0 ? (a[tile] & 0xffffu) | b[tile] << 16
                                 : a[tile] >> 16 | (b[tile] & 0xffff0000u);
          } else {
            Operand::in_parts(a[2 * tile + half], b[2 * tile + half], high[to], low[to]);
          }
        }
      }
      if constexpr (!kIsExact) {
        mma_m16n8k16<__nv_bfloat16>(products[tile], low, with_columns.high[0],
                                    with_columns.high[1]);
      }
      mma_m16n8k16<__nv_bfloat16>(products[tile], high, with_columns.low[0], with_columns.low[1]);
      mma_m16n8k16<__nv_bfloat16>(products[tile], high, with_columns.high[0], with_columns.high[1]);
    }
  }

  /// `behind` becomes what is left of the groups before.
  __device__ __forceinline__ Scaled load_scaled(int first, int first_value, int lane,
                                                float& behind) const {
    const Updates updates = load_updates(first, first_value, lane);
    float left[4];
    left_of_records(load_decay(first, lane), lane, behind, left);
    const auto number = [&](int i, int tile, int half) {
      const auto& words = updates.of_record[i].words;
      if constexpr (kIsExact) {
        return left[i] * widen_half_word<__nv_bfloat16>(words[tile], half);
      } else {
        return left[i] * __uint_as_float(words[2 * tile + half]);
      }
    };
    Scaled result;
#pragma unroll
    for (int tile = 0; tile < Shape::kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int second = 0; second < 2; ++second) {
          const int to = 2 * second + half;
          Operand::in_parts(__float_as_uint(number(2 * second, tile, half)),
                            __float_as_uint(number(2 * second + 1, tile, half)),
                            result.high[tile][to], result.low[tile][to]);
        }
      }
    }
    return result;
  }

  /// sums += updates times the group's keys of word j.
  __device__ __forceinline__ void add_products(const Scaled& updates, int group, int j, int lane,
                                               float (&sums)[Shape::kTiles][4][4]) const {
    // The lane's column g of pair m is key 32 j + 8 (g / 2) + 2 m + g % 2: of each of its records one word.
    const int column = lane / 4;
    uint4 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = token_word(live_key(group + record_of(i, lane)), j, column / 2);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      std::uint32_t of_pair[2];
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const std::uint32_t a = pair_of(words[2 * second], m);
        const std::uint32_t b = pair_of(words[2 * second + 1], m);
        of_pair[second] = column % 2 == 0 ? (a & 0xffffu) | b << 16 : a >> 16 | (b & 0xffff0000u);
      }
#pragma unroll
      for (int tile = 0; tile < Shape::kTiles; ++tile) {
        mma_m16n8k16<__nv_bfloat16>(sums[tile][m], updates.low[tile], of_pair[0], of_pair[1]);
        mma_m16n8k16<__nv_bfloat16>(sums[tile][m], updates.high[tile], of_pair[0], of_pair[1]);
      }
    }
  }
  __device__ __forceinline__ static std::uint32_t pair_of(const uint4& word, int m) {
    return m == 0 ? word.x : m == 1 ? word.y : m == 2 ? word.z : word.w;
  }

  const GatedDeltaParams& p_;
  const RingParams& ring_;
  __nv_bfloat16* key_;  ///< of the key head, at place 0
  Update* update_;      ///< of the value head
  float* decay_;
  int first_;
  int length_;
  bool folds_;
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
