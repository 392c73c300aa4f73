// What couples the tokens of a draft with one another, apart from the state that they begin with. With the
// recurrence written out from that state S, and w_e = u_e times what normalises key e,
//
//     u_i = beta_i (v_i - b(0, i) S^T k_i - sum over e < i of b(e, i) (k_i . k_e) w_e)
//     o_i =               b(0, i) S^T q_i + sum over e <= i of b(e, i) (q_i . k_e) w_e
//
// where b(e, i) is the product of the decays of tokens e + 1 to i, b(0, i) that of all to i, and k_i and q_i
// stand with the factors that normalise and scale them.
//
// Every warp makes its own, in shared memory of its own, so that none waits for another between the state's
// loads and their use. The products of keys and queries are taken by
// tensor cores, and so are the squares that normalise them: the keys and queries of four tokens, in turns,
// are eight columns, and those of eight tokens sixteen rows. Decays are multiplied in the order of the
// tokens: a product of them underflows to zero, where a difference of sums of their logarithms would lose
// small ones beside large ones. No factor depends on tokens behind its own, or on how tokens come in chunks.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta_verify/state_operand.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// The tokens of a sequence and head, counted from its first one, and their parts in a chunk.
struct DraftTokens {
  const GatedDeltaParams& p;
  int head;
  int key_head;
  std::int64_t first;  ///< of the sequence, counted over all sequences

  __device__ __forceinline__ const __nv_bfloat16* key(int token) const {
    return key_at<__nv_bfloat16>(p, first + token, key_head);
  }
  /// Column c of the four tokens from `four` on: the key or query of token four + c / 2, or, where that is at
  /// `end` or behind it, of the last one before: no product of it is looked at.
  __device__ __forceinline__ const __nv_bfloat16* column(int four, int c, int end) const {
    const int token = min(four + c / 2, end - 1);
    return c % 2 == 0 ? key(token) : query_at<__nv_bfloat16>(p, first + token, key_head);
  }
  __device__ __forceinline__ float decay(int token) const {
    return decode_decay(p.gates, load_number(p.gates.gate, first + token, head), head);
  }
};

/// What a key and a query are multiplied with: what normalises them, and the scale.
struct VectorFactors {
  float key;
  float query;
};
__device__ __forceinline__ VectorFactors vector_factors(const GatedDeltaParams& p, float key_square,
                                                        float query_square) {
  if (!p.normalize_qk) return {1, p.scale};
  return {rsqrtf(key_square + kNormEpsilon), p.scale * rsqrtf(query_square + kNormEpsilon)};
}

/// What a token's products with the state are multiplied with.
struct alignas(16) TokenFactors {
  float with_key;    ///< b(0, i), times what normalises the key
  float with_query;  ///< the same of the query, and its scale
  float key;         ///< what normalises the key
  float beta;
};

/// A token of a chunk, in the lane of its number.
struct TokenGates {
  float decay;
  float beta;
};

/// The couplings of a chunk of tokens, of one warp.
template <typename Shape, int kChunk>
struct DraftCouplings {
  static constexpr int kFours = kChunk / 4;

  TokenFactors token[kChunk];
  /// Rows 2 i, for key i, and 2 i + 1, for its query: the factor of w_e in column e. e < i, and of queries e = i.
  alignas(16) float coupling[2 * kChunk][kChunk];
  float query_squares[kChunk];
  VectorFactors normalising[kChunk];

  /// Four factors of key or query i, from token e on.
  __device__ __forceinline__ float4 of_key(int i, int e) const {
    return *reinterpret_cast<const float4*>(&coupling[2 * i][e]);
  }
  __device__ __forceinline__ float4 of_query(int i, int e) const {
    return *reinterpret_cast<const float4*>(&coupling[2 * i + 1][e]);
  }

  /// Of the tokens from `chunk` on, before `end`. `first_column`: the lane's part of the first four's columns.
  /// `from_start`, b(0, .) of the token before, becomes that of the last one.
  __device__ __forceinline__ void make(const DraftTokens& tokens, int chunk, int end,
                                       const TokenVector<Shape>& first_column,
                                       const TokenGates& gates, float& from_start) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int count = end - chunk;
    multiply(tokens, chunk, end, first_column, lane);
    __syncwarp();
    VectorFactors own = {};  // of token `lane`
    if (lane < count) {
      own = vector_factors(tokens.p, coupling[2 * lane][lane], query_squares[lane]);
      normalising[lane] = own;
    }
    __syncwarp();
    // Lane e has column e of the rows of keys, lane kChunk + e of those of queries.
    const int e = lane % kChunk;
    const int of_queries = lane / kChunk;
    float between = 1;
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const float decay = __shfl_sync(0xffffffffu, gates.decay, i);
      const float key = __shfl_sync(0xffffffffu, own.key, i);
      const float query = __shfl_sync(0xffffffffu, own.query, i);
      const float beta = __shfl_sync(0xffffffffu, gates.beta, i);
      from_start *= decay;
      if (lane == 0) token[i] = {from_start * key, from_start * query, key, beta};
      if (i > e) between *= decay;
      if (of_queries < 2 && e <= i) {
        float& coupled = coupling[2 * i + of_queries][e];
        coupled = between * coupled * (of_queries == 0 ? key : query);
      }
    }
    __syncwarp();
  }

 private:
  /// The products of all rows with all keys before and beside them, and the squares of the queries.
  __device__ __forceinline__ void multiply(const DraftTokens& tokens, int chunk, int end,
                                           const TokenVector<Shape>& first_column, int lane) {
    // Tile (m, n): the rows of fours 2 m and 2 m + 1, the columns of four n.
    constexpr int kRowTiles = (kFours + 1) / 2;
    float products[kRowTiles][kFours][4] = {};
#pragma unroll
    for (int j = 0; j < Shape::kVectorWords; ++j) {
      uint4 words[kFours];
      words[0] = first_column.words[j];
#pragma unroll
      for (int four = 1; four < kFours; ++four) {
        words[four] = token_word(tokens.column(chunk + 4 * four, lane / 4, end), j, lane % 4);
      }
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const uint4 a = words[2 * m];
        const uint4 b = 2 * m + 1 < kFours ? words[2 * m + 1] : uint4{0, 0, 0, 0};
#pragma unroll
        for (int n = 0; n < kFours && n <= 2 * m + 1; ++n) {
          const uint4 c = words[n];
          mma_m16n8k16<__nv_bfloat16>(products[m][n], {a.x, b.x, a.y, b.y}, c.x, c.y);
          mma_m16n8k16<__nv_bfloat16>(products[m][n], {a.z, b.z, a.w, b.w}, c.z, c.w);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kFours && n <= 2 * m + 1; ++n) {
#pragma unroll
        for (int lower = 0; lower < (2 * m + 1 < kFours ? 2 : 1); ++lower) {
          const int row = 16 * m + 8 * lower + lane / 4;
          const int e = 4 * n + lane % 4;
          coupling[row][e] = products[m][n][2 * lower];
          if (row == 2 * e + 1) query_squares[e] = products[m][n][2 * lower + 1];
        }
      }
    }
  }
};

/// The couplings of four tokens with eight of the chunks before theirs, of one warp.
template <typename Shape>
struct EarlierCouplings {
  static constexpr int kEarlier = 8;
  /// Rows as those of DraftCouplings.
  alignas(16) float coupling[8][kEarlier];

  __device__ __forceinline__ float of_key(int t, int e) const { return coupling[2 * t][e]; }
  __device__ __forceinline__ float of_query(int t, int e) const { return coupling[2 * t + 1][e]; }

  /// Of the four tokens from `four` on, before `end`, whose normalising factors are `key` and `query` of lane t,
  /// with tokens `earlier` and on, before `chunk`.
  __device__ __forceinline__ void make(const DraftTokens& tokens, const TokenVector<Shape>& column,
                                       int four, int end, int earlier, int chunk,
                                       const VectorFactors& factors) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    __syncwarp();  // those before have been read
    const __nv_bfloat16* const key = tokens.key(min(earlier + lane / 4, chunk - 1));
    float products[4] = {};
#pragma unroll
    for (int j = 0; j < Shape::kVectorWords; ++j) {
      const uint4 a = column.words[j];
      const uint4 c = token_word(key, j, lane % 4);
      mma_m16n8k16<__nv_bfloat16>(products, {a.x, 0, a.y, 0}, c.x, c.y);
      mma_m16n8k16<__nv_bfloat16>(products, {a.z, 0, a.w, 0}, c.z, c.w);
    }
    coupling[lane / 4][lane % 4 * 2] = products[0];
    coupling[lane / 4][lane % 4 * 2 + 1] = products[1];
    __syncwarp();
    const int t = lane / kEarlier;
    const int e = lane % kEarlier;
    const float of_key = __shfl_sync(0xffffffffu, factors.key, t);
    const float of_query = __shfl_sync(0xffffffffu, factors.query, t);
    const bool coupled = four + t < end && earlier + e < chunk;
    float between = 1;
    for (int i = earlier + e + 1; coupled && i <= four + t; ++i) between *= tokens.decay(i);
    coupling[2 * t][e] = coupled ? between * coupling[2 * t][e] * of_key : 0.0f;
    coupling[2 * t + 1][e] = coupled ? between * coupling[2 * t + 1][e] * of_query : 0.0f;
    __syncwarp();
  }
};

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
