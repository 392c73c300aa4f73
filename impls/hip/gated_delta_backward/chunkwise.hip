// hip/chunkwise of gated_delta_backward: the gradients of the WY form, chunk by chunk, as three
// kernels. With S the state before a chunk, D the gradient by the state behind it, and L, D_ij, gamma
// as in chunk_tiles.h, P = lower(Q K^T * D_ij), rho_i = gamma_C / gamma_i:
//
//     prepare     every chunk: L^-1 diag(beta) V, L^-1 diag(beta gamma) K, L^-T P^T dO,
//                 L^-T diag(rho) K                                        (parallel over chunks)
//     chains      every head, both ways at once, serial over chunks:
//                 V' = L^-1 diag(beta) V - L^-1 diag(beta gamma) K S;   S <- gamma_C S + (diag(rho) K)^T V'
//                 Y  = L^-T P^T dO + L^-T diag(rho) K D;
//                 D <- gamma_C D + (diag(gamma) Q)^T dO - (diag(beta gamma) K)^T Y
//     gradients   every chunk: from S, D, V' and Y                        (parallel over chunks)
//
// The gradients are those of cpu/gated_delta_backward/chunkwise_kernel.cpp, d_log_decay in the form
// of which every term has the decay as a factor: a reset gives exact zeros. Of `gate=decay` it is
// divided by the decay, unless that is too small to divide by. d_q and d_k go to the workspace as
// summands of each value head, for sums.hip.
//
// In the chains a state is in registers (state_tile.h), and its products sum over rows. The products
// of `gradients` with S and D sum over columns: there a lane has key channels, and a wave has tokens
// of its own, whose elements are the same for all lanes. So the chains store states with their key
// channels side by side, whole cache lines either way.
//
// The price is what lies between the kernels: two states and C (5 Dk + 3 Dv) floats for each chunk and
// value head.
//
// Bound by VALU issue; `chains`, at 128 state rows and chunks of 32, by the registers of one workgroup as well: two do
// not fit beside each other on a CU. Modelled, not measured (gdnbench bench --op gated_delta_backward --device
// gfx906-emulator --heads 16/32 --dim 128 --h0 normal), float32 and bfloat16: 256 tokens 0.77 and 0.82 ms, where
// hip/recurrent takes 2.09 and 2.10; eight sequences of 16 tokens 0.55 and 0.60, there 1.24 and 1.23.
//
// Dk up to 256, any Dv; chunks of 32 tokens up to Dk = 128, and of 16.
#include "hip/gated_delta/chunk_slots.h"
#include "hip/gated_delta/chunk_tiles.h"
#include "hip/gated_delta_backward/params.h"

namespace gdn::hip {
namespace {

/// Gradients by smaller decays are not made by dividing by them.
constexpr float kLeastDivisor = 1e-20f;

/// Where a chunk's arrays begin, of a value head.
template <int D, int C>
struct ChunkArrays {
  const BackwardChunkParams& params;
  std::int64_t slot;
  int head;

  __device__ __forceinline__ std::int64_t of_head() const {
    return slot_head(params.backward.delta, slot, head);
  }
  __device__ __forceinline__ std::int64_t of_key_head() const {
    return slot * params.backward.num_key_heads + key_head_of(params.backward.delta, head);
  }
  __device__ __forceinline__ float* query() const { return params.query + of_key_head() * C * D; }
  __device__ __forceinline__ float* key() const { return params.key + of_key_head() * C * D; }
  __device__ __forceinline__ float* of_state() const { return params.of_state + of_head() * C * D; }
  __device__ __forceinline__ float* of_d_state() const {
    return params.of_d_state + of_head() * C * D;
  }
  __device__ __forceinline__ float* values(float* array) const {
    return array + of_head() * C * params.value_width;
  }
  __device__ __forceinline__ float* states(float* array) const {
    return array + of_head() * params.value_width * D;
  }
  __device__ __forceinline__ TwoTriangles<C>& pairs() const {
    return reinterpret_cast<TwoTriangles<C>*>(params.pairs)[of_head()];
  }
  __device__ __forceinline__ ChunkGates<C>& gates() const {
    static_assert(sizeof(ChunkGates<C>) == 6 * C * sizeof(float));
    return reinterpret_cast<ChunkGates<C>*>(params.gates)[of_head()];
  }
};

/// Copies what is a number of float32.
template <typename T>
__device__ __forceinline__ void copy_by_workgroup(const T& from, T& to) {
  for (unsigned i = threadIdx.x; i < sizeof(T) / sizeof(float); i += kChunkThreads) {
    reinterpret_cast<float*>(&to)[i] = reinterpret_cast<const float*>(&from)[i];
  }
}

// ---- prepare ----

template <int D, int C>
struct PrepareLds {
  TokenRows<float, D, C> keys, queries;
  TwoTriangles<C> triangles;
  ChunkGates<C> gates;
};

/// The rows times their factors, and to the workspace unless another head does it.
template <int D, int C>
__device__ __forceinline__ void scale_rows(TokenRows<float, D, C>& rows, float* to, bool store) {
#pragma unroll
  for (int first = 0; first < C * D; first += 4 * kChunkThreads) {
    const int at = first + 4 * static_cast<int>(threadIdx.x);
    const int i = at / D, k = at % D;
    float4& in_tile = *reinterpret_cast<float4*>(&rows.x[i][k]);
    const float factor = rows.factor[i];
    const float4 x =
        make_float4(factor * in_tile.x, factor * in_tile.y, factor * in_tile.z, factor * in_tile.w);
    in_tile = x;
    if (store) *reinterpret_cast<float4*>(to + at) = x;
  }
}

/// Solves L^T X = B for one column, x holding B and then X: back substitution.
template <int C>
__device__ __forceinline__ void solve_transposed(const TwoTriangles<C>& triangles, float (&x)[C]) {
  compiler_fence();
#pragma unroll
  for (int i = C - 1; i > 0; --i) {
#pragma unroll
    for (int j = 0; j < C; ++j) {
      if (j < i) x[j] = fmaf(-triangles.x[i][j], x[i], x[j]);
    }
  }
}

/// x[i] = row i's element of a token array, zero beyond `count` rows.
template <int C>
__device__ __forceinline__ void load_column(const GatedDeltaParams& p, const void* array,
                                            std::int64_t first, std::int64_t token_stride,
                                            int count, bool inside, float (&x)[C]) {
  with_element(p.token_element, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    const Token* const column = static_cast<const Token*>(array) + first;
#pragma unroll
    for (int i = 0; i < C; ++i) {
      x[i] = inside && i < count ? to_float(column[i * token_stride]) : 0.0f;
    }
  });
}

/// Grid: x = slot, y = value head.
template <int D, int C>
__device__ __forceinline__ void prepare(const BackwardChunkParams& params) {
  GDN_LDS(lds, PrepareLds<D, C>);
  const BackwardParams& b = params.backward;
  const GatedDeltaParams& p = b.delta;
  const int head = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  const SlotChunk chunk = chunk_of_slot<C>(p, blockIdx.x);
  if (chunk.count == 0 || span_of(p, chunk.sequence).row < 0) return;
  const ChunkArrays<D, C> arrays{params, blockIdx.x, head};
  const int key_head = key_head_of(p, head);
  load_gates(p, chunk.token, chunk.count, head, lds.gates);
  with_element(p.token_element, [&](auto* type) {
    using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
    load_rows(p, key_at<Token>(p, chunk.token, key_head), p.key_token_stride, chunk.count, 1.0f,
              lds.keys);
    load_rows(p, query_at<Token>(p, chunk.token, key_head), p.query_token_stride, chunk.count,
              p.scale, lds.queries);
  });
  __syncthreads();
  const bool first_of_group = head == key_head * b.value_heads_per_key_head;
  scale_rows(lds.keys, arrays.key(), first_of_group);
  scale_rows(lds.queries, arrays.query(), first_of_group);
  copy_by_workgroup(lds.gates, arrays.gates());
  __syncthreads();
  if (thread < C) lds.keys.factor[thread] = lds.queries.factor[thread] = 1.0f;
  __syncthreads();
  multiply_rows<true, true, true>(lds.queries, lds.keys, lds.gates, lds.triangles);
  __syncthreads();
  for (int e = thread; e < C * C; e += kChunkThreads) {
    const int i = e / C, j = e % C;
    const float x = lds.triangles.x[i][j];
    arrays.pairs().x[i][j] = x;
    if (j < i) lds.triangles.x[i][j] = lds.gates.beta[i] * x;
  }
  __syncthreads();

  const int width = params.value_width;
#pragma unroll 1
  for (int column = thread; column < D + width; column += kChunkThreads) {
    float x[C];
    if (column < D) {
      float* const of_state = arrays.of_state() + column;
      float* const of_d_state = arrays.of_d_state() + column;
#pragma unroll
      for (int i = 0; i < C; ++i) {
        x[i] = lds.gates.beta[i] * lds.gates.gamma[i] * lds.keys.x[i][column];
      }
      solve_column(lds.triangles, x);
#pragma unroll
      for (int i = 0; i < C; ++i) of_state[i * D] = x[i];
#pragma unroll
      for (int i = 0; i < C; ++i) x[i] = lds.gates.tail[i] * lds.keys.x[i][column];
      solve_transposed(lds.triangles, x);
#pragma unroll
      for (int i = 0; i < C; ++i) of_d_state[i * D] = x[i];
      continue;
    }
    const int v = column - D;
    const bool inside = v < p.value_head_dim;
    const std::int64_t at = head * p.value_head_dim + v;
    float* const written = arrays.values(params.written) + v;
    float* const d_written = arrays.values(params.d_written) + v;
    float* const d_output = arrays.values(params.d_output) + v;
    load_column(p, p.value, chunk.token * p.value_token_stride + at, p.value_token_stride,
                chunk.count, inside, x);
#pragma unroll
    for (int i = 0; i < C; ++i) x[i] *= lds.gates.beta[i];
    solve_column(lds.triangles, x);
#pragma unroll
    for (int i = 0; i < C; ++i) written[i * width] = x[i];
    load_column(p, b.d_output, chunk.token * b.d_output_token_stride + at, b.d_output_token_stride,
                chunk.count, inside, x);
#pragma unroll
    for (int i = 0; i < C; ++i) d_output[i * width] = x[i];
    compiler_fence();
#pragma unroll
    for (int j = 0; j < C; ++j) {  // P^T dO: row j needs those from j on
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < C; ++i) {
        if (i >= j) sum = fmaf(lds.triangles.x[j][i], x[i], sum);
      }
      x[j] = sum;
    }
    solve_transposed(lds.triangles, x);
#pragma unroll
    for (int i = 0; i < C; ++i) d_written[i * width] = x[i];
  }
}

// ---- chains ----

template <int D, int C>
struct ChainLds {
  alignas(16) float rows[C][D];
  alignas(16) float added[C][kTileColumns];
};

/// C rows on their way from the workspace to LDS.
template <int D, int C>
struct RowsAhead {
  static constexpr int kSteps = C * D / 4 / kChunkThreads;
  float4 x[kSteps];

  __device__ __forceinline__ void ask_for(const float* rows) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      x[s] = reinterpret_cast<const float4*>(rows)[kChunkThreads * s + threadIdx.x];
    }
  }
  __device__ __forceinline__ void store(float (&rows)[C][D]) const {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      reinterpret_cast<float4*>(&rows[0][0])[kChunkThreads * s + threadIdx.x] = x[s];
    }
  }
};

/// One of the two chains, of 128 columns of a sequence's head.
template <int D, int C, bool back>
struct Chain {
  const BackwardChunkParams& params;
  ChainLds<D, C>& lds;
  int sequence, head, first_column;

  __device__ __forceinline__ void run(const Span& span) const {
    constexpr int kShift = C == 16 ? 4 : 5;
    const GatedDeltaParams& p = params.backward.delta;
    GatedDeltaParams pool = p;
    if (back) {
      pool.state_pool = const_cast<void*>(params.backward.d_final_state);
      pool.read_state = params.backward.read_final_gradient;
    }
    ChunkState<D> state;
    state.load_pool(pool, span.row, head, first_column);
    const int chunks = static_cast<int>((span.length + C - 1) >> kShift);
    const std::int64_t first = first_slot<C>(p, sequence);
    RowsAhead<D, C> ahead;
    if (chunks > 0) ahead.ask_for(of_state(first + (back ? chunks - 1 : 0)));
#pragma unroll 1
    for (int n = 0; n < chunks; ++n) {
      const int c = back ? chunks - 1 - n : n;
      const int count = min(C, static_cast<int>(span.length) - (c << kShift));
      const int next = n + 1 == chunks ? c : back ? c - 1 : c + 1;
      step(first + c, count, first + next, ahead, state);
    }
    if (!back) return;
    pool.state_pool = params.backward.d_initial_state;
    pool.write_state = 1;
    state.store_pool(pool, span.row, head, first_column);
  }

 private:
  __device__ __forceinline__ ChunkArrays<D, C> arrays(std::int64_t slot) const {
    return {params, slot, head};
  }
  __device__ __forceinline__ const float* of_state(std::int64_t slot) const {
    return back ? arrays(slot).of_d_state() : arrays(slot).of_state();
  }
  /// Row i's four columns of this lane, in an array of the chunk.
  __device__ __forceinline__ float4* columns(float* array, std::int64_t slot, int i) const {
    return reinterpret_cast<float4*>(arrays(slot).values(array) + i * params.value_width +
                                     first_column + tile_thread().column);
  }
  __device__ __forceinline__ bool inside() const {
    return first_column + tile_thread().column < params.value_width;
  }

  __device__ __forceinline__ void step(std::int64_t slot, int count, std::int64_t next,
                                       RowsAhead<D, C>& ahead, ChunkState<D>& state) const {
    const ChunkGates<C>& gates = arrays(slot).gates();
    __syncthreads();  // the rows of the chunk before have been read
    ahead.store(lds.rows);
    ahead.ask_for(arrays(slot).key());
    store(arrays(slot).states(back ? params.d_state : params.state), state);
    __syncthreads();
    add_state(slot, count, gates, state);
    state.scale(gates.gamma[C - 1]);
    __syncthreads();
    ahead.store(lds.rows);
    ahead.ask_for(back ? arrays(slot).query() : of_state(next));
    __syncthreads();
    add_rows(count, state);
    if (!back) return;
    __syncthreads();
    ahead.store(lds.rows);
    ahead.ask_for(of_state(next));
    const TileThread thread = tile_thread();
    for (int i = thread.group; i < C; i += 8) {
      float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (inside()) x = *columns(params.d_output, slot, i);
      store_added(i, gates.gamma[i], x);
    }
    __syncthreads();
    add_rows(count, state);
  }

  /// V' or Y takes the place of what of it is made without the state, and goes to LDS with the factors
  /// of the outer products.
  __device__ __forceinline__ void add_state(std::int64_t slot, int count,
                                            const ChunkGates<C>& gates,
                                            const ChunkState<D>& state) const {
    float* const array = back ? params.d_written : params.written;
#pragma unroll 1
    for (int block = 0; 8 * block < count; ++block) {
      const int i = 8 * block + tile_thread().group;
      float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (inside()) x = *columns(array, slot, i);
      const float factor = back ? -gates.beta[i] * gates.gamma[i] : gates.tail[i];
      const float4 product = state.rows_times_state(lds.rows, block);
      constexpr float kSign = back ? 1.0f : -1.0f;
      x.x = fmaf(kSign, product.x, x.x);
      x.y = fmaf(kSign, product.y, x.y);
      x.z = fmaf(kSign, product.z, x.z);
      x.w = fmaf(kSign, product.w, x.w);
      if (inside()) *columns(array, slot, i) = x;
      store_added(i, factor, x);
    }
  }
  __device__ __forceinline__ void store_added(int i, float factor, const float4& x) const {
    *reinterpret_cast<float4*>(&lds.added[i][tile_thread().column]) =
        make_float4(factor * x.x, factor * x.y, factor * x.z, factor * x.w);
  }

  /// state += rows^T added.
  __device__ __forceinline__ void add_rows(int count, ChunkState<D>& state) const {
    const TileThread thread = tile_thread();
#pragma unroll 2
    for (int t = 0; t < count; ++t) {
      const float4 x = *reinterpret_cast<const float4*>(&lds.added[t][thread.column]);
      const float u[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        state.add_outer_product(
            j, *reinterpret_cast<const Packet<float, 4>*>(&lds.rows[t][32 * j + 4 * thread.group]),
            u);
      }
    }
  }

  /// Key channels side by side.
  __device__ __forceinline__ void store(float* to, const ChunkState<D>& state) const {
    if (!inside()) return;
    const TileThread thread = tile_thread();
    float* const base = to + (first_column + thread.column) * D + 4 * thread.group;
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        *reinterpret_cast<float4*>(base + e * D + 32 * j) =
            make_float4(state.s[j][0][e], state.s[j][1][e], state.s[j][2][e], state.s[j][3][e]);
      }
    }
  }
};

/// Grid: x = tiles of 128 columns, of the chain of D and then of that of S, y = value head,
/// z = sequence.
template <int D, int C>
__device__ __forceinline__ void chains(const BackwardChunkParams& params) {
  GDN_LDS(lds, ChainLds<D, C>);
  const int tile = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const Span span = span_of(params.backward.delta, sequence);
  if (span.row < 0) return;
  if (tile < params.column_tiles) {
    Chain<D, C, true>{params, lds, sequence, head, tile * kTileColumns}.run(span);
  } else {
    Chain<D, C, false>{params, lds, sequence, head, (tile - params.column_tiles) * kTileColumns}
        .run(span);
  }
}

// ---- gradients ----

constexpr int kValues = 32;  ///< columns of the tiles in LDS

template <int C>
struct GradientTiles {
  alignas(16) float d_output[C][kValues + 4];
  alignas(16) float d_written[C][kValues + 4];  ///< Y
  alignas(16) float written[C][kValues + 4];    ///< V'
};
template <int C>
struct GradientLds {
  ChunkGates<C> gates;
  union {
    GradientTiles<C> tiles;
    /// What of each pair i > j crosses the tokens between: P * dP + L * dL. Later its rows' sums up to
    /// a token.
    float crossing[C][C + 4];
  };
  alignas(16) float of_scores[C][C + 4];  ///< dP * D_ij
  alignas(16) float of_scores_transposed[C][C + 4];
  alignas(16) float of_keys[C][C + 4];  ///< N + N^T
  float of_query[C];                    ///< q . (diag(gamma) dO S^T)
  float of_written[C];                  ///< k . (diag(gamma) Y S^T)
  float of_d_state[C];                  ///< k . (diag(rho) V' D^T)
  float of_value[C];                    ///< Y . v
  float of_products[C];
  float before[C], behind[C];
  float wave_sums[kChunkThreads / 32];  ///< of kChunkWaves: as large whatever a wave is
};

template <int D, int C>
struct Gradients {
  static constexpr int kRows = C / kChunkWaves;  ///< tokens of a wave
  static constexpr int kChannels = D / kWave;    ///< of a lane, side by side
  static constexpr int kEntries = C / 16;        ///< of a thread's pairs, either way
  using Channels = Packet<float, kChannels>;

  const BackwardChunkParams& params;
  GradientLds<C>& lds;
  SlotChunk chunk;
  ChunkArrays<D, C> arrays;

  /// Of this wave's tokens and this lane's key channels.
  struct Sums {
    float of_query[kRows][kChannels];    ///< dO S^T
    float of_key[kRows][kChannels];      ///< Y S^T
    float of_d_state[kRows][kChannels];  ///< V' D^T
    float product;                       ///< <S, D>
  };

  __device__ __forceinline__ void run() const {
    copy_by_workgroup(arrays.gates(), lds.gates);
    float dP[kEntries][kEntries] = {}, YV[kEntries][kEntries] = {};
    Sums sums{};
    sum_over_values(dP, YV, sums);
    store_pairs(dP, YV);
    // The waves' sums of <S, D>, behind the barrier.
    sums.product = DppSum::sum(sums.product);
    if (lane() == 0) lds.wave_sums[wave()] = sums.product;
    __syncthreads();
    store_queries_and_keys(sums);
    sum_crossing();
    __syncthreads();
    store_gates();
    if (p().gate_encoding == GateEncoding::decay) store_small_decays();
  }

 private:
  __device__ __forceinline__ const BackwardParams& b() const { return params.backward; }
  __device__ __forceinline__ const GatedDeltaParams& p() const { return params.backward.delta; }
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int lane() { return thread() % kWave; }
  static __device__ __forceinline__ int wave() { return uniform(thread() / kWave); }
  static __device__ __forceinline__ int pair_row(int a) { return thread() / 16 + 16 * a; }
  static __device__ __forceinline__ int pair_column(int c) { return thread() % 16 + 16 * c; }
  static __device__ __forceinline__ const Channels& channels(const float* row) {
    return reinterpret_cast<const Channels*>(row)[lane()];
  }
  __device__ __forceinline__ std::int64_t row_of_parts(int i) const {
    return (chunk.token + i) * p().num_value_heads + arrays.head;
  }

  /// The chunk's columns in tiles of 32: d_v, Y . v, and all sums over columns.
  __device__ __forceinline__ void sum_over_values(float (&dP)[kEntries][kEntries],
                                                  float (&YV)[kEntries][kEntries],
                                                  Sums& sums) const {
    const int row = thread() / 8, width = params.value_width;
    const float* const d_output = arrays.values(params.d_output);
    const float* const d_written = arrays.values(params.d_written);
    const float* const written = arrays.values(params.written);
    float of_value = 0.0f;
#pragma unroll 1
    for (int first = 0; first < width; first += kValues) {
      const int column = first + 4 * (thread() % 8);
      __syncthreads();  // the tiles before have been read; at first, the gates written
      if (row < C) {
        float4 x[3];
        const bool inside = column < width;
        const float* const from[3] = {d_output, d_written, written};
#pragma unroll
        for (int a = 0; a < 3; ++a) {
          x[a] = inside ? *reinterpret_cast<const float4*>(from[a] + row * width + column)
                        : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        const int at = 4 * (thread() % 8);
        *reinterpret_cast<float4*>(&lds.tiles.d_output[row][at]) = x[0];
        *reinterpret_cast<float4*>(&lds.tiles.d_written[row][at]) = x[1];
        *reinterpret_cast<float4*>(&lds.tiles.written[row][at]) = x[2];
        if (row < chunk.count && column < p().value_head_dim) {
          of_value += store_values(row, column, x[1]);
        }
      }
      __syncthreads();
      multiply_pairs(dP, YV);
      const int steps = min(kValues, width - first) / 4;
#pragma unroll 1
      for (int s = 0; s < steps; ++s) {
        multiply_states(first + 4 * s, 4 * s, s % kChunkWaves == wave(), sums);
      }
    }
    of_value = sum_of_groups(of_value);
    if (row < C && thread() % 8 == 0) lds.of_value[row] = of_value;
    __syncthreads();  // the tiles make room
  }

  /// d_v = beta Y of four columns; Y . v of them.
  __device__ __forceinline__ float store_values(int row, int column, const float4& y) const {
    const std::int64_t token = chunk.token + row;
    const float Y[4] = {y.x, y.y, y.z, y.w};
    const float beta = lds.gates.beta[row];
    float d_v[4], product = 0.0f;
    with_element(p().token_element, [&](auto* type) {
      using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
      const auto v =
          load_packet<4>(p(), value_at<Token>(p(), token, arrays.head), column, p().value_head_dim);
#pragma unroll
      for (int e = 0; e < 4; ++e) product = fmaf(Y[e], to_float(v.x[e]), product);
    });
#pragma unroll
    for (int e = 0; e < 4; ++e) d_v[e] = beta * Y[e];
    store_columns(p(), output_index(p(), token, arrays.head, column), p().value_head_dim - column,
                  d_v);
    return product;
  }

  /// dO V'^T and Y V'^T, the tile's columns of them.
  __device__ __forceinline__ void multiply_pairs(float (&dP)[kEntries][kEntries],
                                                 float (&YV)[kEntries][kEntries]) const {
    using Elements = Packet<float, 4>;
    const auto at = [](const float(&rows)[C][kValues + 4], int i, int v) {
      return *reinterpret_cast<const Elements*>(&rows[i][v]);
    };
#pragma unroll 2
    for (int v = 0; v < kValues; v += 4) {
#pragma unroll
      for (int c = 0; c < kEntries; ++c) {
        const Elements written = at(lds.tiles.written, pair_column(c), v);
#pragma unroll
        for (int a = c; a < kEntries; ++a) {
          dP[a][c] = dot(at(lds.tiles.d_output, pair_row(a), v), written, dP[a][c]);
          YV[a][c] = dot(at(lds.tiles.d_written, pair_row(a), v), written, YV[a][c]);
        }
      }
    }
  }

  /// Four columns, `first` of the state and `at` of the tiles.
  __device__ __forceinline__ void multiply_states(int first, int at, bool with_product,
                                                  Sums& sums) const {
    const float* const state = arrays.states(params.state) + static_cast<std::int64_t>(first) * D;
    const float* const d_state =
        arrays.states(params.d_state) + static_cast<std::int64_t>(first) * D;
    Channels S[4], gradient[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      S[e] = channels(state + e * D);
      gradient[e] = channels(d_state + e * D);
    }
    if (with_product) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          sums.product = fmaf(S[e].x[k], gradient[e].x[k], sums.product);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = kRows * wave() + r;
      const auto dO = *reinterpret_cast<const Packet<float, 4>*>(&lds.tiles.d_output[i][at]);
      const auto Y = *reinterpret_cast<const Packet<float, 4>*>(&lds.tiles.d_written[i][at]);
      const auto V = *reinterpret_cast<const Packet<float, 4>*>(&lds.tiles.written[i][at]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          sums.of_query[r][k] = fmaf(dO.x[e], S[e].x[k], sums.of_query[r][k]);
          sums.of_key[r][k] = fmaf(Y.x[e], S[e].x[k], sums.of_key[r][k]);
          sums.of_d_state[r][k] = fmaf(V.x[e], gradient[e].x[k], sums.of_d_state[r][k]);
        }
      }
    }
  }

  /// dP * D_ij, N + N^T, what crosses tokens, and of d_beta what is by pairs.
  __device__ __forceinline__ void store_pairs(const float (&dP)[kEntries][kEntries],
                                              const float (&YV)[kEntries][kEntries]) const {
    const TwoTriangles<C>& pairs = arrays.pairs();
#pragma unroll
    for (int a = 0; a < kEntries; ++a) {
      float of_products = 0.0f;
      const int i = pair_row(a);
#pragma unroll
      for (int c = 0; c < kEntries; ++c) {
        const int j = pair_column(c);
        float of_scores = 0.0f, of_keys = 0.0f, crossing = 0.0f;
        if (j <= i) {
          const float between = decay_between(lds.gates, j, i);
          of_scores = between * dP[a][c];
          if (j < i) {
            const float beta = lds.gates.beta[i], of_L = -YV[a][c] * pairs.x[i][j];
            of_keys = -beta * between * YV[a][c];
            of_products += of_L;
            crossing = fmaf(pairs.x[j][i], dP[a][c], beta * of_L);
          }
          lds.of_keys[i][j] = lds.of_keys[j][i] = of_keys;
        }
        lds.of_scores[i][j] = lds.of_scores_transposed[j][i] = of_scores;
        lds.crossing[i][j] = crossing;
      }
      of_products = sum_in_last_lane<16>(of_products);
      if (thread() % 16 == 15) lds.of_products[i] = of_products;
    }
  }

  /// Rows times their factors; their products with the rows of a tile go to `products`.
  __device__ __forceinline__ void scale_and_multiply(const float (&factors)[C], const float* tile,
                                                     float (&rows)[kRows][kChannels],
                                                     float (&products)[C]) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = kRows * wave() + r;
      const Channels x = channels(tile + i * D);
      const float factor = factors[i];
      float product = 0.0f;
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        rows[r][k] *= factor;
        product = fmaf(x.x[k], rows[r][k], product);
      }
      product = DppSum::sum(product);
      if (lane() == 0) products[i] = product;
    }
  }

  /// The summands of d_q and d_k, of this wave's tokens.
  __device__ __forceinline__ void store_queries_and_keys(Sums& sums) const {
    const float* const query = arrays.query();
    const float* const key = arrays.key();
    scale_and_multiply(lds.gates.gamma, query, sums.of_query, lds.of_query);
    scale_and_multiply(lds.gates.gamma, key, sums.of_key, lds.of_written);
    scale_and_multiply(lds.gates.tail, key, sums.of_d_state, lds.of_d_state);
    const int first = kRows * wave();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float beta = lds.gates.beta[first + r];
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        sums.of_d_state[r][k] = fmaf(-beta, sums.of_key[r][k], sums.of_d_state[r][k]);
      }
    }
#pragma unroll 2
    for (int j = 0; j < C; ++j) {
      const Channels K = channels(key + j * D), Q = channels(query + j * D);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float of_query = lds.of_scores_transposed[j][first + r];
        const float of_later = lds.of_scores[j][first + r], of_key = lds.of_keys[j][first + r];
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          float& d_k = sums.of_d_state[r][k];
          sums.of_query[r][k] = fmaf(of_query, K.x[k], sums.of_query[r][k]);
          d_k = fmaf(of_later, Q.x[k], fmaf(of_key, K.x[k], d_k));
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= chunk.count) continue;
      float* const parts = b().key_parts + 2 * row_of_parts(first + r) * b().key_width;
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        const int at = kChannels * lane() + k;
        if (at < b().key_width) {
          parts[at] = p().scale * sums.of_query[r][k];
          parts[b().key_width + at] = sums.of_d_state[r][k];
        }
      }
    }
  }

  /// The rows of `crossing` to their sums over the tokens before each.
  __device__ __forceinline__ void sum_crossing() const {
    if (thread() >= C) return;
    float row[C], sum = 0.0f;
#pragma unroll
    for (int j = 0; j < C; ++j) row[j] = lds.crossing[thread()][j];
#pragma unroll
    for (int j = 0; j < C; ++j) {
      lds.crossing[thread()][j] = sum;
      sum += row[j];
    }
  }

  /// A lane for each token.
  __device__ __forceinline__ void store_gates() const {
    const int t = thread();
    if (t >= chunk.count) return;
    float d_log_decay = 0.0f;
#pragma unroll
    for (int w = 0; w < kChunkWaves; ++w) d_log_decay += lds.wave_sums[w];
    d_log_decay *= lds.gates.gamma[C - 1];
#pragma unroll 4
    for (int i = 0; i < C; ++i) {
      const float from_t =
          fmaf(-lds.gates.beta[i], lds.of_written[i], lds.of_query[i]) + lds.crossing[i][t];
      d_log_decay += i >= t ? from_t : lds.of_d_state[i];
    }
    float* const parts = b().gate_parts + 2 * row_of_parts(t);
    parts[1] = lds.of_value[t] - lds.of_written[t] + lds.of_products[t];
    if (p().gate_encoding != GateEncoding::decay) {
      parts[0] = d_log_decay;
      return;
    }
    const float decay = decay_of(p(), chunk.token + t, arrays.head);
    if (decay >= kLeastDivisor) parts[0] = d_log_decay / decay;
  }

  /// <S before the token, D behind its decay>, of decays too small to divide by.
  __device__ __forceinline__ void store_small_decays() const {
#pragma unroll 1
    for (int t = 0; t < chunk.count; ++t) {
      if (decay_of(p(), chunk.token + t, arrays.head) >= kLeastDivisor) continue;
      __syncthreads();  // those of the token before have been read
      if (thread() < C) {
        const int i = thread();
        lds.before[i] = i < t ? decay_between(lds.gates, i, t - 1) : 0.0f;
        lds.behind[i] = i >= t ? decay_between(lds.gates, t, i) : 0.0f;
      }
      __syncthreads();
      const float product = DppSum::sum(product_around(t));
      if (lane() == 0) lds.wave_sums[wave()] = product;
      __syncthreads();
      if (thread() != 0) continue;
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kChunkWaves; ++w) sum += lds.wave_sums[w];
      b().gate_parts[2 * row_of_parts(t)] = sum;
    }
  }
  /// This wave's columns and this lane's channels of it.
  __device__ __forceinline__ float product_around(int t) const {
    const int width = params.value_width;
    const float from_start = t > 0 ? lds.gates.gamma[t - 1] : 1.0f, to_end = lds.gates.tail[t];
    float product = 0.0f;
#pragma unroll 1
    for (int v = wave(); v < width; v += kChunkWaves) {
      Channels S = channels(arrays.states(params.state) + static_cast<std::int64_t>(v) * D);
      Channels gradient =
          channels(arrays.states(params.d_state) + static_cast<std::int64_t>(v) * D);
#pragma unroll
      for (int k = 0; k < kChannels; ++k) {
        S.x[k] *= from_start;
        gradient.x[k] *= to_end;
      }
#pragma unroll 1
      for (int i = 0; i < chunk.count; ++i) {
        const Channels K = channels(arrays.key() + i * D), Q = channels(arrays.query() + i * D);
        const int at = i * width + v;
        const float written = lds.before[i] * arrays.values(params.written)[at];
        const float of_query = lds.behind[i] * arrays.values(params.d_output)[at];
        const float of_key =
            -lds.behind[i] * lds.gates.beta[i] * arrays.values(params.d_written)[at];
#pragma unroll
        for (int k = 0; k < kChannels; ++k) {
          S.x[k] = fmaf(written, K.x[k], S.x[k]);
          gradient.x[k] = fmaf(of_query, Q.x[k], fmaf(of_key, K.x[k], gradient.x[k]));
        }
      }
#pragma unroll
      for (int k = 0; k < kChannels; ++k) product = fmaf(S.x[k], gradient.x[k], product);
    }
    return product;
  }
};

/// Of a padding sequence's chunk.
__device__ __forceinline__ void store_zero_gradients(const BackwardParams& b,
                                                     const SlotChunk& chunk, int head) {
  const GatedDeltaParams& p = b.delta;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 0; i < chunk.count; ++i) {
    const std::int64_t token = chunk.token + i, row = token * p.num_value_heads + head;
    for (int v = thread; v < p.value_head_dim; v += kChunkThreads) {
      store_element(p.output, p.output_element, output_index(p, token, head, v), 0.0f);
    }
    for (int k = thread; k < 2 * b.key_width; k += kChunkThreads) {
      b.key_parts[2 * row * b.key_width + k] = 0.0f;
    }
    if (thread < 2) b.gate_parts[2 * row + thread] = 0.0f;
  }
}

/// Grid: x = slot, y = value head.
template <int D, int C>
__device__ __forceinline__ void gradients(const BackwardChunkParams& params) {
  GDN_LDS(lds, GradientLds<C>);
  const GatedDeltaParams& p = params.backward.delta;
  const int head = static_cast<int>(blockIdx.y);
  const SlotChunk chunk = chunk_of_slot<C>(p, blockIdx.x);
  if (chunk.count == 0) return;
  if (span_of(p, chunk.sequence).row < 0) {
    store_zero_gradients(params.backward, chunk, head);
    return;
  }
  Gradients<D, C>{params, lds, chunk, {params, blockIdx.x, head}}.run();
}

}  // namespace

// backward_<step>_<chunk>_<rows>; of `at_once` workgroups a CU has registers for each
#define GDN_BACKWARD_STEP(step, at_once, chunk, dk)                                          \
  extern "C" __global__ __launch_bounds__(                                                   \
      kChunkThreads, at_once) void backward_##step##_##chunk##_##dk(BackwardChunkParams p) { \
    step<dk, chunk>(p);                                                                      \
  }
#define GDN_BACKWARD_CHUNKS(chunk, dk)     \
  GDN_BACKWARD_STEP(prepare, 1, chunk, dk) \
  GDN_BACKWARD_STEP(chains, 1, chunk, dk)  \
  GDN_BACKWARD_STEP(gradients, 2, chunk, dk)

GDN_BACKWARD_CHUNKS(16, 64)
GDN_BACKWARD_CHUNKS(16, 128)
GDN_BACKWARD_CHUNKS(16, 256)
GDN_BACKWARD_CHUNKS(32, 64)
GDN_BACKWARD_CHUNKS(32, 128)

}  // namespace gdn::hip
