// hip/recurrent of gated_delta_ring: the records of the ring are done to the state in registers,
// oldest first, as a commit of gated_delta_verify does them (records_device.h); a sequence that
// folds stores the state here; then come the tokens, as hip/recurrent of gated_delta has them
// (recurrent_device.h), whose own records are written behind those there are. One launch.
//     columns    32 state columns a wave, 8 lanes sharing their rows: problems in packets, Dk up
//                to 128
//     dpp        a column a wave, sums by DPP: every other problem with Dk up to 256
// Keys are kept once for the value heads that share them, by the first of these, and as they came:
// what normalises a key is in the update.
//
// No workgroup reads a place that another one writes: a call's tokens lie behind the records it
// replays.
//
// Bound by: in columns, memory traffic of the state, which comes in every call and goes out at a
// fold, and with many records VALU issue: 128 multiplications and multiply-adds a record and wave
// at Dk = 128, where a token has 256 and the like. In dpp, by the latency of the sums of a token,
// and with key-major states by cache lines of which a wave uses one element.
// Modelled, not measured (gdnbench bench --op gated_delta_ring --device gfx906-emulator --heads
// 16/32 --dim 128 --h0 normal), eight sequences of one token in float32: 0.028 ms without records,
// 0.083 ms with 15 records each and all folding, and on average over a cycle (ring_fill=cycle)
// 0.040 ms, where hip/recurrent of gated_delta takes 0.052 ms. In bfloat16 with states of that type
// a cycle's average is 0.041 ms, and 0.039 ms there: the model has a ring pay with states of
// float32 alone. With four tokens a sequence it does not pay: 0.075 ms in float32, and 0.055 ms
// there. Asking for the oldest record before the state made that 0.097 ms, though 0.071 ms of the
// 0.083 ms of float16.
#include "hip/gated_delta/records_device.h"
#include "hip/gated_delta_ring/params.h"

namespace gdn::hip {
namespace {

/// The records of a sequence in its row of the rings: token `origin` is the oldest one. Of one step
/// each.
template <typename Token, typename UpdateElement>
struct RowOfRing {
  using Key = Token;
  using Update = UpdateElement;
  const RingParams& d;
  Key* key;
  Update* update;
  float* decay;
  std::int64_t origin;
  int first;  ///< place of the oldest one

  __device__ __forceinline__ RowOfRing(const RingParams& params, const Span& span, int sequence)
      : d(params),
        key(static_cast<Key*>(params.key) + span.row * params.key_row_stride),
        update(static_cast<Update*>(params.update) + span.row * params.update_row_stride),
        decay(params.decay + span.row * params.decay_row_stride),
        origin(span.first - params.length[sequence]),
        first(static_cast<int>(params.first[sequence])) {}

  static __device__ __forceinline__ int steps() { return 1; }
  static __device__ __forceinline__ bool decay_per_channel() { return false; }
  __device__ __forceinline__ std::int64_t place(std::int64_t token) const {
    const int at = first + static_cast<int>(token - origin);
    return at < d.places ? at : at - d.places;
  }
  __device__ __forceinline__ Key* keys(std::int64_t token, int /*step*/, int key_head) const {
    return key + (place(token) * d.num_key_heads + key_head) * d.delta.key_head_dim;
  }
  __device__ __forceinline__ Update* updates(std::int64_t token, int /*step*/, int head) const {
    return update + (place(token) * d.delta.num_value_heads + head) * d.delta.value_head_dim;
  }
  __device__ __forceinline__ float* decays(std::int64_t token, int head) const {
    return decay + place(token) * d.delta.num_value_heads + head;
  }
};

/// The call that begins with the records of the ring and keeps those of its tokens there (WholeCall
/// says what its members mean).
template <typename Token, typename Update>
struct RingCall : WholeCall {
  static constexpr bool kStoresState = false;  // behind the tokens
  using Records = RowOfRing<Token, Update>;
  const RingParams& d;
  int sequence;
  Records records;

  __device__ __forceinline__ explicit RingCall(const RingParams& params)
      : d(params),
        sequence(static_cast<int>(blockIdx.z)),
        records(params, span_of(params.delta, sequence), sequence) {}

  /// A row that is not read is written, so that the next call finds a state. Nothing is stored
  /// where no state is wanted.
  __device__ __forceinline__ bool folds() const {
    return d.delta.read_state == 0 || d.fold[sequence] != 0;
  }
  __device__ __forceinline__ bool writes_key(int head) const {
    return first_of_its_key(d.delta, head, d.value_heads_per_key_head);
  }

  template <int rows>
  __device__ __forceinline__ void begin_column(const Span& span, int head, int column, int lane,
                                               float (&state)[rows]) const {
    replay_column(d.delta, records, records.origin, span.first, head, column, lane, state);
    if (folds()) store_column(d.delta, span.row, head, column, lane, state);
  }
  template <int D, int waves, Access access>
  __device__ __forceinline__ void begin_columns(const Span& span, int head, int first_column,
                                                StateTile<D, waves, access>& state) const {
    if (records.origin < span.first) {
      LaneRecord<Records, D> oldest;
      oldest.load(d.delta, records, records.origin, head, key_head_of(d.delta, head),
                  first_column + tile_thread().column);
      replay_columns(d.delta, records, records.origin, span.first, head, first_column, oldest,
                     state);
      state.clear_rows_beyond(d.delta.key_head_dim);
    }
    if (folds()) state.store_pool(d.delta, span.row, head, first_column);
  }

  __device__ __forceinline__ void keep_decay(std::int64_t token, int head, int column,
                                             float decay) const {
    if (column == 0) *records.decays(token, head) = decay;
  }
  template <int rows>
  __device__ __forceinline__ void keep_step(std::int64_t token, int step, int head, int column,
                                            int lane, const float (&)[rows], float update,
                                            float key_factor) const {
    if (lane == 0) store_as(records.updates(token, step, head) + column, update * key_factor);
    if (column != 0 || !writes_key(head)) return;
    const int key_head = key_head_of(d.delta, head);
    const Token* const from = key_at<Token>(d.delta, token, key_head);
    Token* const to = records.keys(token, step, key_head);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int k = lane + kWave * r;
      if (k < d.delta.key_head_dim) to[k] = from[k];
    }
  }
  template <int packets>
  __device__ __forceinline__ void keep_columns(std::int64_t token, int head, int column, int group,
                                               const Packet<Token, 4> (&key)[packets],
                                               const float (&update)[4], float decay) const {
    store_record(d.delta, records, writes_key(head), token, head, column, group, key, update,
                 decay);
  }
};

}  // namespace

// ring_<version>_<rows>_<token>_<update>
#define GDN_RING(name, threads, ...) \
  extern "C" __global__ __launch_bounds__(threads) void name(RingParams d) { __VA_ARGS__; }
#define GDN_RING_COLUMNS(dk, suffix, Token, Update)       \
  GDN_RING(ring_columns_##dk##_##suffix, kColumnsThreads, \
           recurrent_columns<Token, dk>(d.delta, RingCall<Token, Update>(d)))
#define GDN_RING_DPP(dk, suffix, Token, Update)     \
  GDN_RING(ring_dpp_##dk##_##suffix, kWaves* kWave, \
           recurrent<Token, dk / kWave, DppSum>(d.delta, RingCall<Token, Update>(d)))
#define GDN_RING_DIMS(suffix, Token, Update)   \
  GDN_RING_COLUMNS(64, suffix, Token, Update)  \
  GDN_RING_COLUMNS(128, suffix, Token, Update) \
  GDN_RING_DPP(64, suffix, Token, Update)      \
  GDN_RING_DPP(128, suffix, Token, Update)     \
  GDN_RING_DPP(256, suffix, Token, Update)

GDN_RING_DIMS(f32_f32, float, float)
GDN_RING_DIMS(f16_f32, Half, float)
GDN_RING_DIMS(bf16_f32, Bfloat16, float)
GDN_RING_DIMS(f32_bf16, float, Bfloat16)
GDN_RING_DIMS(f16_bf16, Half, Bfloat16)
GDN_RING_DIMS(bf16_bf16, Bfloat16, Bfloat16)

}  // namespace gdn::hip
