// hip/recurrent: the token recurrence with the state in registers. Three versions, which differ in
// how the lanes of a wave share the state, and so in what a sum over its rows costs:
//     shuffle   64 lanes share the rows of one column; butterfly of shuffles, which this card
//               sends through the LDS crossbar: six dependent steps
//     dpp       the same, lane moves inside the VALU and one readlane
//     columns   8 lanes share the rows of four columns, 32 columns a wave (state_tile.h): three DPP
//               steps for the sums of all of them, and each element of k and q serves four columns
//
// The decay is folded in: with P = S before the token, predicted = decay * (P^T k).
//
// Bound by: in shuffle and dpp, the latency of the chain load -> dot -> sum -> update -> dot ->
// sum, once per token. In columns, VALU issue on long sequences (256 multiply-adds and the like per
// token and wave at Dk = 128) and memory traffic in decode, where every element of the pool moves
// once in and once out, in whole cache lines.
// Modelled, not measured (gdnbench bench --device gfx906-emulator --heads 16/32 --dim 128 --h0
// normal): 256 tokens 0.398 ms in float32 and 0.396 ms in float16, eight sequences of one token
// 0.052 ms. With four columns of whole rows to a wave and no load ahead of its use it was 0.549 ms,
// 0.787 ms and 0.325 ms.
//
// Dk up to 256, any Dv; columns where Dk is at most 128 and everything lies in packets (params.h),
// its plan runs dpp elsewhere.
#include "hip/gated_delta/state_tile.h"

namespace gdn::hip {
namespace {

constexpr int kWaves = 256 / kWave;  ///< of a workgroup, a column each
constexpr int kColumnsThreads = 64;  ///< of a workgroup of `columns`
constexpr int kColumns = kColumnsThreads / 2;

/// Grid: x = tiles of kWaves state columns, y = value head, z = sequence. rows = ceil(Dk/64).
template <typename Token, int rows, typename Sum>
__device__ __forceinline__ void recurrent(const GatedDeltaParams& p) {
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x) % kWave;
  // The wave number as a scalar: everything derived from it stays in scalar registers.
  const int wave = uniform(static_cast<int>(threadIdx.x) / kWave);
  const int column = static_cast<int>(blockIdx.x) * kWaves + wave;
  const int key_head = key_head_of(p, head);
  const Span span = span_of(p, sequence);
  const int Dk = p.key_head_dim, Dv = p.value_head_dim;
  if (column >= Dv || span.length == 0) return;
  const std::int64_t end = span.first + span.length;
  if (span.row < 0) {
    for (std::int64_t token = span.first + lane; token < end; token += kWave) {
      store_element(p.output, p.output_element, output_index(p, token, head, column), 0.0f);
    }
    return;
  }

  float state[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
    state[r] = k < Dk ? load_state(p, span.row, head, k, column) : 0.0f;
  }

  for (std::int64_t token = span.first; token < end; ++token) {
    float query[rows], key[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int k = lane + kWave * r;
      query[r] = k < Dk ? to_float(query_at<Token>(p, token, key_head)[k]) : 0.0f;
      key[r] = k < Dk ? to_float(key_at<Token>(p, token, key_head)[k]) : 0.0f;
    }
    float query_factor = p.scale;
    if (p.normalize_qk != 0) {
      float query_squares = 0.0f, key_squares = 0.0f;
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        query_squares = fmaf(query[r], query[r], query_squares);
        key_squares = fmaf(key[r], key[r], key_squares);
      }
      query_factor = p.scale / sqrtf(Sum::sum(query_squares) + kNormEpsilon);
      const float key_factor = 1.0f / sqrtf(Sum::sum(key_squares) + kNormEpsilon);
#pragma unroll
      for (int r = 0; r < rows; ++r) key[r] *= key_factor;
    }
    const float decay = decay_of(p, token, head), beta = beta_of(p, token, head);
    const float value = to_float(value_at<Token>(p, token, head)[column]);
    float predicted = 0.0f;
#pragma unroll
    for (int r = 0; r < rows; ++r) predicted = fmaf(state[r], key[r], predicted);
    const float correction = beta * (value - decay * Sum::sum(predicted));
    float output = 0.0f;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      state[r] = fmaf(key[r], correction, state[r] * decay);
      output = fmaf(state[r], query[r], output);
    }
    output = Sum::sum(output);
    if (lane == 0) {
      store_element(p.output, p.output_element, output_index(p, token, head, column),
                    output * query_factor);
    }
  }

#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
    if (k < Dk) store_state(p, span.row, head, k, column, state[r]);
  }
}

/// One token as a lane of `columns` holds it.
template <typename Token, int D>
struct LaneToken {
  Packet<Token, 4> query[D / 32], key[D / 32];  ///< rows 32 j + 4 group + 0..3
  Packet<Token, 4> value;                       ///< the lane's columns
  float gate, beta;                             ///< as given

  static __device__ __forceinline__ int row(int j) { return 32 * j + 4 * tile_thread().group; }

  /// Asks for it: elements beyond Dk and Dv are others of the same rows.
  __device__ __forceinline__ void load(const GatedDeltaParams& p, std::int64_t token, int head,
                                       int key_head, int column) {
    const Token* const queries = query_at<Token>(p, token, key_head);
    const Token* const keys = key_at<Token>(p, token, key_head);
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const int k = row(j);
      const bool inside = k < p.key_head_dim;
      query[j] = load_inside_or_first<Token, 4>(inside, queries, static_cast<unsigned>(k));
      key[j] = load_inside_or_first<Token, 4>(inside, keys, static_cast<unsigned>(k));
    }
    value = load_inside_or_first<Token, 4>(
        column < p.value_head_dim, value_at<Token>(p, token, head), static_cast<unsigned>(column));
    gate = p.gate[token * p.gate_token_stride + head];
    beta = p.beta[token * p.beta_token_stride + head];
  }
  /// Waits for it: the same with zeros beyond Dk.
  __device__ __forceinline__ LaneToken arrived(const GatedDeltaParams& p) const {
    LaneToken token;
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const bool inside = row(j) < p.key_head_dim;
      token.query[j] = zero_outside(inside, query[j]);
      token.key[j] = zero_outside(inside, key[j]);
    }
    token.value = value;
    token.gate = gate;
    token.beta = beta;
    return token;
  }
};

template <typename Token, int D>
__device__ __forceinline__ float sum_of_squares(const Packet<Token, 4> (&x)[D / 32]) {
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < D / 8; ++i) {
    const float element = to_float(x[i / 4].x[i % 4]);
    squares = fmaf(element, element, squares);
  }
  return sum_of_groups(squares);
}

/// For problems in packets. Grid: x = tiles of 32 state columns, y = value head, z = sequence.
template <typename Token, int D>
__device__ __forceinline__ void recurrent_columns(const GatedDeltaParams& p) {
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const int key_head = key_head_of(p, head);
  const TileThread thread = tile_thread();
  const int column = first_column + thread.column;
  const Span span = span_of(p, sequence);
  const std::int64_t end = span.first + span.length;
  if (span.length == 0) return;
  if (span.row < 0) {
    const float zeros[4] = {};
    for (std::int64_t token = span.first + thread.group; token < end; token += 8) {
      if (column < p.value_head_dim) {
        store_columns(p, output_index(p, token, head, column), p.value_head_dim - column, zeros);
      }
    }
    return;
  }

  const HeadGates gates = head_gates(p, head);
  LaneToken<Token, D> next;
  next.load(p, span.first, head, key_head, column);
  StateTile<D, kColumnsThreads / kWave, Access::packets> state;
  state.load_pool(p, span.row, head, first_column);
  for (std::int64_t token = span.first; token < end; ++token) {
    const LaneToken<Token, D> now = next.arrived(p);
    // On their way during this token's arithmetic.
    if (token + 1 < end) next.load(p, token + 1, head, key_head, column);
    const float decay = decay_from(p, gates, now.gate), beta = beta_from(p, now.beta);
    float key_factor = 1.0f;
    if (p.normalize_qk != 0) {
      key_factor = 1.0f / sqrtf(sum_of_squares<Token, D>(now.key) + kNormEpsilon);
    }
    float predicted[4] = {}, correction[4];
#pragma unroll
    for (int j = 0; j < D / 32; ++j) state.add_product(j, now.key[j], predicted);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float sum = key_factor * sum_of_groups(predicted[e]);
      correction[e] = beta * (to_float(now.value.x[e]) - decay * sum) * key_factor;
    }
    state.scale(decay);
#pragma unroll
    for (int j = 0; j < D / 32; ++j) state.add_outer_product(j, now.key[j], correction);

    float query_factor = p.scale;
    if (p.normalize_qk != 0) {
      query_factor = p.scale / sqrtf(sum_of_squares<Token, D>(now.query) + kNormEpsilon);
    }
    float output[4] = {};
#pragma unroll
    for (int j = 0; j < D / 32; ++j) state.add_product(j, now.query[j], output);
#pragma unroll
    for (int e = 0; e < 4; ++e) output[e] = sum_of_groups(output[e]) * query_factor;
    if (thread.group == 0 && column < p.value_head_dim) {
      store_columns(p, output_index(p, token, head, column), p.value_head_dim - column, output);
    }
  }
  state.store_pool(p, span.row, head, first_column);
}

}  // namespace

// recurrent_<version>_<rows>_<token>, rows = 64, 128 or 256 state rows per wave.
#define GDN_RECURRENT(version, dk, suffix, Token, threads, ...)                                \
  extern "C" __global__ __launch_bounds__(threads) void recurrent_##version##_##dk##_##suffix( \
      GatedDeltaParams p) {                                                                    \
    __VA_ARGS__(p);                                                                            \
  }
#define GDN_RECURRENT_ONE(dk, suffix, Token)               \
  GDN_RECURRENT(shuffle, dk, suffix, Token, kWaves* kWave, \
                recurrent<Token, dk / kWave, ShuffleSum>)  \
  GDN_RECURRENT(dpp, dk, suffix, Token, kWaves* kWave, recurrent<Token, dk / kWave, DppSum>)
#define GDN_RECURRENT_COLUMNS(dk, suffix, Token) \
  GDN_RECURRENT(columns, dk, suffix, Token, kColumnsThreads, recurrent_columns<Token, dk>)
#define GDN_RECURRENT_DIMS(suffix, Token)  \
  GDN_RECURRENT_ONE(64, suffix, Token)     \
  GDN_RECURRENT_ONE(128, suffix, Token)    \
  GDN_RECURRENT_ONE(256, suffix, Token)    \
  GDN_RECURRENT_COLUMNS(64, suffix, Token) \
  GDN_RECURRENT_COLUMNS(128, suffix, Token)

GDN_RECURRENT_DIMS(f32, float)
GDN_RECURRENT_DIMS(f16, Half)
GDN_RECURRENT_DIMS(bf16, Bfloat16)

}  // namespace gdn::hip
