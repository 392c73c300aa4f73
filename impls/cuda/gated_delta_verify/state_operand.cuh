// A warp's rows of a state, a row to each value, as the left operand of products with the vectors of a few
// tokens: [values x keys] times [keys x columns] by mma.m16n8k16, bfloat16 operands and float32 sums.
//
// Each lane loads whole words of the pool row and multiplies what it has loaded; no element goes from lane
// to lane. That the order of a sum is free allows it: the instruction's sixteen keys of a step are, for lane
// t of a quad, keys 32 j + 8 t + 4 (step % 2) to + 3 with j = step / 2, in either layout, and the columns are
// loaded in that order too. What row of the operand is which value is free as well:
//
//   vk, [Dv][Dk]: 16 bytes of a lane are eight keys of one value.
//   kv, [Dk][Dv]: 8 bytes of a lane are a few values of one key; two keys' words make pairs along the keys.
//
// Rows g and g + 8 of tile i are values 4 g + 2 i and + 1 where there are two tiles, 2 g and + 1 where there is one:
// the values of a lane's rows are neighbours, and lane 4 g + t can have value 4 g + t.
//
// A state that is not bfloat16 is the sum of two: its upper 16 bits and, rounded, the rest, 2^-16 of it off
// at most; both are multiplied.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/gated_delta/state_io.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

template <typename State_, StateLayout kLayout_, int kKeyDim_>
struct OperandShape {
  using State = State_;
  static constexpr bool kByKeys = kLayout_ == StateLayout::kv;
  static constexpr int kKeyDim = kKeyDim_;
  static constexpr int kSteps = kKeyDim / 16;
  static constexpr int kVectorWords =
      kKeyDim / 32;  ///< words of 16 bytes that a lane has of a token's vector
  static constexpr bool kInParts = !std::is_same_v<State, __nv_bfloat16>;
  /// As many rows as a lane has registers for: 64 words of four bytes where it may be.
  static constexpr int kTiles = sizeof(State) == 4 || (!kByKeys && kKeyDim > 128) ? 1 : 2;
  static constexpr int kWarpValues = 16 * kTiles;
  /// Words of four bytes that a lane has of a state.
  static constexpr int kLaneWords = kWarpValues * kKeyDim * static_cast<int>(sizeof(State)) / 128;
  /// Warps that a multiprocessor has registers for, with what so many tokens need beside the state, and `more`. Of
  /// sixteen tokens at Dk = 128 a third part of them gains a tenth and costs some spills.
  static constexpr int warps(int tokens, int more = 0) {
    const int of_sixteen = kKeyDim == 128 ? 96 : 128;
    const int others = tokens <= 4 ? 48 + 4 * kVectorWords : tokens <= 8 ? 104 : of_sixteen;
    return 65536 / (4 * 32 * (kLaneWords + others + more)) *
           4;  // each of four schedulers has as many
  }
  static_assert(kKeyDim % 32 == 0);
};

/// Word j of a lane's part of a token's key or query, in the order that its part of a state has.
__device__ __forceinline__ uint4 token_word(const __nv_bfloat16* vector, int j, int quad) {
  return *reinterpret_cast<const uint4*>(vector + 32 * j + 8 * quad);
}

/// All of them.
template <typename Shape>
struct TokenVector {
  uint4 words[Shape::kVectorWords];

  __device__ __forceinline__ void load(const __nv_bfloat16* vector, int quad) {
#pragma unroll
    for (int j = 0; j < Shape::kVectorWords; ++j) words[j] = token_word(vector, j, quad);
  }
  /// The pairs of keys of a step.
  __device__ __forceinline__ std::uint32_t first(int step) const {
    return step % 2 == 0 ? words[step / 2].x : words[step / 2].z;
  }
  __device__ __forceinline__ std::uint32_t second(int step) const {
    return step % 2 == 0 ? words[step / 2].y : words[step / 2].w;
  }
};

template <typename Shape_>
class StateOperand {
 public:
  using Shape = Shape_;
  using State = typename Shape::State;
  static constexpr int kLaneValues = 2 * Shape::kTiles;  ///< neighbours; Dv is a multiple of them
  /// products[tile]: of rows g and g + 8 of a tile with columns 2 t and 2 t + 1, g = lane / 4, t = lane % 4.
  using Products = float[Shape::kTiles][4];

  /// Of rows `first_value` and on, zeros where there is no initial state. What stands for values behind the
  /// head is of other values: no product of it is looked at.
  __device__ __forceinline__ void load(const StatePool& pool, std::int64_t row, int head,
                                       int first_value, int lane) {
    const int group = lane / 4;
    const int quad = lane % 4;
    const auto* const at = static_cast<const State*>(pool.data) + state_offset(pool, row, head);
    if (!pool.read) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) words_[i] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < kRows; ++i) rows_[i] = {0, 0};
    } else if constexpr (Shape::kByKeys) {
      static_assert(kLaneValues * sizeof(State) == 8);
      const int value = min(first_value + group * kLaneValues, pool.value_head_dim - kLaneValues);
      const State* const keys = at + 8 * quad * pool.value_head_dim + value;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        rows_[i] =
            *reinterpret_cast<const uint2*>(keys + (32 * (i / 8) + i % 8) * pool.value_head_dim);
      }
    } else {
      const int value = min(first_value + group * kLaneValues, pool.value_head_dim - kLaneValues);
      const State* const rows = at + value * Shape::kKeyDim + 8 * quad;
#pragma unroll
      for (int half_tile = 0; half_tile < kLaneValues; ++half_tile) {
        const State* const keys = rows + half_tile * Shape::kKeyDim;
#pragma unroll
        for (int i = 0; i < kHalfTileWords; ++i) {
          words_[half_tile * kHalfTileWords + i] =
              *reinterpret_cast<const uint4*>(keys + i / kParts * 32 + i % kParts * (8 / kParts));
        }
      }
    }
  }

  /// Of the rows that load() took, those of values in the head, back to the pool.
  __device__ __forceinline__ void store(const StatePool& pool, std::int64_t row, int head,
                                        int first_value, int lane) const {
    const int quad = lane % 4;
    const int value = first_value + lane / 4 * kLaneValues;
    if (value >= pool.value_head_dim) return;
    auto* const at = static_cast<State*>(pool.data) + state_offset(pool, row, head);
    if constexpr (Shape::kByKeys) {
      State* const keys = at + 8 * quad * pool.value_head_dim + value;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        *reinterpret_cast<uint2*>(keys + (32 * (i / 8) + i % 8) * pool.value_head_dim) = rows_[i];
      }
    } else {
      State* const rows = at + value * Shape::kKeyDim + 8 * quad;
#pragma unroll
      for (int half_tile = 0; half_tile < kLaneValues; ++half_tile) {
        State* const keys = rows + half_tile * Shape::kKeyDim;
#pragma unroll
        for (int i = 0; i < kHalfTileWords; ++i) {
          *reinterpret_cast<uint4*>(keys + i / kParts * 32 + i % kParts * (8 / kParts)) =
              words_[half_tile * kHalfTileWords + i];
        }
      }
    }
  }

  /// The lane's keys 2 m and 2 m + 1 of the eight that word j of a token's vector has: of row g of a tile in x and
  /// y, of row g + 8 in z and w. An accumulator of mma.m16n8k16 whose column c is key 32 j + 8 (c / 2) + 2 m + c % 2.
  __device__ __forceinline__ float4 elements(int tile, int j, int m) const {
    if constexpr (Shape::kByKeys) {
      const uint2 a = rows_[8 * j + 2 * m];
      const uint2 b = rows_[8 * j + 2 * m + 1];
      if constexpr (sizeof(State) == 4) {
        return {__uint_as_float(a.x), __uint_as_float(b.x), __uint_as_float(a.y),
                __uint_as_float(b.y)};
      } else {
        const std::uint32_t a_pair = tile == 0 ? a.x : a.y;
        const std::uint32_t b_pair = tile == 0 ? b.x : b.y;
        return {widen_half_word<State>(a_pair, 0), widen_half_word<State>(b_pair, 0),
                widen_half_word<State>(a_pair, 1), widen_half_word<State>(b_pair, 1)};
      }
    } else {
      float of_half[2][2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4& word = words_[word_of(tile, half, j, m)];
        if constexpr (sizeof(State) == 4) {
          of_half[half][0] = __uint_as_float(m % 2 == 0 ? word.x : word.z);
          of_half[half][1] = __uint_as_float(m % 2 == 0 ? word.y : word.w);
        } else {
          const std::uint32_t two = m == 0 ? word.x : m == 1 ? word.y : m == 2 ? word.z : word.w;
          of_half[half][0] = widen_half_word<State>(two, 0);
          of_half[half][1] = widen_half_word<State>(two, 1);
        }
      }
      return {of_half[0][0], of_half[0][1], of_half[1][0], of_half[1][1]};
    }
  }
  /// Rounds them to the state's type.
  __device__ __forceinline__ void set_elements(int tile, int j, int m, float4 e) {
    if constexpr (Shape::kByKeys) {
      uint2& a = rows_[8 * j + 2 * m];
      uint2& b = rows_[8 * j + 2 * m + 1];
      if constexpr (sizeof(State) == 4) {
        a = {__float_as_uint(e.x), __float_as_uint(e.z)};
        b = {__float_as_uint(e.y), __float_as_uint(e.w)};
      } else {
        (tile == 0 ? a.x : a.y) = round_to_pair<State>(e.x, e.z);
        (tile == 0 ? b.x : b.y) = round_to_pair<State>(e.y, e.w);
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint4& word = words_[word_of(tile, half, j, m)];
        const float first = half == 0 ? e.x : e.z;
        const float second = half == 0 ? e.y : e.w;
        if constexpr (sizeof(State) == 4) {
          (m % 2 == 0 ? word.x : word.z) = __float_as_uint(first);
          (m % 2 == 0 ? word.y : word.w) = __float_as_uint(second);
        } else {
          (m == 0   ? word.x
           : m == 1 ? word.y
           : m == 2 ? word.z
                    : word.w) = round_to_pair<State>(first, second);
        }
      }
    }
  }

  /// products += rows times columns; the lane's part of column g is `column`.
  __device__ __forceinline__ void multiply_add(const TokenVector<Shape>& column,
                                               Products& products) const {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < Shape::kTiles; ++tile) {
        std::uint32_t high[4];
        std::uint32_t low[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int second = 0; second < 2; ++second) {
            const int i = 2 * second + half;  // the order of the instruction's registers
            pair(tile, half, step, second, high[i], low[i]);
          }
        }
        if constexpr (Shape::kInParts) {
          mma_m16n8k16<__nv_bfloat16>(products[tile], low, column.first(step), column.second(step));
        }
        mma_m16n8k16<__nv_bfloat16>(products[tile], high, column.first(step), column.second(step));
      }
    }
  }

  /// The products of one row with each of four tokens, whose keys and queries the columns are in turns:
  /// lane t of a quad gets those of row `own_row(t)` of the quad's 2 kTiles.
  __device__ __forceinline__ static void gather_row(const Products& products, int quad,
                                                    float (&with_key)[4], float (&with_query)[4]) {
    float of_column[2][2 * Shape::kTiles];
#pragma unroll
    for (int row = 0; row < 2 * Shape::kTiles; ++row) {
      of_column[0][row] = products[row / 2][row % 2 * 2];
      of_column[1][row] = products[row / 2][row % 2 * 2 + 1];
    }
    transpose(of_column[0], quad, with_key);
    transpose(of_column[1], quad, with_query);
  }

  /// The value of row g (half 0) or g + 8 of a tile, counted from the warp's first one.
  __device__ __forceinline__ static int value_of(int tile, int half, int group) {
    return kLaneValues * group + 2 * tile + half;
  }

  /// The value that lane (group, quad) gets by gather_row(), counted from the warp's first one. With one tile
  /// two lanes get the same.
  __device__ __forceinline__ static int own_value(int lane) {
    return value_of(Shape::kTiles == 2 ? lane % 4 / 2 : 0, lane % 2, lane / 4);
  }
  /// Whether no lane before it gets the same value.
  __device__ __forceinline__ static bool owns_value(int lane) {
    return Shape::kTiles == 2 || lane % 4 < 2;
  }

  /// Of the bits of two float32 numbers: as pairs of bfloat16 their upper halves, and the rest, rounded.
  __device__ __forceinline__ static void in_parts(std::uint32_t a, std::uint32_t b,
                                                  std::uint32_t& high, std::uint32_t& low) {
    high = a >> 16 | (b & 0xffff0000u);
    low = round_to_pair<__nv_bfloat16>(
        __uint_as_float(a) - __uint_as_float(a & 0xffff0000u),
        __uint_as_float(b) - __uint_as_float(b & 0xffff0000u));  // both exact
  }

 private:
  static constexpr int kParts =
      sizeof(State) / 2;  ///< words of 16 bytes that hold eight keys of vk
  static constexpr int kHalfTileWords = Shape::kVectorWords * kParts;
  static constexpr int kWords = Shape::kByKeys ? 1 : 2 * Shape::kTiles * kHalfTileWords;
  static constexpr int kRows = Shape::kByKeys ? Shape::kKeyDim / 4 : 1;  ///< keys that a lane has

  /// vk: the word of a half tile's row that holds keys 2 m and 2 m + 1 of word j of a token's vector.
  __device__ __forceinline__ static constexpr int word_of(int tile, int half, int j, int m) {
    return (2 * tile + half) * kHalfTileWords + (kParts == 1 ? j : 2 * j + m / 2);
  }

  /// Two neighbouring keys of a step, the first or the second two of a lane's four, of row g or g + 8.
  __device__ __forceinline__ void pair(int tile, int half, int step, int second,
                                       std::uint32_t& high, std::uint32_t& low) const {
    if constexpr (Shape::kByKeys) {
      const int first_row = step / 2 * 8 + step % 2 * 4 + 2 * second;
      const uint2 a = rows_[first_row];
      const uint2 b = rows_[first_row + 1];
      if constexpr (sizeof(State) == 4) {
        in_parts(half == 0 ? a.x : a.y, half == 0 ? b.x : b.y, high, low);
      } else {
        const std::uint32_t a_pair = tile == 0 ? a.x : a.y;
        const std::uint32_t b_pair = tile == 0 ? b.x : b.y;
        from_state(
            half == 0 ? (a_pair & 0xffffu) | b_pair << 16 : a_pair >> 16 | (b_pair & 0xffff0000u),
            high, low);
      }
    } else {
      const int of_rows = (2 * tile + half) * kHalfTileWords;
      if constexpr (sizeof(State) == 4) {
        const uint4 word = words_[of_rows + step];
        in_parts(second == 0 ? word.x : word.z, second == 0 ? word.y : word.w, high, low);
      } else {
        const uint4 word = words_[of_rows + step / 2];
        const std::uint32_t first_pair = step % 2 == 0 ? word.x : word.z;
        const std::uint32_t second_pair = step % 2 == 0 ? word.y : word.w;
        from_state(second == 0 ? first_pair : second_pair, high, low);
      }
    }
  }
  __device__ __forceinline__ static void from_state(std::uint32_t two, std::uint32_t& high,
                                                    std::uint32_t& low) {
    if constexpr (Shape::kInParts) {
      in_parts(__float_as_uint(widen_half_word<State>(two, 0)),
               __float_as_uint(widen_half_word<State>(two, 1)), high, low);
    } else {
      high = two;
      low = 0;
    }
  }

  /// of_rows[r] of lane t is row r of token t; `of_tokens` becomes the lane's own row of each token.
  __device__ __forceinline__ static void transpose(const float (&of_rows)[2 * Shape::kTiles],
                                                   int quad, float (&of_tokens)[4]) {
    const bool odd = quad % 2 != 0;
    const bool upper = quad >= 2;
    // First the upper lanes of a quad get the second tile's rows and the lower ones the first's, each of two
    // tokens; then odd lanes get odd rows.
    float rows[2][2];  // [row of the tile, token quad % 2 or two behind it]
    if constexpr (Shape::kTiles == 2) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float kept = upper ? of_rows[2 + r] : of_rows[r];
        const float given = upper ? of_rows[r] : of_rows[2 + r];
        const float got = __shfl_xor_sync(0xffffffffu, given, 2);
        rows[r][0] = upper ? got : kept;
        rows[r][1] = upper ? kept : got;
      }
    } else {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float other = __shfl_xor_sync(0xffffffffu, of_rows[r], 2);
        rows[r][0] = upper ? other : of_rows[r];
        rows[r][1] = upper ? of_rows[r] : other;
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float kept = odd ? rows[1][i] : rows[0][i];
      const float got = __shfl_xor_sync(0xffffffffu, odd ? rows[0][i] : rows[1][i], 1);
      of_tokens[2 * i] = odd ? got : kept;
      of_tokens[2 * i + 1] = odd ? kept : got;
    }
  }

  uint4 words_[kWords];  ///< vk: [tile, half, word of the row]
  uint2 rows_[kRows];    ///< kv: [key]
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
