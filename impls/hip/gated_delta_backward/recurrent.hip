// hip/recurrent of gated_delta_backward: the gradients one token at a time, in registers.
//
// With R = alpha S, r = v - R^T k, S' = R + beta k r^T, o = scale S'^T q of a token, and D the
// gradient with respect to S', from the last token to the first (docs/contract.md, section 1.4):
//
//     D <- D + scale q d_o^T;   d_q = scale S' d_o;   w = D^T k;   d_beta = w . r;   d_v = beta w
//     d_k = beta (D r - R w);   D <- D - beta k w^T;  d_decay = <S, D>;  D <- alpha D
//
// and d_log_decay is alpha d_decay. Columns of S and of D depend on no other columns: a workgroup of
// 64 lanes takes 32 of a head's (state_tile.h) and walks its sequence. Sums over rows (r and w) are
// three DPP steps. Sums over columns (d_q, d_k) go through LDS, where each lane adds its rows of the
// eight column sets, and to the workspace as summands of this tile of columns (sums.hip).
//
// S is needed in reverse, and going back by dividing by alpha would amplify every rounding. So S is
// kept at every L-th token, and each segment of L tokens is run once more from there, with the S and
// r of each of its tokens kept. D is in the workspace meanwhile: S and D together would be all
// registers at 256 rows. All states there lie as registers hold them.
//
// Workspace. Workgroups are at most kMostBlocks and take tile after tile, each with room for one
// segment. A sequence of n tokens keeps (n - 1) / L states between segments, which have the places
// of its own tokens, one for each L of the batch. L is the power of two that makes these and the
// segments' about the same number: no division, whose approximate reciprocal could be an ulp off.
// Summands of d_q and d_k are 8 Dk bytes for each token, head and tile.
//
// Bound by: VALU issue, some 15 instructions for each element of the state and token, and, as a wave
// at a time runs on each SIMD, by the latency of the states that are read again.
// Modelled, not measured (gdnbench bench --op gated_delta_backward --device gfx906-emulator --heads
// 16/32 --dim 128 --h0 normal), float32: 256 tokens 2.09 ms, eight sequences of 16 tokens 1.24 ms.
//
// Dk up to 256, any Dv.
#include "hip/gated_delta/recurrent_device.h"
#include "hip/gated_delta_backward/params.h"

namespace gdn::hip {
namespace {

template <int D>
using Tile = StateTile<D, kColumnsThreads / kWave>;
constexpr int kColumnSets = kColumnsThreads / 8;  ///< of four columns: lanes that share rows

/// Of a token's summands, of two each.
__device__ __forceinline__ std::int64_t row_of_parts(const BackwardParams& b, int tile,
                                                     std::int64_t token, int head) {
  return (tile * b.tokens + token) * b.delta.num_value_heads + head;
}

/// What the lanes of a workgroup hand to each other.
template <int D>
struct Shared {
  // The token at hand, zeros beyond Dk and Dv.
  float query[D], key[D];
  float columns[kColumns];  ///< v forwards, d_output backwards
  // Sums over columns, on their way.
  float rows[kColumnSets][2 * D];  ///< d_q, d_k
  float scalars[kColumnSets][2];   ///< d_decay, d_beta
};

/// What a lane loads of a token ahead of its use, as it lies in memory: forwards without the query.
template <typename Token, int D>
struct Ahead {
  static constexpr int kRows = D / kColumnsThreads;
  Packet<Token, 1> query[kRows], key[kRows];  ///< rows threadIdx.x + 64 r
  Packet<Token, 1> column;                    ///< threadIdx.x % 32 of v or of d_output
  float gate, beta;                           ///< as given

  /// Asks for it: elements beyond Dk and Dv are the first of their rows.
  template <bool back>
  __device__ __forceinline__ void load(const BackwardParams& b, std::int64_t token, int head,
                                       int key_head, int first_column) {
    const GatedDeltaParams& p = b.delta;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const unsigned k = threadIdx.x + kColumnsThreads * r;
      const bool inside = k < static_cast<unsigned>(p.key_head_dim);
      if (back)
        query[r] = load_inside_or_first<Token, 1>(inside, query_at<Token>(p, token, key_head), k);
      key[r] = load_inside_or_first<Token, 1>(inside, key_at<Token>(p, token, key_head), k);
    }
    const Token* const values = back ? static_cast<const Token*>(b.d_output) +
                                           token * b.d_output_token_stride + head * p.value_head_dim
                                     : value_at<Token>(p, token, head);
    const unsigned at = first_column + threadIdx.x % kColumns;
    column =
        load_inside_or_first<Token, 1>(at < static_cast<unsigned>(p.value_head_dim), values, at);
    gate = p.gate[token * p.gate_token_stride + head];
    beta = p.beta[token * p.beta_token_stride + head];
  }
  /// Waits for it, and hands it to the workgroup.
  template <bool back>
  __device__ __forceinline__ void stage(const GatedDeltaParams& p, int first_column,
                                        Shared<D>& shared) const {
    __syncthreads();  // the token before has been read
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const unsigned k = threadIdx.x + kColumnsThreads * r;
      const bool inside = k < static_cast<unsigned>(p.key_head_dim);
      if (back) shared.query[k] = inside ? to_float(query[r].x[0]) : 0.0f;
      shared.key[k] = inside ? to_float(key[r].x[0]) : 0.0f;
    }
    const unsigned at = threadIdx.x % kColumns;
    const bool inside = first_column + at < static_cast<unsigned>(p.value_head_dim);
    if (threadIdx.x < kColumns) shared.columns[at] = inside ? to_float(column.x[0]) : 0.0f;
    __syncthreads();
  }
};

/// A tile of columns of a sequence's head.
template <typename Token, int D>
struct Walk {
  using State = Tile<D>;
  /// Rows of a state are on their way during the arithmetic of the 32 before them, where there are
  /// registers for both.
  static constexpr bool kRowsAhead = D <= 128;
  static constexpr int kTokenFloats = State::kElements + 4 * kColumnsThreads;

  const BackwardParams& b;
  Shared<D>& shared;
  unsigned item;
  int head, tile;

  __device__ __forceinline__ int first_column() const { return tile * kColumns; }
  __device__ __forceinline__ int segment() const { return 1 << b.segment_log2; }
  __device__ __forceinline__ int key_head() const { return key_head_of(b.delta, head); }

  __device__ __forceinline__ void run(const Span& span) const {
    if (span.row < 0) return;  // load_states() has stored zeros
    const int tokens = static_cast<int>(span.length);
    const int last = (tokens - 1) >> b.segment_log2;  // -1 without tokens
    // Forwards through all segments but the last one, and from that one back to the first.
#pragma unroll 1
    for (int visit = 0; visit <= 2 * last; ++visit) {
      const bool back = visit >= last;
      const int s = back ? 2 * last - visit : visit;
      const std::int64_t first = span.first + (static_cast<std::int64_t>(s) << b.segment_log2);
      const int length = min(segment(), tokens - (s << b.segment_log2));
      {
        State state;
        load(s == 0 ? b.initial : b.checkpoints, s == 0 ? of_item() : checkpoint(span.first, s),
             state);
        run_forward(first, length, back, state);
        // In front of a walk back nobody reads it: stored in one of two branches it would be in
        // registers during the other.
        store(back ? b.kept : b.checkpoints,
              back ? kept_state(length) : checkpoint(span.first, s + 1), state);
      }
      if (back) {
        compiler_fence();
        State gradient;
        load(b.gradient, of_item(), gradient);
        run_back(first, length, gradient);
        store(b.gradient, of_item(), gradient);
      }
    }
  }

 private:
  // ---- the workspace, by where in its arrays something lies

  __device__ __forceinline__ std::int64_t of_item() const {
    return static_cast<std::int64_t>(item) * State::kElements;
  }
  /// The state before segment s > 0 of a sequence that begins with token `first`.
  __device__ __forceinline__ std::int64_t checkpoint(std::int64_t first, int s) const {
    const std::int64_t at = (first >> b.segment_log2) + s - 1;
    return ((at * b.delta.num_value_heads + head) * b.tiles + tile) * State::kElements;
  }
  /// The state before token t of the segment, and behind it r of each lane's columns; lanes that
  /// share columns have the same bits.
  __device__ __forceinline__ std::int64_t kept_state(int t) const {
    return (static_cast<std::int64_t>(blockIdx.x) * (segment() + 1) + t) * kTokenFloats;
  }
  __device__ __forceinline__ float4& kept_r(int t) const {
    return lane_row(b.kept + uniform(kept_state(t) + State::kElements), 0);
  }
  /// As StateTile::store_registers() has them: rows 32 j + 4 group + r, from the first of the 32.
  static __device__ __forceinline__ float4& lane_row(float* rows, int r) {
    return reinterpret_cast<float4*>(rows)[kColumnsThreads * r + threadIdx.x];
  }
  __device__ __forceinline__ void rows_before(int t, int j, float4 (&rows)[4]) const {
    float* const from = rows_at(b.kept, kept_state(t), j);
#pragma unroll
    for (int r = 0; r < 4; ++r) rows[r] = lane_row(from, r);
  }
  /// From these 32 on a row is one access with a scalar base: elsewhere each would have an address
  /// of its own, of two vector registers.
  static __device__ __forceinline__ float* rows_at(float* array, std::int64_t at, int j) {
    return array + uniform(at + j * 32 * kColumns);
  }
  static __device__ __forceinline__ void load(float* array, std::int64_t at, State& x) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      float* const rows = rows_at(array, at, j);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float4 row = lane_row(rows, r);
        x.s[j][r][0] = row.x;
        x.s[j][r][1] = row.y;
        x.s[j][r][2] = row.z;
        x.s[j][r][3] = row.w;
      }
    }
  }
  static __device__ __forceinline__ void store(float* array, std::int64_t at, const State& x) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      float* const rows = rows_at(array, at, j);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        lane_row(rows, r) = make_float4(x.s[j][r][0], x.s[j][r][1], x.s[j][r][2], x.s[j][r][3]);
      }
    }
  }

  // ---- a segment

  template <bool back>
  __device__ __forceinline__ void ask_for(std::int64_t token, Ahead<Token, D>& ahead) const {
    ahead.template load<back>(b, token, head, key_head(), first_column());
  }
  /// Rows 32 j + 4 group + 0..3 of the query or key at hand.
  __device__ __forceinline__ static Packet<float, 4> rows_of(const float (&x)[D], int j) {
    return *reinterpret_cast<const Packet<float, 4>*>(&x[32 * j + 4 * tile_thread().group]);
  }
  /// What it is multiplied by.
  __device__ __forceinline__ float factor_of(const float (&x)[D]) const {
    if (b.delta.normalize_qk == 0) return 1.0f;
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      compiler_fence();
      const Packet<float, 4> four = rows_of(x, j);
#pragma unroll
      for (int i = 0; i < 4; ++i) squares = fmaf(four.x[i], four.x[i], squares);
    }
    return 1.0f / sqrtf(sum_of_groups(squares) + kNormEpsilon);
  }
  /// The lane's four.
  __device__ __forceinline__ float4 columns_at_hand() const {
    return *reinterpret_cast<const float4*>(&shared.columns[tile_thread().column]);
  }
  /// A full reset forgets whatever there was, infinities included.
  static __device__ __forceinline__ void decay_state(float alpha, State& state) {
    const bool reset = alpha == 0.0f;
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        float& x = state.s[j][i / 4][i % 4];
        x = reset ? 0.0f : alpha * x;
      }
    }
  }

  /// From the state before `length` tokens to the one behind them. The states before each of them are
  /// kept where the walk back follows.
  __device__ __forceinline__ void run_forward(std::int64_t first, int length, bool keep,
                                              State& state) const {
    const GatedDeltaParams& p = b.delta;
    const HeadGates gates = head_gates(p, head);
    Ahead<Token, D> ahead;
    ask_for<false>(first, ahead);
#pragma unroll 1
    for (int t = 0; t < length; ++t) {
      if (keep) store(b.kept, kept_state(t), state);
      ahead.template stage<false>(p, first_column(), shared);
      const float alpha = decay_from(p, gates, ahead.gate), beta = beta_from(p, ahead.beta);
      if (t + 1 < length) ask_for<false>(uniform(first + t + 1), ahead);
      const float key_factor = factor_of(shared.key);
      decay_state(alpha, state);
      const float4 values = columns_at_hand();
      const float v[4] = {values.x, values.y, values.z, values.w};
      float predicted[4] = {}, r[4], correction[4];
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        compiler_fence();
        state.add_product(j, rows_of(shared.key, j), predicted);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        r[e] = v[e] - key_factor * sum_of_groups(predicted[e]);
        correction[e] = beta * r[e] * key_factor;
      }
      if (keep) kept_r(t) = make_float4(r[0], r[1], r[2], r[3]);
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        compiler_fence();
        state.add_outer_product(j, rows_of(shared.key, j), correction);
      }
    }
  }

  __device__ __forceinline__ void run_back(std::int64_t first, int length, State& gradient) const {
    const GatedDeltaParams& p = b.delta;
    const HeadGates gates = head_gates(p, head);
    Ahead<Token, D> ahead;
    ask_for<true>(first + length - 1, ahead);
#pragma unroll 1
    for (int t = length - 1; t >= 0; --t) {
      ahead.template stage<true>(p, first_column(), shared);
      const float alpha = decay_from(p, gates, ahead.gate), beta = beta_from(p, ahead.beta);
      if (t > 0) ask_for<true>(uniform(first + t - 1), ahead);
      step_back(uniform(first + t), t, alpha, beta, gradient);
      decay_state(alpha, gradient);
    }
  }

  /// A token, which is number t of its segment, up to the decay of D.
  __device__ __forceinline__ void step_back(std::int64_t token, int t, float alpha, float beta,
                                            State& gradient) const {
    const GatedDeltaParams& p = b.delta;
    const TileThread thread = tile_thread();
    const int set = static_cast<int>(threadIdx.x) / 8;
    const float query_factor = factor_of(shared.query), key_factor = factor_of(shared.key);
    const float4 d_output = columns_at_hand();
    const float of_output[4] = {d_output.x, d_output.y, d_output.z, d_output.w};
    float d_o[4], of_query[4], w[4] = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d_o[e] = p.scale * of_output[e];
      of_query[e] = query_factor * d_o[e];
    }
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      compiler_fence();
      gradient.add_outer_product(j, rows_of(shared.query, j), of_query);
      gradient.add_product(j, rows_of(shared.key, j), w);
    }

    const float4 kept = kept_r(t);
    const float r[4] = {kept.x, kept.y, kept.z, kept.w};
    // Of the key as it came: what normalises it is in beta k r^T and in beta k w^T.
    float d_v[4], written[4], taken[4];
    float d_beta = 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      w[e] = key_factor * sum_of_groups(w[e]);
      d_beta = fmaf(w[e], r[e], d_beta);
      d_v[e] = beta * w[e];
      written[e] = beta * r[e] * key_factor;
      taken[e] = -d_v[e] * key_factor;
    }
    store_d_value(token, d_v);

    const bool reset = alpha == 0.0f;
    float d_decay = 0.0f;
    float4 next[4];
    if (kRowsAhead) rows_before(t, 0, next);
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      float4 before[4] = {next[0], next[1], next[2], next[3]};
      if (!kRowsAhead) rows_before(t, j, before);
      if (kRowsAhead && j + 1 < D / 32) rows_before(t, j + 1, next);
      // Those of 32 rows on their way are enough: all at once there would be no registers for them.
      compiler_fence();
      float d_q[4], d_k[4];
      const Packet<float, 4> key = rows_of(shared.key, j);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float S[4] = {before[i].x, before[i].y, before[i].z, before[i].w};
        const float k = key.x[i];
        d_q[i] = d_k[i] = 0.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& d = gradient.s[j][i][e];
          const float R = reset ? 0.0f : alpha * S[e];
          d_q[i] = fmaf(fmaf(k, written[e], R), d_o[e], d_q[i]);
          d_k[i] = fmaf(d, r[e], fmaf(-R, w[e], d_k[i]));
          d = fmaf(k, taken[e], d);
          d_decay = fmaf(S[e], d, d_decay);
        }
        d_k[i] *= beta;
      }
      const int k = 32 * j + 4 * thread.group;
      *reinterpret_cast<float4*>(&shared.rows[set][k]) =
          make_float4(d_q[0], d_q[1], d_q[2], d_q[3]);
      *reinterpret_cast<float4*>(&shared.rows[set][D + k]) =
          make_float4(d_k[0], d_k[1], d_k[2], d_k[3]);
    }
    d_decay = sum_of_groups(d_decay);
    if (p.gate_encoding != GateEncoding::decay) d_decay = reset ? 0.0f : alpha * d_decay;
    if (thread.group == 0) {
      shared.scalars[set][0] = d_decay;
      shared.scalars[set][1] = d_beta;
    }
    __syncthreads();
    store_sums(token);
  }

  /// By a lane of each column.
  __device__ __forceinline__ void store_d_value(std::int64_t token, const float (&d_v)[4]) const {
    const TileThread thread = tile_thread();
    const int at = first_column() + thread.column + thread.group;
    if (thread.group >= 4 || at >= b.delta.value_head_dim) return;
    float x = d_v[0];
#pragma unroll
    for (int e = 1; e < 4; ++e) x = thread.group == e ? d_v[e] : x;
    store_as(static_cast<Token*>(b.delta.output) + output_index(b.delta, token, head, at), x);
  }

  /// Of a token whose sums all lanes have written: the tile's, in the order of the column sets.
  __device__ __forceinline__ void store_sums(std::int64_t token) const {
    const int thread = static_cast<int>(threadIdx.x);
    const std::int64_t row = row_of_parts(b, tile, token, head);
#pragma unroll
    for (int first = 0; first < 2 * D; first += 4 * kColumnsThreads) {
      const int at = first + 4 * thread, k = at % D;
      if (at < 2 * D && k < b.key_width) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int set = 0; set < kColumnSets; ++set) {
          const float4 x = *reinterpret_cast<const float4*>(&shared.rows[set][at]);
          sum.x += x.x;
          sum.y += x.y;
          sum.z += x.z;
          sum.w += x.w;
        }
        *reinterpret_cast<float4*>(b.key_parts + (2 * row + at / D) * b.key_width + k) = sum;
      }
    }
    if (thread < 2) {
      float sum = 0.0f;
#pragma unroll
      for (int set = 0; set < kColumnSets; ++set) sum += shared.scalars[set][thread];
      b.gate_parts[2 * row + thread] = sum;
    }
  }
};

/// Which tile of columns: of sequence 0 head 0, then of its other heads, then of the next sequence.
struct Item {
  int sequence = 0, head = 0, tile = 0;

  /// Without a division.
  __device__ __forceinline__ void advance(const BackwardParams& b, unsigned items) {
    tile += static_cast<int>(items);
    for (; tile >= b.tiles; tile -= b.tiles) ++head;
    for (; head >= b.delta.num_value_heads; head -= b.delta.num_value_heads) ++sequence;
  }
};

/// Tile after tile.
template <typename Token, int D>
__device__ __forceinline__ void walk_back(const BackwardParams& b) {
  GDN_LDS(shared, Shared<D>);
  Item item;
  item.advance(b, blockIdx.x);
  for (unsigned i = blockIdx.x; i < b.items; i += b.blocks) {
    Walk<Token, D>{b, shared, i, item.head, item.tile}.run(span_of(b.delta, item.sequence));
    item.advance(b, b.blocks);
  }
}

// Pools to the workspace and back, a tile of columns by a workgroup. In the walk their addresses
// would be all registers: the compiler computes them once, in front of its loops.
// Grid: x = tiles of 32 columns, y = value head, z = sequence.

/// Of a padding sequence: every gradient of its tokens.
__device__ __forceinline__ void store_zeros(const BackwardParams& b, const Item& item,
                                            const Span& span) {
  const GatedDeltaParams& p = b.delta;
  const int thread = static_cast<int>(threadIdx.x);
  const int column = item.tile * kColumns + thread;
  for (std::int64_t token = span.first; token < span.first + span.length; ++token) {
    const std::int64_t row = row_of_parts(b, item.tile, token, item.head);
    if (thread < kColumns && column < p.value_head_dim) {
      store_element(p.output, p.output_element, output_index(p, token, item.head, column), 0.0f);
    }
    for (int k = thread; k < 2 * b.key_width; k += kColumnsThreads) {
      b.key_parts[2 * row * b.key_width + k] = 0.0f;
    }
    if (thread < 2) b.gate_parts[2 * row + thread] = 0.0f;
  }
}

__device__ __forceinline__ Item item_of_workgroup() {
  return {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)};
}
template <int D>
__device__ __forceinline__ std::int64_t place_of(const BackwardParams& b, const Item& item) {
  const std::int64_t head = std::int64_t{item.sequence} * b.delta.num_value_heads + item.head;
  return (head * b.tiles + item.tile) * Tile<D>::kElements;
}

template <int D>
__device__ __forceinline__ void load_states(const BackwardParams& b) {
  const Item item = item_of_workgroup();
  const Span span = span_of(b.delta, item.sequence);
  if (span.row < 0) return store_zeros(b, item, span);
  const std::int64_t at = place_of<D>(b, item);
  Tile<D> state;
  if (span.length > 0) {
    state.load_pool(b.delta, span.row, item.head, item.tile * kColumns);
    state.store_registers(b.initial + at);
  }
  GatedDeltaParams d_final = b.delta;
  d_final.state_pool = const_cast<void*>(b.d_final_state);
  d_final.read_state = b.read_final_gradient;
  state.load_pool(d_final, span.row, item.head, item.tile * kColumns);
  state.store_registers(b.gradient + at);
}

template <int D>
__device__ __forceinline__ void store_states(const BackwardParams& b) {
  const Item item = item_of_workgroup();
  const Span span = span_of(b.delta, item.sequence);
  if (span.row < 0) return;
  Tile<D> state;
  state.load_registers(b.gradient + place_of<D>(b, item));
  GatedDeltaParams d_initial = b.delta;
  d_initial.state_pool = b.d_initial_state;
  d_initial.write_state = 1;
  state.store_pool(d_initial, span.row, item.head, item.tile * kColumns);
}

}  // namespace

// backward_load_<rows>, backward_walk_<rows>_<token>, backward_store_<rows>
#define GDN_BACKWARD_STATES(dk)                                                      \
  extern "C" __global__ __launch_bounds__(kColumnsThreads) void backward_load_##dk(  \
      BackwardParams b) {                                                            \
    load_states<dk>(b);                                                              \
  }                                                                                  \
  extern "C" __global__ __launch_bounds__(kColumnsThreads) void backward_store_##dk( \
      BackwardParams b) {                                                            \
    store_states<dk>(b);                                                             \
  }
GDN_BACKWARD_STATES(64)
GDN_BACKWARD_STATES(128)
GDN_BACKWARD_STATES(256)

#define GDN_BACKWARD(dk, suffix, Token)                                                        \
  extern "C" __global__ __launch_bounds__(kColumnsThreads) void backward_walk_##dk##_##suffix( \
      BackwardParams b) {                                                                      \
    walk_back<Token, dk>(b);                                                                   \
  }
#define GDN_BACKWARD_DIMS(suffix, Token) \
  GDN_BACKWARD(64, suffix, Token)        \
  GDN_BACKWARD(128, suffix, Token)       \
  GDN_BACKWARD(256, suffix, Token)

GDN_BACKWARD_DIMS(f32, float)
GDN_BACKWARD_DIMS(f16, Half)
GDN_BACKWARD_DIMS(bf16, Bfloat16)

}  // namespace gdn::hip
