// A block's part of one head's state in registers, for kernels that read every state once and write it
// once: each thread holds whole 16-byte words of the pool row and stores the words that it loaded.
//
// The words of one access of a warp lie side by side, 256 bytes of them where the head dimension
// allows it: narrower accesses cost bandwidth (H200, float32, kv: 128 bytes 2 %, 32 bytes half).
//
//   layout vk, [Dv][Dk]: kLanes lanes lie along a row, whose words they share; a warp has 32 / kLanes
//   groups of kValues consecutive rows. A sum over keys is a sum over the lanes of a group.
//
//       group 0   row v       | lane 0 | lane 1 | ... | lane 15 | lane 0 | ...
//                 row v + 1   | lane 0 | ...
//       group 1   row v + 4   | lane 16 | ...
//
//   layout kv, [Dk][Dv]: kLanes lanes lie along kLanes kVector columns; the groups of all kWarps warps
//   share the Dk rows, kKeys consecutive ones each. A sum over keys is one over groups and warps.
#pragma once

#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/gated_delta/state_io.cuh"
#include "cuda/gated_delta/tile/round_by_chance.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"
#include "interface/problem.h"
#include "interface/stochastic_rounding.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// What a tile is shaped for. No sum depends on it: the same bits come of both.
enum class TileUse {
  pass,   ///< a step or two between its load and its store, which bound it
  drafts  ///< several steps, whose instructions bound it
};

/// How a block of kThreads threads lies on a state: a thread holds the elements of kKeys keys and
/// kValues values, in kWords words of kVector.
template <typename State_, StateLayout kLayout_, int kKeyDim_, TileUse kUse>
struct TileShape {
  using State = State_;
  static constexpr StateLayout kLayout = kLayout_;
  static constexpr int kKeyDim = kKeyDim_;
  static constexpr bool kByKeys = kLayout == StateLayout::kv;
  static constexpr int kVector = Vector16<State>::kCount;
  static constexpr int kRowWords = kKeyDim / kVector;  ///< of a row of vk

  static constexpr int lanes() {
    if (kByKeys) return 16;
    int lanes = 16;
    while (kRowWords % lanes != 0) lanes /= 2;
    return lanes;
  }
  static constexpr int kLanes = lanes();
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kAlong = kRowWords / kLanes;  ///< vk: words of a row that a lane has

  // kv: as many warps as leave a thread at most 64 elements, one for each value of a thread at least.
  static constexpr int warps() {
    int warps = kByKeys ? kVector : 4;
    while (kByKeys && kKeyDim / (kGroups * warps) * kVector > 64) warps *= 2;
    return warps;
  }
  static constexpr int kWarps = warps();
  static constexpr int kThreads = 32 * kWarps;

  // vk: as many rows as make 8 words of a thread, or nearly; for drafts 64 elements, over which what else
  // a step takes is shared out. Values of a thread lie in the head or behind it together, 8 at most.
  static constexpr int rows() {
    constexpr int kMostWords = kUse == TileUse::drafts ? 64 / kVector : 8;
    constexpr int kMostRows = kLanes < 8 ? kLanes : 8;
    int rows = 1;
    while (2 * rows * kAlong <= kMostWords && 2 * rows <= kMostRows) rows *= 2;
    return rows;
  }
  static constexpr int kKeys = kByKeys ? kKeyDim / (kGroups * kWarps) : kAlong * kVector;
  static constexpr int kValues = kByKeys ? kVector : rows();
  static constexpr int kWords = kByKeys ? kKeys : kAlong * kValues;
  /// Values of the block: its columns in kv, its rows in vk.
  static constexpr int kBlockValues = kByKeys ? kLanes * kVector : kWarps * kGroups * kValues;
  static_assert(kWords * kVector == kKeys * kValues);
  /// Blocks that a multiprocessor has registers for, where a step keeps the elements, its keys and
  /// its queries in them, and some forty more; of a kernel that keeps `others` beside.
  static constexpr int blocks(int others = 0) {
    return 65536 / (kThreads * (kKeys * kValues + 2 * kKeys + (kByKeys ? 44 : 36) + others));
  }
  /// A thread's keys come in runs of this many.
  static constexpr int kRun = kByKeys ? kKeys : kVector;
  static constexpr int kRuns = kKeys / kRun;
  /// The Dk keys lie in so many parts, of kKeys each: a thread has one of them.
  static constexpr int kParts = kByKeys ? kGroups * kWarps : kLanes;
  static_assert(kParts <= 32, "a warp has all of them");
  /// Head dim index of key j of a part.
  static constexpr __host__ __device__ int key(int part, int j) {
    return kByKeys ? part * kKeys + j : (j / kVector * kLanes + part) * kVector + j % kVector;
  }
  static_assert(8 % kValues == 0);
  static_assert(kByKeys ? kBlockValues <= kThreads : kValues <= kLanes);
};

/// Elements of a pool row as they lie in memory: sixteen bytes, or fewer. Not an array of 16-bit elements: the
/// compiler would give each a register of its own, for which every load waits before the next is issued.
template <typename State, int kCount_ = Vector16<State>::kCount>
struct alignas(kCount_ * sizeof(State)) PackedWord {
  static constexpr int kCount = kCount_;
  static constexpr int kRegisters = kCount * static_cast<int>(sizeof(State)) / 4;
  std::uint32_t bits[kRegisters];

  __device__ __forceinline__ void unpack(float (&values)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (sizeof(State) == 4) {
        values[i] = __uint_as_float(bits[i]);
      } else {
        values[i] = widen_half_word<State>(bits[i / 2], i % 2);
      }
    }
  }
  __device__ __forceinline__ void pack(const float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      if constexpr (sizeof(State) == 4) {
        bits[i] = __float_as_uint(values[i]);
      } else {
        bits[i] = round_to_pair<State>(values[2 * i], values[2 * i + 1]);
      }
    }
  }
};

/// One thread's part of the state of a head, in float32.
template <typename Shape_>
class StateTile {
 public:
  using Shape = Shape_;
  using State = typename Shape::State;
  using Word = PackedWord<State>;

  /// `block_value`: the first value of the block.
  __device__ StateTile(int thread, int block_value, int value_head_dim)
      : value_head_dim_(value_head_dim) {
    const int along = thread % Shape::kLanes;
    const int group = thread / Shape::kLanes;
    part_ = Shape::kByKeys ? group : along;
    first_value_ = block_value + (Shape::kByKeys ? along * Shape::kVector : group * Shape::kValues);
  }

  /// The part of the keys that the thread has.
  __device__ __forceinline__ int part() const { return part_; }
  /// Head dim index of the thread's key j, and of its value i.
  __device__ __forceinline__ int key(int j) const { return Shape::key(part_, j); }
  __device__ __forceinline__ int value(int i) const { return first_value_ + i; }
  /// Values of a thread lie in the head or behind it together: Dv is a multiple of 8.
  __device__ __forceinline__ bool has_values() const { return first_value_ < value_head_dim_; }

  /// The element at the thread's key j and value i.
  __device__ __forceinline__ float& at(int j, int i) {
    return Shape::kByKeys ? elements_[j][i]
                          : elements_[i * Shape::kAlong + j / Shape::kVector][j % Shape::kVector];
  }

  /// Issues all loads and waits for none: unpack() does. Zeros where there is no initial state and
  /// where the head has no such value. With
  /// `evict_last` the lines are the last to leave the L2.
  __device__ __forceinline__ void load(const StatePool& pool, std::int64_t row, int head,
                                       bool evict_last) {
    const auto* const at = static_cast<const State*>(pool.data) + state_offset(pool, row, head);
#pragma unroll
    for (int i = 0; i < Shape::kWords; ++i) words_[i] = Word{};
    if (!pool.read || !has_values()) return;
    if (evict_last) {
#pragma unroll
      for (int i = 0; i < Shape::kWords; ++i) {
        const uint4 word = load_evict_last(at + offset(i));
        words_[i] = Word{{word.x, word.y, word.z, word.w}};
      }
    } else {
#pragma unroll
      for (int i = 0; i < Shape::kWords; ++i) {
        words_[i] = *reinterpret_cast<const Word*>(at + offset(i));
      }
    }
  }
  __device__ __forceinline__ void unpack() {
#pragma unroll
    for (int i = 0; i < Shape::kWords; ++i) words_[i].unpack(elements_[i]);
  }

  /// S <- diag(alpha) S, by a decay of each of the Dk keys or, where there are none (null), by `of_all`.
  __device__ __forceinline__ void decay(const float* of_keys, float of_all) {
#pragma unroll
    for (int j = 0; j < Shape::kKeys; ++j) {
      const float alpha = of_keys == nullptr ? of_all : of_keys[key(j)];
#pragma unroll
      for (int i = 0; i < Shape::kValues; ++i) at(j, i) *= alpha;
    }
  }
  /// S <- S + k u^T, of the thread's keys and values.
  __device__ __forceinline__ void add_product(const float (&key)[Shape::kKeys],
                                              const float (&u)[Shape::kValues]) {
#pragma unroll
    for (int j = 0; j < Shape::kKeys; ++j) {
#pragma unroll
      for (int i = 0; i < Shape::kValues; ++i) at(j, i) = fmaf(key[j], u[i], at(j, i));
    }
  }

  /// Rounded once. Nothing where the problem wants no final state, or the row is negative.
  __device__ __forceinline__ void store(const StatePool& pool, std::int64_t row, int head) const {
    if (!pool.write || row < 0 || !has_values()) return;
    auto* const at = static_cast<State*>(pool.data) + state_offset(pool, row, head);
#pragma unroll
    for (int i = 0; i < Shape::kWords; ++i) {
      Word word;
      word.pack(elements_[i]);
      *reinterpret_cast<Word*>(at + offset(i)) = word;
    }
  }

  /// store() of 16-bit states by stochastic rounding: a word is a group of elements (stochastic_rounding.h).
  __device__ __forceinline__ void store_by_chance(const StatePool& pool, std::int64_t row, int head,
                                                  std::uint32_t seed) const {
    static_assert(sizeof(State) == 2 && Shape::kVector == kRoundingGroup);
    if (!pool.write || row < 0 || !has_values()) return;
    auto* const at = static_cast<State*>(pool.data) + state_offset(pool, row, head);
    const auto first = static_cast<std::uint32_t>(state_offset(pool, 0, head) / kRoundingGroup);
#pragma unroll
    for (int i = 0; i < Shape::kWords; ++i) {
      const auto group = first + static_cast<std::uint32_t>(offset(i)) / kRoundingGroup;
      Word word;
      round_by_chance<State>(elements_[i], rounding_bits(seed, group), word.bits);
      *reinterpret_cast<Word*>(at + offset(i)) = word;
    }
  }

  /// store() to rows that are in a dtype of their own, whichever it is.
  __device__ __forceinline__ void store_converted(const StatePool& pool, std::int64_t row,
                                                  int head) const {
    store_converted(pool, row, head, [this](int i, int j) { return elements_[i][j]; });
  }
  /// Zeros in the place of the state, whatever the dtype of the rows.
  __device__ __forceinline__ void store_zeros(const StatePool& pool, std::int64_t row,
                                              int head) const {
    store_converted(pool, row, head, [](int, int) { return 0.0f; });
  }

 private:
  template <typename Get>
  __device__ __forceinline__ void store_converted(const StatePool& pool, std::int64_t row, int head,
                                                  Get get) const {
    switch (pool.dtype) {
      case DType::float32:
        return store_as<float>(pool, row, head, get);
      case DType::bfloat16:
        return store_as<__nv_bfloat16>(pool, row, head, get);
      case DType::float16:
        return store_as<__half>(pool, row, head, get);
      case DType::int8:  // no pool is
        return;
    }
  }
  /// get(i, j), element j of word i, in as many bytes at a time as the word's elements take, 16 at most.
  template <typename To, typename Get>
  __device__ __forceinline__ void store_as(const StatePool& pool, std::int64_t row, int head,
                                           Get get) const {
    if (!pool.write || row < 0 || !has_values()) return;
    constexpr int kPart =
        Shape::kVector < Vector16<To>::kCount ? Shape::kVector : Vector16<To>::kCount;
    auto* const at = static_cast<To*>(pool.data) + state_offset(pool, row, head);
#pragma unroll
    for (int i = 0; i < Shape::kWords; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kVector; j += kPart) {
        float values[kPart];
#pragma unroll
        for (int e = 0; e < kPart; ++e) values[e] = get(i, j + e);
        PackedWord<To, kPart> part;
        part.pack(values);
        *reinterpret_cast<PackedWord<To, kPart>*>(at + offset(i) + j) = part;
      }
    }
  }

  __device__ __forceinline__ int offset(int word) const {
    return Shape::kByKeys ? key(word) * value_head_dim_ + first_value_
                          : value(word / Shape::kAlong) * Shape::kKeyDim +
                                key(word % Shape::kAlong * Shape::kVector);
  }

  Word words_[Shape::kWords];  ///< between load() and unpack()
  float elements_[Shape::kWords][Shape::kVector];
  int value_head_dim_;
  int part_;
  int first_value_;
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
