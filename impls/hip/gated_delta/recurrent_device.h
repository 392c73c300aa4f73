// The token recurrence of a workgroup, with the state in registers: by a wave for each state
// column, or by a tile of columns (recurrent.hip says what bounds them). The kernels of
// gated_delta, those of gated_delta_verify and those of gated_delta_ring are made of it; what they
// do beside the recurrence is the `call` that is handed in, of the form of WholeCall. Included by
// .hip files only.
#pragma once

#include "hip/gated_delta/checkpoints.h"
#include "hip/gated_delta/state_tile.h"

namespace gdn::hip {

constexpr int kWaves = 256 / kWave;  ///< of a workgroup, a column each
constexpr int kColumnsThreads = 64;  ///< of a workgroup of `columns`
constexpr int kColumns = kColumnsThreads / 2;

/// A call of gated_delta without variants: nothing is kept of a token, and the state behind the last one
/// is stored.
struct WholeCall {
  static constexpr bool kStoresState = true;
  /// Whether a call may have variants; the columns form is without.
  static constexpr bool kVariants = false;

  // With variants: what they are. A step is so many elements behind the one before.
  static __device__ __forceinline__ int steps() { return 1; }
  static __device__ __forceinline__ int key_step() { return 0; }
  static __device__ __forceinline__ int value_step() { return 0; }
  static __device__ __forceinline__ int beta_step() { return 0; }
  static __device__ __forceinline__ bool decay_per_channel() { return false; }
  static __device__ __forceinline__ bool additive() { return false; }

  // What becomes of the pool's state before the first token: a wave's column, and a workgroup's
  // tile.
  template <int rows>
  static __device__ __forceinline__ void begin_column(const Span&, int, int, int, float (&)[rows]) {
  }
  template <typename State>
  static __device__ __forceinline__ void begin_columns(const Span&, int, int, State&) {}

  // What a token did to the state, as the lanes hold it: S <- decay S, then for each of its steps
  // S <- S + key update^T.
  /// A wave's column: by every lane, or of row k by the lane that has it. The key comes with what
  /// normalises it in it, a factor that is handed in too.
  static __device__ __forceinline__ void keep_decay(std::int64_t, int, int, float) {}
  static __device__ __forceinline__ void keep_channel_decay(std::int64_t, int, int, int, float) {}
  template <int rows>
  static __device__ __forceinline__ void keep_step(std::int64_t, int, int, int, int,
                                                   const float (&)[rows], float, float) {}
  /// A lane's four columns and its rows. The key is as it came: the update has what normalises it.
  template <typename Token, int packets>
  static __device__ __forceinline__ void keep_columns(std::int64_t, int, int, int,
                                                      const Packet<Token, 4> (&)[packets],
                                                      const float (&)[4], float) {}
};

/// Rows lane, lane + kWave, .. of a vector of Dk.
template <int rows, typename Token>
__device__ __forceinline__ void load_rows(const Token* from, int lane, int Dk, float (&x)[rows]) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
    x[r] = k < Dk ? to_float(from[k]) : 0.0f;
  }
}
template <typename Sum, int rows>
__device__ __forceinline__ float norm_of(const float (&x)[rows]) {
  float squares = 0.0f;
#pragma unroll
  for (int r = 0; r < rows; ++r) squares = fmaf(x[r], x[r], squares);
  return sqrtf(Sum::sum(squares) + kNormEpsilon);
}
template <int rows>
__device__ __forceinline__ void scale_rows(float factor, float (&x)[rows]) {
#pragma unroll
  for (int r = 0; r < rows; ++r) x[r] *= factor;
}
/// The same rows of a column of the pool's state.
template <int rows>
__device__ __forceinline__ void load_column(const GatedDeltaParams& p, std::int64_t row, int head,
                                            int column, int lane, float (&state)[rows]) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
    state[r] = k < p.key_head_dim ? load_state(p, row, head, k, column) : 0.0f;
  }
}
template <int rows>
__device__ __forceinline__ void store_column(const GatedDeltaParams& p, std::int64_t row, int head,
                                             int column, int lane, const float (&state)[rows]) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
    if (k < p.key_head_dim) store_state(p, row, head, k, column, state[r]);
  }
}

template <int rows>
__device__ __forceinline__ void store_column_by_chance(const GatedDeltaParams& p, std::int64_t row,
                                                       int head, int column, int lane,
                                                       const float (&state)[rows],
                                                       std::uint32_t seed) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int k = lane + kWave * r;
    if (k < p.key_head_dim) store_state_by_chance(p, row, head, k, column, state[r], seed);
  }
}

/// The workgroup's place in the grid: x = tiles of kWaves state columns, y = value head, z = sequence.
struct WaveColumn {
  int lane;
  int column;
};
__device__ __forceinline__ WaveColumn wave_column() {
  const int lane = static_cast<int>(threadIdx.x) % kWave;
  // The wave number as a scalar: everything derived from it stays in scalar registers.
  const int wave = uniform(static_cast<int>(threadIdx.x) / kWave);
  return {lane, static_cast<int>(blockIdx.x) * kWaves + wave};
}

/// A wave's column. rows = ceil(Dk/64).
template <typename Token, int rows, typename Sum, typename Call, typename States = NoCheckpoints>
__device__ __forceinline__ void recurrent(const GatedDeltaParams& p, const Call& call,
                                          const States& checkpoints = {}) {
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const WaveColumn place = wave_column();
  const int lane = place.lane, column = place.column;
  const int key_head = key_head_of(p, head);
  const Span span = span_of(p, sequence);
  const int Dk = p.key_head_dim, Dv = p.value_head_dim;
  if (column >= Dv) return;
  checkpoints.store_absent(p, sequence, span,
                           [&](const GatedDeltaParams& states, std::int64_t row) {
                             const float zeros[rows] = {};
                             store_column(states, row, head, column, lane, zeros);
                           });
  if (span.length == 0) return;
  const std::int64_t end = span.first + span.length;
  if (span.row < 0) {
    for (std::int64_t token = span.first + lane; token < end; token += kWave) {
      store_element(p.output, p.output_element, output_index(p, token, head, column), 0.0f);
    }
    return;
  }

  float state[rows];
  load_column(p, span.row, head, column, lane, state);
  call.begin_column(span, head, column, lane, state);

  auto walk = checkpoints.walk(sequence, span.length);
  std::int64_t token = span.first;
  do {
    const std::int64_t stop = walk.stop(span.first, end);
    for (; token < stop; ++token) {
      const Token* const keys = key_at<Token>(p, token, key_head);
      const Token* const values = value_at<Token>(p, token, head);
      float query[rows], key[rows];
      load_rows(query_at<Token>(p, token, key_head), lane, Dk, query);
      load_rows(keys, lane, Dk, key);
      float query_factor = p.scale, key_factor = 1.0f;
      if (p.normalize_qk != 0) {
        query_factor = p.scale / norm_of<Sum>(query);
        key_factor = 1.0f / norm_of<Sum>(key);
        scale_rows(key_factor, key);
      }
      float decay = 1.0f;  // of the state in registers, still to be done
      if (Call::kVariants && call.decay_per_channel()) {
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          const int k = lane + kWave * r;
          if (k < Dk) {
            const float channel = channel_decay_of(p, token, head, k);
            call.keep_channel_decay(token, head, column, k, channel);
            state[r] *= channel;
          }
        }
      } else {
        decay = decay_of(p, token, head);
        call.keep_decay(token, head, column, decay);
      }
      for (int step = 0; step < call.steps(); ++step) {
        if (step > 0) {
          load_rows(keys + step * call.key_step(), lane, Dk, key);
          if (p.normalize_qk != 0) {
            key_factor = 1.0f / norm_of<Sum>(key);
            scale_rows(key_factor, key);
          }
          decay = 1.0f;
        }
        const float beta = beta_of(p, token, head + step * call.beta_step());
        const float value = to_float(values[column + step * call.value_step()]);
        float correction = beta * value;
        if (!Call::kVariants || !call.additive()) {
          float predicted = 0.0f;
#pragma unroll
          for (int r = 0; r < rows; ++r) predicted = fmaf(state[r], key[r], predicted);
          correction = beta * (value - decay * Sum::sum(predicted));
        }
        call.keep_step(token, step, head, column, lane, key, correction, key_factor);
#pragma unroll
        for (int r = 0; r < rows; ++r) state[r] = fmaf(key[r], correction, state[r] * decay);
      }
      float output = 0.0f;
#pragma unroll
      for (int r = 0; r < rows; ++r) output = fmaf(state[r], query[r], output);
      output = Sum::sum(output);
      if (lane == 0) {
        store_element(p.output, p.output_element, output_index(p, token, head, column),
                      output * query_factor);
      }
    }
    walk.store(p, [&](const GatedDeltaParams& states, std::int64_t row) {
      store_column(states, row, head, column, lane, state);
    });
  } while (walk.next());
  if (!Call::kStoresState) return;
  if constexpr (States::kAny) {
    if (checkpoints.rounding_seed()) {
      const auto seed = static_cast<std::uint32_t>(checkpoints.rounding_seed()[sequence]);
      return store_column_by_chance(p, span.row, head, column, lane, state, seed);
    }
  }
  store_column(p, span.row, head, column, lane, state);
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
template <typename Token, int D, typename Call, typename States = NoCheckpoints>
__device__ __forceinline__ void recurrent_columns(const GatedDeltaParams& p, const Call& call,
                                                  const States& checkpoints = {}) {
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const int key_head = key_head_of(p, head);
  const TileThread thread = tile_thread();
  const int column = first_column + thread.column;
  const Span span = span_of(p, sequence);
  const std::int64_t end = span.first + span.length;
  using State = StateTile<D, kColumnsThreads / kWave, Access::packets>;
  checkpoints.store_absent(p, sequence, span,
                           [&](const GatedDeltaParams& states, std::int64_t row) {
                             State zeros;
                             zeros.clear();
                             zeros.store_pool(states, row, head, first_column);
                           });
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
  State state;
  state.load_pool(p, span.row, head, first_column);
  call.begin_columns(span, head, first_column, state);
  auto walk = checkpoints.walk(sequence, span.length);
  std::int64_t token = span.first;
  do {
    const std::int64_t stop = walk.stop(span.first, end);
    for (; token < stop; ++token) {
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
      call.keep_columns(token, head, column, thread.group, now.key, correction, decay);
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
    walk.store(p, [&](const GatedDeltaParams& states, std::int64_t row) {
      state.store_pool(states, row, head, first_column);
    });
  } while (walk.next());
  if (!Call::kStoresState) return;
  if constexpr (States::kAny) {
    if (checkpoints.rounding_seed()) {
      const auto seed = static_cast<std::uint32_t>(checkpoints.rounding_seed()[sequence]);
      return state.store_pool_by_chance(p, span.row, head, first_column, seed);
    }
  }
  state.store_pool(p, span.row, head, first_column);
}

}  // namespace gdn::hip
