// hip/records of gated_delta_verify: the token recurrence with the state in registers, as hip/recurrent
// of gated_delta has it (recurrent_device.h), and of each token a record of what it did to the state
// (params.h). verify runs the drafts and drops the state; commit reads the pool's row, replays the
// records of the accepted tokens (records_device.h) and stores it.
//     columns    32 state columns a wave, 8 lanes sharing their rows: problems without variants, in
//                packets, Dk up to 128
//     dpp        a column a wave, sums by DPP: every other problem with Dk up to 256, variants among them
// Keys are kept once for the value heads that share them, by the first of these.
//
// Bound by: memory traffic of the state at the few tokens of a draft, twice in and once out where
// gated_delta moves it once each way; a record is 1 + Dk Hk / Hv + Dv floats a value head, an 85th of a
// state at Dk = Dv = 128 and two value heads a key head. In dpp, by the latency of the sums of a token,
// and with key-major states by cache lines of which a wave uses one element.
// Modelled, not measured (gdnbench bench --op gated_delta_verify --device gfx906-emulator --heads 16/32
// --dim 128 --seq 8x4 --h0 normal): 0.088 ms in float32 and 0.087 ms in float16, where hip/recurrent of
// gated_delta takes 0.054 ms and 0.055 ms for the same tokens. With two steps a token, which run dpp,
// 0.62 ms and 0.84 ms.
#include "hip/gated_delta/records_device.h"
#include "hip/gated_delta_verify/params.h"

namespace gdn::hip {
namespace {

/// Where a token's record lies (records_device.h).
struct DraftRecords {
  using Key = float;
  using Update = float;
  const DraftParams& d;

  __device__ __forceinline__ int steps() const { return d.steps; }
  __device__ __forceinline__ bool decay_per_channel() const { return d.decay_per_channel != 0; }
  __device__ __forceinline__ float* keys(std::int64_t token, int step, int key_head) const {
    return d.keys + ((token * d.steps + step) * d.num_key_heads + key_head) * d.delta.key_head_dim;
  }
  __device__ __forceinline__ float* updates(std::int64_t token, int step, int head) const {
    return d.updates +
           ((token * d.steps + step) * d.delta.num_value_heads + head) * d.delta.value_head_dim;
  }
  __device__ __forceinline__ float* decays(std::int64_t token, int head) const {
    return d.decays + (token * d.delta.num_value_heads + head) *
                          (d.decay_per_channel != 0 ? d.delta.key_head_dim : 1);
  }
};

// ---- verify

/// The call that keeps records and stores no state (WholeCall says what its members mean).
template <bool variants>
struct Draft : WholeCall {
  static constexpr bool kStoresState = false;
  static constexpr bool kVariants = variants;
  const DraftParams& d;
  DraftRecords records;

  __device__ __forceinline__ explicit Draft(const DraftParams& params)
      : d(params), records{params} {}

  __device__ __forceinline__ int steps() const { return variants ? d.steps : 1; }
  __device__ __forceinline__ int key_step() const { return d.num_key_heads * d.delta.key_head_dim; }
  __device__ __forceinline__ int value_step() const {
    return d.delta.num_value_heads * d.delta.value_head_dim;
  }
  __device__ __forceinline__ int beta_step() const { return d.delta.num_value_heads; }
  __device__ __forceinline__ bool decay_per_channel() const { return d.decay_per_channel != 0; }
  __device__ __forceinline__ bool additive() const { return d.additive != 0; }

  __device__ __forceinline__ bool writes_key(int head) const {
    return first_of_its_key(d.delta, head, d.value_heads_per_key_head);
  }
  __device__ __forceinline__ void keep_decay(std::int64_t token, int head, int column,
                                             float decay) const {
    if (column == 0) *records.decays(token, head) = decay;
  }
  __device__ __forceinline__ void keep_channel_decay(std::int64_t token, int head, int column,
                                                     int k, float decay) const {
    if (column == 0) records.decays(token, head)[k] = decay;
  }
  template <int rows>
  __device__ __forceinline__ void keep_step(std::int64_t token, int step, int head, int column,
                                            int lane, const float (&key)[rows], float update,
                                            float /*key_factor*/) const {
    if (lane == 0) records.updates(token, step, head)[column] = update;
    if (column != 0 || !writes_key(head)) return;
    float* const keys = records.keys(token, step, key_head_of(d.delta, head));
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int k = lane + kWave * r;
      if (k < d.delta.key_head_dim) keys[k] = key[r];
    }
  }
  template <typename Token, int packets>
  __device__ __forceinline__ void keep_columns(std::int64_t token, int head, int column, int group,
                                               const Packet<Token, 4> (&key)[packets],
                                               const float (&update)[4], float decay) const {
    store_record(d.delta, records, writes_key(head), token, head, column, group, key, update,
                 decay);
  }
};

// ---- commit. The grids are those of verify

/// The accepted tokens of a sequence, none of a padding one: its row stays as it is then.
__device__ __forceinline__ std::int64_t accepted_of(const DraftParams& d, const Span& span,
                                                    int sequence) {
  return span.row < 0 ? 0 : d.accepted[sequence];
}

template <int rows>
__device__ __forceinline__ void commit(const DraftParams& d) {
  const GatedDeltaParams& p = d.delta;
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const auto [lane, column] = wave_column();
  const Span span = span_of(p, sequence);
  const std::int64_t end = span.first + accepted_of(d, span, sequence);
  if (column >= p.value_head_dim || end == span.first) return;

  float state[rows];
  load_column(p, span.row, head, column, lane, state);
  replay_column(p, DraftRecords{d}, span.first, end, head, column, lane, state);
  store_column(p, span.row, head, column, lane, state);
}

/// For problems in packets and without variants. What the registers beyond Dk and Dv hold is never
/// stored, nor does it reach the others.
template <int D>
__device__ __forceinline__ void commit_columns(const DraftParams& d) {
  const GatedDeltaParams& p = d.delta;
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const Span span = span_of(p, sequence);
  const std::int64_t end = span.first + accepted_of(d, span, sequence);
  if (end == span.first) return;

  const DraftRecords records{d};
  LaneRecord<DraftRecords, D> oldest;
  oldest.load(p, records, span.first, head, key_head_of(p, head),
              first_column + tile_thread().column);
  StateTile<D, kColumnsThreads / kWave, Access::packets> state;
  state.load_pool(p, span.row, head, first_column);
  replay_columns(p, records, span.first, end, head, first_column, oldest, state);
  state.store_pool(p, span.row, head, first_column);
}

}  // namespace

// verify_<version>_<rows>_<token> and, of float32 records whatever the tokens, commit_<version>_<rows>.
#define GDN_DRAFT(name, threads, ...) \
  extern "C" __global__ __launch_bounds__(threads) void name(DraftParams d) { __VA_ARGS__; }
#define GDN_VERIFY_COLUMNS(dk, suffix, Token)                \
  GDN_DRAFT(verify_columns_##dk##_##suffix, kColumnsThreads, \
            recurrent_columns<Token, dk>(d.delta, Draft<false>{d}))
#define GDN_VERIFY_DPP(dk, suffix, Token)              \
  GDN_DRAFT(verify_dpp_##dk##_##suffix, kWaves* kWave, \
            recurrent<Token, dk / kWave, DppSum>(d.delta, Draft<true>{d}))
#define GDN_VERIFY(suffix, Token)        \
  GDN_VERIFY_COLUMNS(64, suffix, Token)  \
  GDN_VERIFY_COLUMNS(128, suffix, Token) \
  GDN_VERIFY_DPP(64, suffix, Token)      \
  GDN_VERIFY_DPP(128, suffix, Token)     \
  GDN_VERIFY_DPP(256, suffix, Token)

GDN_VERIFY(f32, float)
GDN_VERIFY(f16, Half)
GDN_VERIFY(bf16, Bfloat16)
GDN_DRAFT(commit_columns_64, kColumnsThreads, commit_columns<64>(d))
GDN_DRAFT(commit_columns_128, kColumnsThreads, commit_columns<128>(d))
GDN_DRAFT(commit_dpp_64, kWaves* kWave, commit<64 / kWave>(d))
GDN_DRAFT(commit_dpp_128, kWaves* kWave, commit<128 / kWave>(d))
GDN_DRAFT(commit_dpp_256, kWaves* kWave, commit<256 / kWave>(d))

}  // namespace gdn::hip
