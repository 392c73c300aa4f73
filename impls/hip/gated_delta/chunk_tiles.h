// The pieces of the chunkwise form (contract section 2) that the fused and the chunkwise kernels
// are made of. A workgroup of 4 waves works on one chunk of C tokens of one value head and on 128
// state columns.
//
//     L = I + strict_lower(diag(beta) (K K^T * D));   V' = L^-1 diag(beta) (V - diag(gamma) K S)
//     O = diag(gamma) Q S + lower(Q K^T * D) V';      S <- gamma_C S + (diag(gamma_C/gamma) K)^T V'
//
// (the scale is in Q). Tokens after the end of the sequence are zero rows with beta = 0 and no
// decay: they change nothing.
//
// State in registers. Lane (group g = lane % 8, column set lane / 8) of wave w holds columns
// 32 w + 4 (lane / 8) + 0..3 and rows 32 j + 4 g + 0..3 for all j: D/2 registers. A row of K is
// then read from LDS as 8 groups x 4 consecutive words: all 32 banks, no conflict, and each word
// serves 4 columns. A row times S is D/32 * 16 multiply-adds, then a sum over the 8 groups by DPP.
//
// Decays are exponentials of differences of cumulative log decays. The sums are float64, so that a
// difference between neighbours deep inside a strongly decaying chunk keeps its float32 precision;
// resets are counted apart and give exact zeros.
#pragma once

#include <type_traits>

#include "hip/gated_delta/device.h"

namespace gdn::hip {

constexpr int kChunkThreads = 256;
constexpr int kTileColumns = 128;  ///< state columns of a workgroup
/// A log decay below this makes float32 zero of anything (the smallest denormal is e^-103.3).
constexpr float kResetBelow = -120.0f;

/// One workgroup's LDS. D = rows of the state, C = tokens of a chunk; 4 words of padding per row
/// put neighbouring rows 4 banks apart.
template <int D, int C>
struct ChunkTiles {
  alignas(16) float key[C][D + 4];
  alignas(16) float query[C][D + 4];              ///< times scale
  alignas(16) float update[C][kTileColumns + 4];  ///< right-hand side, then V'
  alignas(16) float lower[C][C + 4];              ///< L - I
  alignas(16) float scores[C][C + 4];             ///< [j][i] = (Q K^T * D)_ij, zero for j > i
  double cumulative[C];                           ///< log decay from the chunk's start
  int resets[C];                                  ///< resets up to and including the token
  float beta[C];
  float gamma[C];  ///< decay from the chunk's start
  float tail[C];   ///< decay to the chunk's end: gamma_C / gamma
};

struct ChunkThread {
  int lane, wave;
  int group;   ///< 0..7: which rows
  int column;  ///< first of four, within the tile
};
__device__ __forceinline__ ChunkThread chunk_thread() {
  const int lane = static_cast<int>(threadIdx.x) % kWave;
  const int wave = uniform(static_cast<int>(threadIdx.x) / kWave);
  return {lane, wave, lane % 8, wave * (kWave / 2) + lane / 8 * 4};
}

/// Over the 8 lanes of equal lane / 8: neighbours, pairs, then the two quads. Every lane has the
/// sum.
__device__ __forceinline__ float sum_of_groups(float x) {
  x += dpp_moved<0xb1, 0xf>(x);   // quad_perm:[1,0,3,2]
  x += dpp_moved<0x4e, 0xf>(x);   // quad_perm:[2,3,0,1]
  x += dpp_moved<0x141, 0xf>(x);  // row_half_mirror
  return x;
}

/// Rows of q or k into LDS, one row a wave at a time: `source` is the first token's row. Normalised
/// if asked for, times `scale`, zero beyond Dk and beyond `count` tokens.
template <typename Token, int D, int C>
__device__ __forceinline__ void load_rows(const GatedDeltaParams& p, const Token* source,
                                          std::int64_t token_stride, int count, float scale,
                                          float (&tile)[C][D + 4]) {
  constexpr int kPerLane = D / kWave;
  const ChunkThread thread = chunk_thread();
#pragma unroll
  for (int step = 0; step < C * kWave / kChunkThreads; ++step) {
    const int row = thread.wave + kChunkThreads / kWave * step;
    float x[kPerLane];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int k = thread.lane + kWave * i;
      const bool inside = row < count && k < p.key_head_dim;
      x[i] = inside ? to_float(source[row * token_stride + k]) : 0.0f;
      squares = fmaf(x[i], x[i], squares);
    }
    const float factor =
        p.normalize_qk != 0 ? scale / sqrtf(DppSum::sum(squares) + kNormEpsilon) : scale;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) tile[row][thread.lane + kWave * i] = x[i] * factor;
  }
}

template <int D, int C>
__device__ __forceinline__ void load_keys(const GatedDeltaParams& p, std::int64_t token,
                                          int key_head, int count, ChunkTiles<D, C>& tiles) {
  with_element(p.token_element, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    load_rows<Token, D, C>(p, key_at<Token>(p, token, key_head), p.key_token_stride, count, 1.0f,
                           tiles.key);
  });
}
template <int D, int C>
__device__ __forceinline__ void load_queries(const GatedDeltaParams& p, std::int64_t token,
                                             int key_head, int count, ChunkTiles<D, C>& tiles) {
  with_element(p.token_element, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    load_rows<Token, D, C>(p, query_at<Token>(p, token, key_head), p.query_token_stride, count,
                           p.scale, tiles.query);
  });
}
/// Four columns of v from `column` on, the first num_inside of them read and the others zero.
__device__ __forceinline__ void load_values(const GatedDeltaParams& p, std::int64_t token, int head,
                                            int column, int num_inside, float (&values)[4]) {
  with_element(p.token_element, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    const Token* const source = value_at<Token>(p, token, head) + column;
#pragma unroll
    for (int e = 0; e < 4; ++e) values[e] = e < num_inside ? to_float(source[e]) : 0.0f;
  });
}

/// The chunk's betas and decays, by the first wave.
template <int D, int C>
__device__ __forceinline__ void load_gates(const GatedDeltaParams& p, std::int64_t first_token,
                                           int count, int head, ChunkTiles<D, C>& tiles) {
  const ChunkThread thread = chunk_thread();
  if (thread.wave != 0) return;
  const int lane = thread.lane;
  float log_decay = 0.0f, beta = 0.0f;
  if (lane < count) {
    log_decay = log_decay_of(p, first_token + lane, head);
    beta = beta_of(p, first_token + lane, head);
  }
  const bool reset = log_decay < kResetBelow;
  double cumulative = reset ? 0.0 : static_cast<double>(log_decay);
  int resets = reset ? 1 : 0;
#pragma unroll
  for (int distance = 1; distance < C; distance *= 2) {
    const double earlier = shuffle_up(cumulative, distance);
    const int earlier_resets = shuffle_up(resets, distance);
    if (lane >= distance) {
      cumulative += earlier;
      resets += earlier_resets;
    }
  }
  const double last = shuffle(cumulative, C - 1);
  const int all_resets = shuffle(resets, C - 1);
  if (lane < C) {
    tiles.cumulative[lane] = cumulative;
    tiles.resets[lane] = resets;
    tiles.beta[lane] = beta;
    tiles.gamma[lane] = resets == 0 ? expf(static_cast<float>(cumulative)) : 0.0f;
    tiles.tail[lane] = resets == all_resets ? expf(static_cast<float>(last - cumulative)) : 0.0f;
  }
}

__device__ __forceinline__ float dot4(const float4& a, const float4& b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

/// L - I and, `with_scores`, the scores from the K and Q tiles: a thread computes (C/16)^2 entries
/// of each.
template <bool with_scores, int D, int C>
__device__ __forceinline__ void multiply_rows(ChunkTiles<D, C>& tiles) {
  constexpr int kEntries = C / 16;
  const int ti = static_cast<int>(threadIdx.x) / 16, tj = static_cast<int>(threadIdx.x) % 16;
  float keys[kEntries][kEntries] = {}, queries[kEntries][kEntries] = {};
#pragma unroll 2
  for (int r = 0; r < D; r += 4) {
    float4 key_i[kEntries], query_i[kEntries];
#pragma unroll
    for (int a = 0; a < kEntries; ++a) {
      key_i[a] = *reinterpret_cast<const float4*>(&tiles.key[ti + 16 * a][r]);
      if (with_scores) query_i[a] = *reinterpret_cast<const float4*>(&tiles.query[ti + 16 * a][r]);
    }
#pragma unroll
    for (int b = 0; b < kEntries; ++b) {
      const float4 key_j = *reinterpret_cast<const float4*>(&tiles.key[tj + 16 * b][r]);
#pragma unroll
      for (int a = 0; a < kEntries; ++a) {
        keys[a][b] = dot4(key_i[a], key_j, keys[a][b]);
        if (with_scores) queries[a][b] = dot4(query_i[a], key_j, queries[a][b]);
      }
    }
  }
#pragma unroll
  for (int a = 0; a < kEntries; ++a) {
#pragma unroll
    for (int b = 0; b < kEntries; ++b) {
      const int i = ti + 16 * a, j = tj + 16 * b;
      float decay = 0.0f;  // of the tokens after j up to i
      if (j <= i && tiles.resets[i] == tiles.resets[j]) {
        decay = expf(static_cast<float>(tiles.cumulative[i] - tiles.cumulative[j]));
      }
      tiles.lower[i][j] = j < i ? tiles.beta[i] * decay * keys[a][b] : 0.0f;
      if (with_scores) tiles.scores[j][i] = decay * queries[a][b];
    }
  }
}

/// Solves L X = B for one column, x holding B and then X: forward substitution.
template <int D, int C>
__device__ __forceinline__ void solve_column(const ChunkTiles<D, C>& tiles, float (&x)[C]) {
  // L is read again for every column: hoisted out of a loop over columns it would not fit in
  // registers.
  compiler_fence();
#pragma unroll
  for (int i = 1; i < C; ++i) {
#pragma unroll
    for (int j = 0; j < C; ++j) {  // constant bounds: x stays in registers
      if (j < i) x[i] = fmaf(-tiles.lower[i][j], x[j], x[i]);
    }
  }
}

/// V' from the right-hand side in `update`: a column per thread of the first two waves.
template <int D, int C>
__device__ __forceinline__ void solve_update(ChunkTiles<D, C>& tiles) {
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kTileColumns) return;
  float x[C];
#pragma unroll
  for (int i = 0; i < C; ++i) x[i] = tiles.update[i][column];
  solve_column(tiles, x);
#pragma unroll
  for (int i = 0; i < C; ++i) tiles.update[i][column] = x[i];
}

/// A workgroup's part of one head's state, in registers.
template <int D>
struct StateTile {
  float s[D / 32][4][4];  ///< rows 32 j + 4 group + r, columns column + e

  /// access(k, column, value) for every element within `columns` of the tile and `key_head_dim`
  /// rows.
  template <typename F>
  __device__ __forceinline__ void for_each(int key_head_dim, int columns, F access) {
    const ChunkThread thread = chunk_thread();
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int k = 32 * j + 4 * thread.group + r;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (k < key_head_dim && thread.column + e < columns) {
            access(k, thread.column + e, s[j][r][e]);
          }
        }
      }
    }
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int i = 0; i < 16; ++i) s[j][i / 4][i % 4] = 0.0f;
    }
  }
  static constexpr int kElements = D * kTileColumns;
  /// As the registers hold it: every thread's four columns together, no bounds, all accesses whole.
  __device__ __forceinline__ void store_registers(float* to) const {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        reinterpret_cast<float4*>(to)[(4 * j + r) * kChunkThreads + threadIdx.x] =
            make_float4(s[j][r][0], s[j][r][1], s[j][r][2], s[j][r][3]);
      }
    }
  }
  __device__ __forceinline__ void load_registers(const float* from) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float4 x =
            reinterpret_cast<const float4*>(from)[(4 * j + r) * kChunkThreads + threadIdx.x];
        s[j][r][0] = x.x;
        s[j][r][1] = x.y;
        s[j][r][2] = x.z;
        s[j][r][3] = x.w;
      }
    }
  }
  /// From and to the state pool; `first_column` is the tile's first.
  __device__ __forceinline__ void load_pool(const GatedDeltaParams& p, std::int64_t row, int head,
                                            int first_column) {
    clear();
    if (p.read_state == 0) return;
    with_element(p.state_element, [&](auto* type) {
      const auto* const base =
          mutable_array(type, p.state_pool) + state_index(p, row, head, 0, first_column);
      for_each(p.key_head_dim, p.value_head_dim - first_column, [&](int k, int column, float& x) {
        x = to_float(base[k * p.state_key_stride + column * p.state_value_stride]);
      });
    });
  }
  __device__ __forceinline__ void store_pool(const GatedDeltaParams& p, std::int64_t row, int head,
                                             int first_column) {
    if (p.write_state == 0) return;
    with_element(p.state_element, [&](auto* type) {
      auto* const base =
          mutable_array(type, p.state_pool) + state_index(p, row, head, 0, first_column);
      for_each(p.key_head_dim, p.value_head_dim - first_column, [&](int k, int column, float& x) {
        store_as(&base[k * p.state_key_stride + column * p.state_value_stride], x);
      });
    });
  }

  /// (tile S) of row 8 block + group, this thread's four columns.
  template <int C>
  __device__ __forceinline__ float4 rows_times_state(const float (&tile)[C][D + 4],
                                                     int block) const {
    const ChunkThread thread = chunk_thread();
    float kept[4] = {};
#pragma unroll 2
    for (int i = 0; i < 8; ++i) {
      const float* const row = tile[8 * block + i];
      float sum[4] = {};
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        const float4 k = *reinterpret_cast<const float4*>(&row[32 * j + 4 * thread.group]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum[e] = fmaf(k.x, s[j][0][e], sum[e]);
          sum[e] = fmaf(k.y, s[j][1][e], sum[e]);
          sum[e] = fmaf(k.z, s[j][2][e], sum[e]);
          sum[e] = fmaf(k.w, s[j][3][e], sum[e]);
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[e] = sum_of_groups(sum[e]);
        kept[e] = thread.group == i ? sum[e] : kept[e];
      }
    }
    return {kept[0], kept[1], kept[2], kept[3]};
  }

  /// S <- gamma_C S + (diag(gamma_C/gamma) K)^T V'.
  template <int C>
  __device__ __forceinline__ void advance(const ChunkTiles<D, C>& tiles, int count) {
    const ChunkThread thread = chunk_thread();
    const float decay = tiles.gamma[C - 1];
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[j][r][e] *= decay;
      }
    }
#pragma unroll 2
    for (int t = 0; t < count; ++t) {
      const float4 v = *reinterpret_cast<const float4*>(&tiles.update[t][thread.column]);
      const float tail = tiles.tail[t];
      const float u[4] = {v.x * tail, v.y * tail, v.z * tail, v.w * tail};
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        const float4 k = *reinterpret_cast<const float4*>(&tiles.key[t][32 * j + 4 * thread.group]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          s[j][0][e] = fmaf(k.x, u[e], s[j][0][e]);
          s[j][1][e] = fmaf(k.y, u[e], s[j][1][e]);
          s[j][2][e] = fmaf(k.z, u[e], s[j][2][e]);
          s[j][3][e] = fmaf(k.w, u[e], s[j][3][e]);
        }
      }
    }
  }
};

/// O of the chunk: diag(gamma) Q S + scores V', stored.
template <int D, int C>
__device__ __forceinline__ void store_outputs(const GatedDeltaParams& p,
                                              const ChunkTiles<D, C>& tiles,
                                              const StateTile<D>& state, std::int64_t first_token,
                                              int count, int head, int first_column) {
  const ChunkThread thread = chunk_thread();
#pragma unroll 1
  for (int block = 0; 8 * block < count; ++block) {
    const int i = 8 * block + thread.group;
    const float4 from_state = state.template rows_times_state<C>(tiles.query, block);
    const float gamma = tiles.gamma[i];
    float out[4] = {gamma * from_state.x, gamma * from_state.y, gamma * from_state.z,
                    gamma * from_state.w};
#pragma unroll 4
    for (int j = 0; j < 8 * block + 8; ++j) {  // the scores are zero for j > i
      const float4 v = *reinterpret_cast<const float4*>(&tiles.update[j][thread.column]);
      const float score = tiles.scores[j][i];
      out[0] = fmaf(score, v.x, out[0]);
      out[1] = fmaf(score, v.y, out[1]);
      out[2] = fmaf(score, v.z, out[2]);
      out[3] = fmaf(score, v.w, out[3]);
    }
    const int column = first_column + thread.column;
    if (i < count) {
      const std::int64_t at = output_index(p, first_token + i, head, column);
      with_element(p.output_element, [&](auto* type) {
        auto* const output = mutable_array(type, p.output) + at;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (column + e < p.value_head_dim) store_as(&output[e], out[e]);
        }
      });
    }
  }
}

/// Zeros for a padding sequence's outputs, this workgroup's columns.
__device__ __forceinline__ void store_zero_outputs(const GatedDeltaParams& p, const Span& span,
                                                   int head, int first_column) {
  const int column = first_column + static_cast<int>(threadIdx.x) % kTileColumns;
  if (column >= p.value_head_dim) return;
  for (std::int64_t t = static_cast<int>(threadIdx.x) / kTileColumns; t < span.length;
       t += kChunkThreads / kTileColumns) {
    store_element(p.output, p.output_element, output_index(p, span.first + t, head, column), 0.0f);
  }
}

}  // namespace gdn::hip
