// Records of tokens: what a token did to the state,
//     S <- decay S, then for each of its steps S <- S + key update^T,
// written beside the recurrence (recurrent_device.h) and done again to a state. The kernels of
// gated_delta_verify and of gated_delta_ring share it; where a record lies, and of which types it
// is, says the `records` that is handed in:
//     Key, Update                          element types; decays are float32
//     keys(token, step, key_head)          Dk elements
//     updates(token, step, head)           Dv elements
//     decays(token, head)                  one, or Dk of them with one for each channel
//     steps(), decay_per_channel()         of a token
// A replayed token is a scaling and a product: no sum over rows, no gate to decode. Included by
// .hip files only.
#pragma once

#include <type_traits>

#include "hip/gated_delta/recurrent_device.h"

namespace gdn::hip {

/// One of the value heads that share a key writes it.
__device__ __forceinline__ bool first_of_its_key(const GatedDeltaParams& p, int head,
                                                 int value_heads_per_key_head) {
  return head == key_head_of(p, head) * value_heads_per_key_head;
}

/// A token of one step, by the lanes of a tile of columns: of WholeCall::keep_columns, what it is
/// given.
template <typename Records, typename Token, int packets>
__device__ __forceinline__ void store_record(const GatedDeltaParams& p, const Records& records,
                                             bool with_key, std::int64_t token, int head,
                                             int column, int group,
                                             const Packet<Token, 4> (&key)[packets],
                                             const float (&update)[4], float decay) {
  using Key = typename Records::Key;
  using Update = typename Records::Update;
  if (group == 0 && column < p.value_head_dim) {
    Packet<Update, 4> packet;
#pragma unroll
    for (int e = 0; e < 4; ++e) store_as(&packet.x[e], update[e]);
    store_packet(records.updates(token, 0, head) + column, packet);
  }
  if (column != 0) return;
  if (group == 0) *records.decays(token, head) = decay;
  if (!with_key) return;
  Key* const keys = records.keys(token, 0, key_head_of(p, head));
#pragma unroll
  for (int j = 0; j < packets; ++j) {
    const int k = 32 * j + 4 * group;
    Packet<Key, 4> packet;
    if constexpr (std::is_same_v<Key, Token>) {
      packet = key[j];
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) store_as(&packet.x[i], to_float(key[j].x[i]));
    }
    if (k < p.key_head_dim) store_packet(keys + k, packet);
  }
}

/// The records of tokens first .. end - 1, done to a wave's column.
template <typename Records, int rows>
__device__ __forceinline__ void replay_column(const GatedDeltaParams& p, const Records& records,
                                              std::int64_t first, std::int64_t end, int head,
                                              int column, int lane, float (&state)[rows]) {
  const int key_head = key_head_of(p, head);
  for (std::int64_t token = first; token < end; ++token) {
    const float* const decays = records.decays(token, head);
    if (records.decay_per_channel()) {
      float decay[rows];
      load_rows(decays, lane, p.key_head_dim, decay);
#pragma unroll
      for (int r = 0; r < rows; ++r) state[r] *= decay[r];
    } else {
      scale_rows(*decays, state);
    }
    for (int step = 0; step < records.steps(); ++step) {
      const float update = to_float(records.updates(token, step, head)[column]);
      float key[rows];
      load_rows(records.keys(token, step, key_head), lane, p.key_head_dim, key);
#pragma unroll
      for (int r = 0; r < rows; ++r) state[r] = fmaf(key[r], update, state[r]);
    }
  }
}

/// A record as a lane of the columns form holds it.
template <typename Records, int D>
struct LaneRecord {
  Packet<typename Records::Key, 4> key[D / 32];  ///< rows 32 j + 4 group + 0..3
  Packet<typename Records::Update, 4> update;    ///< of the lane's columns
  float decay;

  /// Asks for it: elements beyond Dk and Dv are others of the same rows.
  __device__ __forceinline__ void load(const GatedDeltaParams& p, const Records& records,
                                       std::int64_t token, int head, int key_head, int column) {
    const typename Records::Key* const keys = records.keys(token, 0, key_head);
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const int k = 32 * j + 4 * tile_thread().group;
      key[j] = load_inside_or_first<typename Records::Key, 4>(k < p.key_head_dim, keys,
                                                              static_cast<unsigned>(k));
    }
    update = load_inside_or_first<typename Records::Update, 4>(
        column < p.value_head_dim, records.updates(token, 0, head), static_cast<unsigned>(column));
    decay = *records.decays(token, head);
  }
};

/// The same to a tile of columns, for problems in packets and without variants; `next` is the
/// record of `first`. Behind it the registers beyond Dk and Dv hold anything, which reaches no
/// other.
template <int D, typename Records, typename State>
__device__ __forceinline__ void replay_columns(const GatedDeltaParams& p, const Records& records,
                                               std::int64_t first, std::int64_t end, int head,
                                               int first_column, LaneRecord<Records, D> next,
                                               State& state) {
  const int key_head = key_head_of(p, head);
  const int column = first_column + tile_thread().column;
  for (std::int64_t token = first; token < end; ++token) {
    const LaneRecord<Records, D> now = next;
    // On its way during this token's arithmetic.
    if (token + 1 < end) next.load(p, records, token + 1, head, key_head, column);
    state.scale(now.decay);
    float update[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) update[e] = to_float(now.update.x[e]);
#pragma unroll
    for (int j = 0; j < D / 32; ++j) state.add_outer_product(j, now.key[j], update);
  }
}

}  // namespace gdn::hip
