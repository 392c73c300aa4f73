// The pieces of the chunkwise form (docs/contract.md, section 2) that the fused and the chunkwise
// kernels are made of. A workgroup of 4 waves works on one chunk of C tokens of one value head and
// on 128 state columns.
//
//     L = I + strict_lower(diag(beta) (K K^T * D));   V' = L^-1 diag(beta) (V - diag(gamma) K S)
//     O = diag(gamma) Q S + lower(Q K^T * D) V';      S <- gamma_C S + (diag(gamma_C/gamma) K)^T V'
//
// (the scale is in Q). Tokens after the end of the sequence are zero rows with beta = 0 and no
// decay: they change nothing.
//
// Rows of K and Q lie in LDS as they are in memory, float16 or else widened to float32; norms and
// scale are factors of a row's products. So the operands of K K^T and Q K^T are exact in float16
// too, and one v_dot2_f32_f16 does two multiply-adds and rounds to float32. Products with the state
// take float16 rows and the float32 state by v_fma_mix_f32, which widens one of them on the way:
// the state itself is never rounded.
//
// Decays are exponentials of differences of cumulative log decays. The sums are float64, so that a
// difference between neighbours deep inside a strongly decaying chunk keeps its float32 precision;
// resets are counted apart and give exact zeros.
#pragma once

#include <type_traits>

#include "hip/gated_delta/state_tile.h"

namespace gdn::hip {

constexpr int kChunkThreads = 256;
constexpr int kChunkWaves = kChunkThreads / kWave;
constexpr int kTileColumns = kChunkWaves * kWaveColumns;  ///< state columns of a workgroup
template <int D>
using ChunkState = StateTile<D, kChunkWaves>;
/// A log decay below this makes float32 zero of anything (the smallest denormal is e^-103.3).
constexpr float kResetBelow = -120.0f;

// ---- what lies in LDS. 16 bytes of padding per row put neighbouring rows 4 banks apart. ----

/// Tile of kernels that widen float16 tokens, too: float32.
struct AnyToken {};
template <typename Tile>
using TileElement = std::conditional_t<std::is_same_v<Tile, AnyToken>, float, Tile>;

/// Rows of q or k. Tile = Half for float16 tokens, float for the others, or AnyToken.
template <typename Tile, int D, int C>
struct TokenRows {
  alignas(16) TileElement<Tile> x[C][D + 16 / sizeof(TileElement<Tile>)];
  float factor[C];  ///< of each row: 1 / its norm if asked for, times the scale in queries
};
/// Right-hand side, then V'.
template <int C>
struct UpdateRows {
  alignas(16) float x[C][kTileColumns + 4];
};
/// Two triangles in one square: L - I below the diagonal, and transposed on and above it the
/// scores, x[j][i] = (Q K^T * D)_ij.
template <int C>
struct TwoTriangles {
  alignas(16) float x[C][C + 4];
};
template <int C>
struct ChunkGates {
  static constexpr bool kOfChannels = false;
  double cumulative[C];  ///< log decay from the chunk's start
  int resets[C];         ///< resets up to and including the token
  float beta[C];
  float gamma[C];  ///< decay from the chunk's start
  float tail[C];   ///< decay to the chunk's end: gamma_C / gamma
};

// ---- loads ----

/// The sum over `lanes` neighbouring lanes, in the last of them.
template <int lanes>
__device__ __forceinline__ float sum_in_last_lane(float x) {
  x = sum_of_groups(x);
  if (lanes > 8) x += dpp_moved<0x140, 0xf>(x);   // row_mirror
  if (lanes > 16) x += dpp_moved<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  if (lanes > 32) x += dpp_moved<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  return x;
}

/// C rows of q or k into LDS, 16 bytes a lane: `source` is the first token's row. Zero beyond Dk
/// and beyond `count` tokens.
template <typename Token, typename Tile, int D, int C>
__device__ __forceinline__ void load_rows(const GatedDeltaParams& p, const Token* source,
                                          std::int64_t token_stride, int count, float scale,
                                          TokenRows<Tile, D, C>& rows) {
  using Element = TileElement<Tile>;
  constexpr int kPacket = 16 / sizeof(Element);
  constexpr int kLanes = D / kPacket < kWave ? D / kPacket : kWave;  // of one row
  constexpr int kPackets = D / kPacket / kLanes;                     // of a lane
  constexpr int kRowsAtOnce = kChunkThreads / kLanes;
  constexpr int kSteps = (C + kRowsAtOnce - 1) / kRowsAtOnce;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int row = static_cast<int>(threadIdx.x) / kLanes + kRowsAtOnce * step;
    const bool inside = row < count, in_tile = kRowsAtOnce <= C || row < C;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kPackets; ++i) {
      const int k = (lane + i * kLanes) * kPacket;
      const Packet<Token, kPacket> loaded = load_packet<kPacket>(
          p, source + (inside ? row : 0) * token_stride, k, inside ? p.key_head_dim : 0);
      Packet<Element, kPacket> packet;
#pragma unroll
      for (int e = 0; e < kPacket; ++e) {
        packet.x[e] = static_cast<Element>(to_float(loaded.x[e]));
        squares = fmaf(to_float(packet.x[e]), to_float(packet.x[e]), squares);
      }
      if (in_tile) *reinterpret_cast<Packet<Element, kPacket>*>(&rows.x[row][k]) = packet;
    }
    float factor = scale;
    if (p.normalize_qk != 0) {
      factor = scale / sqrtf(sum_in_last_lane<kLanes>(squares) + kNormEpsilon);
    }
    if (in_tile && lane == kLanes - 1) rows.factor[row] = factor;
  }
}

/// Calls f with a null pointer of the token type: with_element() for the types that a tile takes.
template <typename Tile, typename F>
__device__ __forceinline__ void with_token(const GatedDeltaParams& p, F f) {
  if constexpr (std::is_same_v<Tile, AnyToken>) {
    with_element(p.token_element, f);
  } else if constexpr (std::is_same_v<Tile, Half>) {
    f(static_cast<const Half*>(nullptr));
  } else if (p.token_element == Element::float32) {
    f(static_cast<const float*>(nullptr));
  } else {
    f(static_cast<const Bfloat16*>(nullptr));
  }
}
template <typename Tile, int D, int C>
__device__ __forceinline__ void load_keys(const GatedDeltaParams& p, std::int64_t token,
                                          int key_head, int count, TokenRows<Tile, D, C>& rows) {
  with_token<Tile>(p, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    load_rows(p, key_at<Token>(p, token, key_head), p.key_token_stride, count, 1.0f, rows);
  });
}
template <typename Tile, int D, int C>
__device__ __forceinline__ void load_queries(const GatedDeltaParams& p, std::int64_t token,
                                             int key_head, int count, TokenRows<Tile, D, C>& rows) {
  with_token<Tile>(p, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    load_rows(p, query_at<Token>(p, token, key_head), p.query_token_stride, count, p.scale, rows);
  });
}
/// Four columns of v from `column` on, zeros beyond `limit`.
template <typename Tile>
__device__ __forceinline__ void load_values(const GatedDeltaParams& p, std::int64_t token, int head,
                                            int column, int limit, float (&values)[4]) {
  with_token<Tile>(p, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    const auto packet = load_packet<4>(p, value_at<Token>(p, token, head), column, limit);
#pragma unroll
    for (int e = 0; e < 4; ++e) values[e] = to_float(packet.x[e]);
  });
}

/// The chunk's betas and decays, by the first wave.
template <int C>
__device__ __forceinline__ void load_gates(const GatedDeltaParams& p, std::int64_t first_token,
                                           int count, int head, ChunkGates<C>& gates) {
  const TileThread thread = tile_thread();
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
    gates.cumulative[lane] = cumulative;
    gates.resets[lane] = resets;
    gates.beta[lane] = beta;
    gates.gamma[lane] = resets == 0 ? expf(static_cast<float>(cumulative)) : 0.0f;
    gates.tail[lane] = resets == all_resets ? expf(static_cast<float>(last - cumulative)) : 0.0f;
  }
}

// ---- products ----

__device__ __forceinline__ float dot(const Packet<float, 4>& a, const Packet<float, 4>& b,
                                     float sum) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = fmaf(a.x[i], b.x[i], sum);
  return sum;
}
__device__ __forceinline__ float dot(const Packet<Half, 8>& a, const Packet<Half, 8>& b,
                                     float sum) {
  const auto x = __builtin_bit_cast(Packet<HalfPair, 4>, a);
  const auto y = __builtin_bit_cast(Packet<HalfPair, 4>, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = dot2(x.x[i], y.x[i], sum);
  return sum;
}

/// The decay of the tokens after j up to i.
template <int C>
__device__ __forceinline__ float decay_between(const ChunkGates<C>& gates, int j, int i) {
  if (gates.resets[i] != gates.resets[j]) return 0.0f;
  return expf(static_cast<float>(gates.cumulative[i] - gates.cumulative[j]));
}
/// The decay of the tokens up to i, of any key channel.
template <int C>
__device__ __forceinline__ float decay_from_start(const ChunkGates<C>& gates, int i, int) {
  return gates.gamma[i];
}
/// `with_lower`, L - I from K K^T, or without_betas what beta is a factor of in it; `with_scores`, the
/// scores from Q K^T. A thread computes the pairs of rows ti, ti + 16, ... and tj, tj + 16, ...;
/// blocks above the diagonal are left out.
template <bool with_lower, bool with_scores, bool without_betas = false, typename Tile, int D,
          int C>
__device__ __forceinline__ void multiply_rows(const TokenRows<Tile, D, C>& queries,
                                              const TokenRows<Tile, D, C>& keys,
                                              const ChunkGates<C>& gates,
                                              TwoTriangles<C>& triangles) {
  constexpr int kEntries = C / 16, kPacket = 16 / sizeof(Tile);
  using Elements = Packet<Tile, kPacket>;
  const int ti = static_cast<int>(threadIdx.x) / 16, tj = static_cast<int>(threadIdx.x) % 16;
  float key_sums[kEntries][kEntries] = {}, query_sums[kEntries][kEntries] = {};
#pragma unroll 2
  for (int k = 0; k < D; k += kPacket) {
    Elements key_i[kEntries], query_i[kEntries];
#pragma unroll
    for (int a = 0; a < kEntries; ++a) {
      if (with_lower) key_i[a] = *reinterpret_cast<const Elements*>(&keys.x[ti + 16 * a][k]);
      if (with_scores) query_i[a] = *reinterpret_cast<const Elements*>(&queries.x[ti + 16 * a][k]);
    }
#pragma unroll
    for (int b = 0; b < kEntries; ++b) {
      const Elements key_j = *reinterpret_cast<const Elements*>(&keys.x[tj + 16 * b][k]);
#pragma unroll
      for (int a = b; a < kEntries; ++a) {
        if (with_lower) key_sums[a][b] = dot(key_i[a], key_j, key_sums[a][b]);
        if (with_scores) query_sums[a][b] = dot(query_i[a], key_j, query_sums[a][b]);
      }
    }
  }
#pragma unroll
  for (int a = 0; a < kEntries; ++a) {
#pragma unroll
    for (int b = 0; b <= a; ++b) {
      const int i = ti + 16 * a, j = tj + 16 * b;
      if (j > i) continue;
      const float factor = keys.factor[j] * decay_between(gates, j, i);
      if (with_lower && j < i) {
        const float beta = without_betas ? 1.0f : gates.beta[i];
        triangles.x[i][j] = beta * keys.factor[i] * factor * key_sums[a][b];
      }
      if (with_scores) triangles.x[j][i] = queries.factor[i] * factor * query_sums[a][b];
    }
  }
}

/// Solves L X = B for one column, x holding B and then X: forward substitution.
template <int C>
__device__ __forceinline__ void solve_column(const TwoTriangles<C>& triangles, float (&x)[C]) {
  // L is read again for every column: hoisted out of a loop over columns it would not fit in
  // registers.
  compiler_fence();
#pragma unroll
  for (int i = 1; i < C; ++i) {
#pragma unroll
    for (int j = 0; j < C; ++j) {  // constant bounds: x stays in registers
      if (j < i) x[i] = fmaf(-triangles.x[i][j], x[j], x[i]);
    }
  }
}

/// V' from the right-hand side: a column per thread of the first two waves.
template <int C>
__device__ __forceinline__ void solve_update(const TwoTriangles<C>& triangles,
                                             UpdateRows<C>& update) {
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kTileColumns) return;
  float x[C];
#pragma unroll
  for (int i = 0; i < C; ++i) x[i] = update.x[i][column];
  solve_column(triangles, x);
#pragma unroll
  for (int i = 0; i < C; ++i) update.x[i][column] = x[i];
}

/// diag(gamma) (rows S) of row 8 block + group, four columns.
template <typename Tile, int D, int C>
__device__ __forceinline__ float4 decayed_product(const TokenRows<Tile, D, C>& rows,
                                                  const ChunkGates<C>& gates,
                                                  const ChunkState<D>& state, int block) {
  const float4 product = state.rows_times_state(rows.x, block);
  const int i = 8 * block + tile_thread().group;
  const float factor = gates.gamma[i] * rows.factor[i];
  return {factor * product.x, factor * product.y, factor * product.z, factor * product.w};
}

/// S += (diag(factors) K)^T V', beside the factors that the rows of K have.
template <typename Tile, int D, int C, typename FactorOf>
__device__ __forceinline__ void add_updates(const TokenRows<Tile, D, C>& keys,
                                            const UpdateRows<C>& update, int count,
                                            ChunkState<D>& state, FactorOf factor_of) {
  const TileThread thread = tile_thread();
#pragma unroll 2
  for (int t = 0; t < count; ++t) {
    const float4 v = *reinterpret_cast<const float4*>(&update.x[t][thread.column]);
    const float factor = factor_of(t) * keys.factor[t];
    const float u[4] = {v.x * factor, v.y * factor, v.z * factor, v.w * factor};
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      state.add_outer_product(j,
                              *reinterpret_cast<const Packet<TileElement<Tile>, 4>*>(
                                  &keys.x[t][32 * j + 4 * thread.group]),
                              u);
    }
  }
}
/// S <- gamma_C S + (diag(gamma_C/gamma) K)^T V'.
template <typename Tile, int D, int C>
__device__ __forceinline__ void advance_state(const TokenRows<Tile, D, C>& keys,
                                              const UpdateRows<C>& update,
                                              const ChunkGates<C>& gates, int count,
                                              ChunkState<D>& state) {
  state.scale(gates.gamma[C - 1]);
  add_updates(keys, update, count, state, [&](int t) { return gates.tail[t]; });
}

// ---- outputs ----

/// Adds scores V' to `out`, of row 8 block + group, and stores it as an output of the chunk.
template <int C>
__device__ __forceinline__ void store_output(const GatedDeltaParams& p,
                                             const TwoTriangles<C>& triangles,
                                             const UpdateRows<C>& update, std::int64_t first_token,
                                             int count, int head, int first_column, int block,
                                             float4 out) {
  const TileThread thread = tile_thread();
  const int i = 8 * block + thread.group;
  const auto add = [&](int j, float score) {
    const float4 v = *reinterpret_cast<const float4*>(&update.x[j][thread.column]);
    out.x = fmaf(score, v.x, out.x);
    out.y = fmaf(score, v.y, out.y);
    out.z = fmaf(score, v.z, out.z);
    out.w = fmaf(score, v.w, out.w);
  };
#pragma unroll 4
  for (int j = 0; j < 8 * block; ++j) add(j, triangles.x[j][i]);
#pragma unroll 4
  for (int j = 8 * block; j < 8 * block + 8; ++j) add(j, j <= i ? triangles.x[j][i] : 0.0f);

  const int column = first_column + thread.column;
  if (i >= count || column >= p.value_head_dim) return;
  const float values[4] = {out.x, out.y, out.z, out.w};
  store_columns(p, output_index(p, first_token + i, head, column), p.value_head_dim - column,
                values);
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
