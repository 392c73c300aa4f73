// hip/recurrent: the token recurrence with the state in registers; the 64 lanes of a wave share the
// rows of C state columns.
//
// A lane holds rows lane, lane + 64, ... of its wave's columns: S^T k and S^T q are C dot products
// over the lanes, one wave-wide sum each per token and column. The sum is the cost: six dependent
// steps. Three versions of it, side by side:
//     shuffle   butterfly of shuffles, which this card sends through the LDS crossbar
//     dpp       lane moves inside the VALU, then one readlane; one column per wave
//     columns   the same with four columns per wave: four independent chains hide each other's
//     latency,
//               and each load of k and q serves four columns
//
// The decay is folded in: with P = S before the token, predicted = decay * (P^T k).
//
// Bound by: the latency of the chain load -> dot -> sum -> update -> dot -> sum, once per token; by
// VALU issue once enough waves share a SIMD. Dk up to 256, any Dv.
#include "hip/gated_delta/device.h"

namespace gdn::hip {
namespace {

constexpr int kWaves = 256 / kWave;

/// Grid: x = tiles of kWaves * columns state columns, y = value head, z = sequence. rows =
/// ceil(Dk/64).
template <typename Token, int rows, int columns, typename Sum>
__device__ __forceinline__ void recurrent(const GatedDeltaParams& p) {
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x) % kWave;
  // The wave number as a scalar: everything derived from it stays in scalar registers.
  const int wave = uniform(static_cast<int>(threadIdx.x) / kWave);
  const int first_column = (static_cast<int>(blockIdx.x) * kWaves + wave) * columns;
  const int key_head = key_head_of(p, head);
  const Span span = span_of(p, sequence);
  const int Dk = p.key_head_dim, Dv = p.value_head_dim;
  if (first_column >= Dv || span.length == 0) return;
  const std::int64_t end = span.first + span.length;
  if (span.row < 0) {
    if (lane < columns && first_column + lane < Dv) {
      for (std::int64_t token = span.first; token < end; ++token) {
        store_element(p.output, p.output_element, output_index(p, token, head, first_column + lane),
                      0.0f);
      }
    }
    return;
  }

  float state[rows][columns];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const bool inside = k < Dk && first_column + c < Dv;
      state[r][c] = inside ? load_state(p, span.row, head, k, first_column + c) : 0.0f;
    }
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
    float output = 0.0f;  // of column first_column + lane
    const Token* const values = value_at<Token>(p, token, head) + first_column;
    float dots[columns];
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      dots[c] = 0.0f;
#pragma unroll
      for (int r = 0; r < rows; ++r) dots[c] = fmaf(state[r][c], key[r], dots[c]);
    }
#pragma unroll
    for (int c = 0; c < columns; ++c) dots[c] = Sum::sum(dots[c]);
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const float value = first_column + c < Dv ? to_float(values[c]) : 0.0f;
      const float correction = beta * (value - decay * dots[c]);
      dots[c] = 0.0f;
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        state[r][c] = fmaf(key[r], correction, state[r][c] * decay);
        dots[c] = fmaf(state[r][c], query[r], dots[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const float sum = Sum::sum(dots[c]);
      output = lane == c ? sum : output;
    }
    if (lane < columns && first_column + lane < Dv) {
      store_element(p.output, p.output_element, output_index(p, token, head, first_column + lane),
                    output * query_factor);
    }
  }

#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      if (k < Dk && first_column + c < Dv) {
        store_state(p, span.row, head, k, first_column + c, state[r][c]);
      }
    }
  }
}

}  // namespace

// recurrent_<sum>_<rows>_<token>, rows = 64, 128 or 256 state rows per wave.
#define GDN_RECURRENT(sum, Sum, columns, dk, suffix, Token)                                      \
  extern "C" __global__ __launch_bounds__(kWaves* kWave) void recurrent_##sum##_##dk##_##suffix( \
      GatedDeltaParams p) {                                                                      \
    recurrent<Token, dk / kWave, columns, Sum>(p);                                               \
  }
#define GDN_RECURRENT_DIMS(sum, Sum, columns, suffix, Token) \
  GDN_RECURRENT(sum, Sum, columns, 64, suffix, Token)        \
  GDN_RECURRENT(sum, Sum, columns, 128, suffix, Token)       \
  GDN_RECURRENT(sum, Sum, columns, 256, suffix, Token)
#define GDN_RECURRENT_TOKENS(sum, Sum, columns)     \
  GDN_RECURRENT_DIMS(sum, Sum, columns, f32, float) \
  GDN_RECURRENT_DIMS(sum, Sum, columns, f16, Half)  \
  GDN_RECURRENT_DIMS(sum, Sum, columns, bf16, Bfloat16)

GDN_RECURRENT_TOKENS(shuffle, ShuffleSum, 1)
GDN_RECURRENT_TOKENS(dpp, DppSum, 1)
GDN_RECURRENT_TOKENS(columns, DppSum, 4)

}  // namespace gdn::hip
