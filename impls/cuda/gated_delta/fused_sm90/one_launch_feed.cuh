// What feeds a block of the one-launch kernel: work items, the places of the chunks that will come,
// loads of K, Q and V, and gates. Chunks are numbered through all work items of a block; buffers
// and parities are made of those numbers.
#pragma once

#include "cuda/gated_delta/chunk_sm90/gate_factors.cuh"
#include "cuda/gated_delta/fused_sm90/gate_form.cuh"
#include "cuda/gated_delta/fused_sm90/one_launch_layout.cuh"
#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/gated_delta/fused_sm90/token_tiles.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

// ---- work items

/// Every thread of the block: the sequences' first tokens and their order, longest first (ties in
/// order); a thread's sequence has as rank the number of sequences before it. And zeros to this
/// block's part of the outputs of padding.
__device__ __forceinline__ void order_sequences(uint32_t sm, const OneLaunchParams& a) {
  using Layout = OneLaunchLayout;
  const int n = static_cast<int>(threadIdx.x), sequences = a.p.num_sequences;
  const uint32_t padding = sm + Layout::kLower;  // of each sequence; not yet in use otherwise
  const auto offset = [&](int m) { return load_shared<int>(sm + Layout::kOffsets + 4 * m); };
  if (n <= sequences)
    store_shared(sm + Layout::kOffsets + 4 * n, static_cast<int>(a.p.sequence_offsets[n]));
  if (n < sequences)
    store_shared(padding + 4 * n, static_cast<int>(a.p.slot_index && a.p.slot_index[n] < 0));
  __syncthreads();
  if (n < sequences) {
    const int length = offset(n + 1) - offset(n);
    int rank = 0, begin = offset(0);
    for (int m = 0; m < sequences; m++) {
      const int end = offset(m + 1), other = end - begin;
      rank += other > length || (other == length && m < n);
      begin = end;
    }
    store_shared(sm + Layout::kOrder + 2 * rank, static_cast<uint16_t>(n));
  }
  if (a.p.slot_index) {
    const int64_t token_units = static_cast<int64_t>(a.p.num_value_heads) * kValueDim / 8;
    uint4* const output = static_cast<uint4*>(a.p.output);
    for (int m = 0; m < sequences; m++)
      if (load_shared<int>(padding + 4 * m) != 0)
        for (int64_t i =
                 (offset(m) >> a.rows.log2) * token_units + blockIdx.x * Layout::kThreads + n;
             i < (offset(m + 1) >> a.rows.log2) * token_units; i += gridDim.x * Layout::kThreads)
          output[i] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
}

/// The next work item that has tokens and a state; length -1 when there is none. A block's first
/// candidate has its own number, the others come from a counter, which is back at 0 once every
/// block has found no more: by then it has been asked once for every work item.
__device__ __forceinline__ WorkItem take_item(uint32_t sm, const OneLaunchParams& a, bool first) {
  using Layout = OneLaunchLayout;
  for (;; first = false) {
    WorkItem item{};
    item.length = -1;
    const unsigned int i = first
                               ? blockIdx.x
                               : gridDim.x + atomicInc(reinterpret_cast<unsigned int*>(a.next_item),
                                                       static_cast<unsigned int>(a.items) - 1);
    if (i >= static_cast<unsigned int>(a.items)) return item;
    item.head = static_cast<int>(i) % a.p.num_value_heads;
    const int n = load_shared<uint16_t>(sm + Layout::kOrder + 2 * (i / a.p.num_value_heads));
    item.token0 = load_shared<int>(sm + Layout::kOffsets + 4 * n);
    const int length = load_shared<int>(sm + Layout::kOffsets + 4 * n + 4) - item.token0;
    if (length == 0) continue;  // the pool row stays as it is
    item.length = length;
    item.sequence = n;
    item.pool_row = a.p.slot_index ? static_cast<int>(__ldg(a.p.slot_index.word(n))) : n;
    if (item.pool_row < 0) continue;  // padding: order_sequences has written its outputs
    item.start = from_pool;
    item.flags = ends_sequence;
    return item;
  }
}

/// The same with checkpoints: the tokens up to the next one, of the sequence of which there are any left.
__device__ __forceinline__ WorkItem take_part(uint32_t sm, const OneLaunchParams& a, bool first) {
  using Layout = OneLaunchLayout;
  int4 at = load_shared<int4>(sm + Layout::kGoesOn);  // sequence, head, tokens done, checkpoint
  WorkItem item{};
  if (at.x < 0) {
    item = take_item(sm, a, first);
    if (item.length < 0) return item;
    at = {item.sequence, item.head, 0, 0};
  } else {
    item.sequence = at.x;
    item.head = at.y;
    item.token0 = load_shared<int>(sm + Layout::kOffsets + 4 * at.x);
    item.length = load_shared<int>(sm + Layout::kOffsets + 4 * at.x + 4) - item.token0;
    item.pool_row = a.p.slot_index ? static_cast<int>(__ldg(a.p.slot_index.word(at.x))) : at.x;
  }
  const Checkpoints& checkpoints = a.p.checkpoints;
  const int length = item.length, first_row = at.x * checkpoints.count;
  int end = 0;
  for (; at.w < checkpoints.count && end == 0; at.w++)
    end = static_cast<int>(checkpoints.tokens[first_row + at.w]);
  item.piece_slot = end > 0 ? first_row + at.w - 1 : -1;
  if (end == 0) end = length;
  item.token0 += at.z;
  item.length = end - at.z;
  item.flags = (at.z > 0 ? goes_on : 0) | (end == length ? ends_sequence : 0);
  store_shared(sm + Layout::kGoesOn, make_int4(end == length ? -1 : at.x, at.y, end, at.w));
  return item;
}

/// Every warp: zeros to the checkpoints that are not wanted, a head of one at a time, shared out over the
/// blocks. A lane looks at one of 32: most are wanted.
__device__ __forceinline__ void zero_absent_checkpoints(uint32_t sm, const OneLaunchParams& a) {
  using Layout = OneLaunchLayout;
  const Checkpoints& checkpoints = a.p.checkpoints;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int rows = a.p.num_sequences * checkpoints.count;
  const int64_t heads = int64_t{rows} * a.p.num_value_heads;
  const int64_t units = kStateElements * (checkpoints.states.dtype == DType::float32 ? 4 : 2) / 16;
  const int64_t step = int64_t{gridDim.x} * Layout::kThreads;
  for (int64_t base = int64_t{blockIdx.x} * Layout::kThreads + 32 * warp; base < heads;
       base += step) {
    bool is_absent = false;
    if (base + lane < heads) {
      const int row = static_cast<int>((base + lane) / a.p.num_value_heads),
                n = row / checkpoints.count;
      const bool is_empty = load_shared<int>(sm + Layout::kOffsets + 4 * n) ==
                            load_shared<int>(sm + Layout::kOffsets + 4 * n + 4);
      is_absent =
          is_empty || checkpoints.tokens[row] == 0 || (a.p.slot_index && a.p.slot_index[n] < 0);
    }
    for (uint32_t absent = __ballot_sync(~0u, is_absent); absent != 0; absent &= absent - 1) {
      uint4* const state =
          static_cast<uint4*>(checkpoints.states.data) + (base + __ffs(absent) - 1) * units;
      for (int64_t i = lane; i < units; i += 32) state[i] = make_uint4(0, 0, 0, 0);
    }
  }
}

// ---- feeding the block

/// One thread: where chunk n (of all work items) lies, taking the next work item where it begins
/// one; token -1 past the last. Announce: and hands it on, which the block's start does later.
template <bool Announce, bool kCheckpoints>
__device__ __forceinline__ void publish_place(uint32_t sm, const OneLaunchParams& a, int n) {
  using Layout = OneLaunchLayout;
  int4 next = load_shared<int4>(sm + Layout::kNext);  // token, left, head, work items handed on
  if (next.y == 0) {
    const WorkItem item = kCheckpoints ? take_part(sm, a, n == 0) : take_item(sm, a, n == 0);
    const int slot = next.w % Layout::kItemSlots;
    mbarrier_wait(sm + Layout::kItemEmpty + 8 * slot, ring_parity(next.w, Layout::kItemSlots) ^ 1);
    item.store(sm + Layout::kItems + WorkItem::kBytes * slot);
    if constexpr (Announce) mbarrier_arrive(sm + Layout::kItemFull + 8 * slot);
    next = {item.length < 0 ? -1 : item.token0, item.length, item.head, next.w + 1};
  }
  store_shared(sm + Layout::kPlace + 16 * (n % Layout::kPlaces), next);
  if (next.y > 0) {
    next.x += kChunk;
    next.y = max(next.y - kChunk, 0);
  }
  store_shared(sm + Layout::kNext, next);
}
/// One thread: hands on the work items that were taken and not announced.
__device__ __forceinline__ void announce_items(uint32_t sm) {
  using Layout = OneLaunchLayout;
  const int taken = load_shared<int4>(sm + Layout::kNext).w;
  for (int slot = 0; slot < taken; slot++) mbarrier_arrive(sm + Layout::kItemFull + 8 * slot);
}
__device__ __forceinline__ int4 load_place(uint32_t sm, int n) {
  return load_shared<int4>(sm + OneLaunchLayout::kPlace + 16 * (n % OneLaunchLayout::kPlaces));
}

/// One thread: K of a chunk, once the tile before it is read.
__device__ __forceinline__ void load_key(uint32_t sm, const CUtensorMap* map,
                                         const OneLaunchParams& a, int4 place,
                                         RingCursor<OneLaunchLayout::Keys> key) {
  const uint32_t full = key.full(sm);
  key.await_empty(sm);
  mbarrier_arrive_expect(full, OneLaunchLayout::kTileBytes);
  load_key_columns(key.buffer(sm), map, full, a.rows, a.rows.first_step, place.x, 0,
                   place.z / a.p.value_heads_per_key_head);
}
/// The same of Q.
__device__ __forceinline__ void load_query(uint32_t sm, const CUtensorMap* map,
                                           const OneLaunchParams& a, int4 place,
                                           RingCursor<OneLaunchLayout::Queries> query) {
  const uint32_t full = query.full(sm);
  query.await_empty(sm);
  mbarrier_arrive_expect(full, OneLaunchLayout::kTileBytes);
  load_key_columns(query.buffer(sm), map, full, a.rows, a.rows.query_step, place.x, 0,
                   place.z / a.p.value_heads_per_key_head);
}
/// One thread: 64 columns of V to their half of a stage.
__device__ __forceinline__ void load_value(uint32_t sm, const CUtensorMap* value_map,
                                           const TokenRows& rows, int stage, int token, int panel,
                                           int head) {
  using Layout = OneLaunchLayout;
  const uint32_t full = sm + Layout::kValueFull + 8 * stage;
  mbarrier_arrive_expect(full, Layout::kPanelBytes);
  load_value_tile(sm + Layout::kValue + stage * Layout::kValueBytes + panel * Layout::kPanelBytes,
                  value_map, full, rows, token, panel, head);
}

/// What the leader of math warpgroup `panel` loads (chain_math_role's LoadAhead).
struct MathLoads {
  uint32_t sm;
  const CUtensorMap *query_map, *key_map, *value_map;
  const OneLaunchParams& a;
  int panel;

  using Key = RingCursor<OneLaunchLayout::Keys>;
  using Query = RingCursor<OneLaunchLayout::Queries>;
  using Value = RingCursor<OneLaunchLayout::Values>;

  __device__ __forceinline__ void begin(const WorkItem& item) const {
    load_value(sm, value_map, a.rows, 0, item.token0, panel, item.head);
  }
  // In chunk n: V of n + 1, and by the first warpgroup K and Q of n + 3. Their places are published
  // before the record of n (V's: of n - 1). The tiles before them in their buffers were read long
  // ago, by the other warpgroup too, which may be half a chunk behind.
  static_assert(OneLaunchLayout::kLoadAhead == 3 && OneLaunchLayout::kKeyStages == 4 &&
                OneLaunchLayout::kQueryStages == 3 && OneLaunchLayout::kValueStages == 2 &&
                OneLaunchLayout::kPlaces == 8);
  __device__ __forceinline__ static int chunk_modulo_8(Key key) {
    return static_cast<int>(key.index + 4 * key.round_parity);
  }
  __device__ __forceinline__ void value(Key key, Value value) const {
    const int4 place = load_place(sm, chunk_modulo_8(key) + 1);
    if (place.x >= 0)
      load_value(sm, value_map, a.rows, static_cast<int>(value.index ^ 1), place.x, panel, place.z);
  }
  __device__ __forceinline__ void key(Key key) const {
    if (panel != 0) return;
    const int n = chunk_modulo_8(key) + 3;
    const int4 place = load_place(sm, n);
    key.index = n & 3;
    key.round_parity = (n >> 2) & 1;
    if (place.x >= 0) load_key(sm, key_map, a, place, key);
  }
  __device__ __forceinline__ void query(Key key, Query query) const {
    if (panel != 0) return;
    const int4 place = load_place(sm, chunk_modulo_8(key) + 3);
    query.round_parity ^= 1;  // the same stage again
    if (place.x >= 0) load_query(sm, query_map, a, place, query);
  }
};

/// Which half of an aligned word of four bytes an element of 16 bits is.
template <GateForm Form>
__device__ __forceinline__ int half_of_word(const NumberArray& from, int64_t token, int head) {
  if constexpr (in_pairs(Form)) return head & 1;
  const auto first = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from.data) / 2);
  return static_cast<int>((first + static_cast<uint32_t>(from.index(token, head))) & 1);
}
/// A gate or a beta on its way to shared memory. Copies are of four bytes at least: of a 16-bit one the word
/// that it is half of is copied. Where the other half may lie behind the array it is waited for instead.
template <GateForm Form>
__device__ __forceinline__ void fetch_number(uint32_t to, const NumberArray& from, int64_t token,
                                             int head, bool may_be_last) {
  if (from.type == DType::float32)
    return copy_4_async(to, static_cast<const float*>(from.data) + from.index(token, head));
  const auto* const element = static_cast<const uint16_t*>(from.data) + from.index(token, head);
  const bool is_high = half_of_word<Form>(from, token, head) != 0;
  if (in_pairs(Form) || is_high || (from.inner_stride == 1 && !may_be_last)) {
    copy_4_async(to, reinterpret_cast<const float*>(element - is_high));
  } else {
    store_shared(to, uint32_t{*element});
  }
}
/// Of a word that fetch_number() brought.
template <GateForm Form>
__device__ __forceinline__ float fetched_number(float word, const NumberArray& from, int64_t token,
                                                int head) {
  if (from.type == DType::float32) return word;
  const int half = half_of_word<Form>(from, token, head);
  return from.type == DType::bfloat16 ? widen_half_word<__nv_bfloat16>(__float_as_uint(word), half)
                                      : widen_half_word<__half>(__float_as_uint(word), half);
}
/// One warp: starts to bring the gates of chunk n. Another scans them, behind the barrier that follows this
/// one's wait for its copies.
template <typename Token, GateForm Form>
__device__ __forceinline__ void fetch_gates(uint32_t sm, const OneLaunchParams& a, int n, int l) {
  const int4 place = load_place(sm, n);
  if (place.x < 0) return;
  const GateParams from = known_gates<Form, Token>(a.p.gates);
  const uint32_t raw = sm + OneLaunchLayout::kRawGates + 512 * (n & 1) + 8 * l;
#pragma unroll
  for (int e = 0; e < 2; e++)
    if (2 * l + e < place.y) {
      const int64_t token = place.x + 2 * l + e;
      const bool may_be_last = 2 * l + e + 1 == place.y && place.z + 1 == from.num_value_heads;
      fetch_number<Form>(raw + 4 * e, from.gate, token, place.z, may_be_last);
      fetch_number<Form>(raw + 256 + 4 * e, from.beta, token, place.z, may_be_last);
    }
}
/// One warp: the gates of chunk n, which have arrived, scanned. This warp's time is the block's where
/// chunks are short of it.
template <typename Token, GateForm Form>
__device__ __forceinline__ void scan_fetched_gates(uint32_t sm, const OneLaunchParams& a, int n,
                                                   int l) {
  using Layout = OneLaunchLayout;
  const int4 place = load_place(sm, n);
  if (place.x < 0) return;
  const uint32_t raw = sm + Layout::kRawGates + 512 * (n & 1) + 8 * l;
  float2 x = load_shared<float2>(raw), beta = load_shared<float2>(raw + 256);
  if constexpr (Form != GateForm::as_they_are) {
    const GateParams from = known_gates<Form, Token>(a.p.gates);
    const HeadGates of_head = head_gates(from, place.z, place.z);
    const int64_t token = place.x + 2 * l;
    x = {fetched_number<Form>(x.x, from.gate, token, place.z),
         fetched_number<Form>(x.y, from.gate, token + 1, place.z)};
    beta = {fetched_number<Form>(beta.x, from.beta, token, place.z),
            fetched_number<Form>(beta.y, from.beta, token + 1, place.z)};
    x = {decode_log_decay(from, x.x, of_head), decode_log_decay(from, x.y, of_head)};
    beta = {decode_beta(from, beta.x), decode_beta(from, beta.y)};
  }
  const bool in0 = 2 * l < place.y, in1 = 2 * l + 1 < place.y;
  x.x = in0 ? log2_decay(x.x) : 0.f;
  x.y = in1 ? log2_decay(x.y) : 0.f;
  beta.x = in0 ? beta.x : 0.f;
  beta.y = in1 ? beta.y : 0.f;
  const int stage = n % Layout::kGateStages;
  mbarrier_wait(sm + Layout::kGateEmpty + 8 * stage, ring_parity(n, Layout::kGateStages) ^ 1);
  scan_gates(sm + Layout::kGate + stage * GateLayout::kBytes, x.x, x.y, beta.x, beta.y, l);
  mbarrier_arrive(sm + Layout::kGateFull + 8 * stage);  // every lane, for its own writes
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
