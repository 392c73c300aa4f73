// The one-launch kernel of fused_sm90, for work items that fill most of the device, where it is
// expected to take less time than prepare and chain: no records in memory. A block takes whole
// (sequence, value head) work items, longest first, and has four warpgroups:
//
//   two of math (fused_sm90_chain.cuh), 64 columns of V each;
//   first auxiliary:  K K^T -> L, Q K^T -> P and the factors of the record;
//   second auxiliary: (I + L)^-1 -> T. Its last two warps, with few blocks or none to merge,
//     also feed the block: warp 2 takes the work items, says which chunks will come and brings
//     their gates; warp 3 scans the gates a chunk ahead of its own inverse.
//
// The math warpgroups' leaders load K and Q three chunks ahead, and V one, each its own columns
// into the buffer that O has just left.
//
// Records are the chain's, in shared memory: two stages that the auxiliary warpgroups fill where
// the chain kernel's loads would. T, P and factors come from the same steps as the prepare kernel's
// (fused_sm90_triangles.cuh) and have the same bits.
//
// Bound by: latency, of the auxiliary warps' steps beside wgmma and of V from memory. Their code is
// kept straight: 16 warps in three roles outgrow the instruction cache, and jumps miss it.
// Reached: 2.6 to 2.7 us a chunk. fused_sm90.md.
#pragma once

#include "cuda/gated_delta/fused_sm90.h"
#include "cuda/gated_delta/fused_sm90_chain.cuh"
#include "cuda/gated_delta/fused_sm90_triangles.cuh"

namespace gdn::cuda::fused_sm90 {

struct OneLaunchLayout {
  static constexpr int kMathWarpgroups = 2;
  static constexpr bool kWholeSequences = true, kRecordsFromKeys = true, kMathLoads = true,
                        kRegistersToSpare = false;
  static constexpr int kThreads = 512;
  static constexpr int kLoadAhead = 3;   // chunks that loads of K and Q are ahead of the math
  static constexpr int kScanAhead = 1;   // that gates are scanned ahead of the inverse,
  static constexpr int kFetchAhead = 2;  // fetched,
  static constexpr int kPlaceAhead = 3;  // and that it is known which chunks will come
  static constexpr int kPlaces = 8;      // from two behind to kPlaceAhead ahead
  static constexpr int kUnitSlots = 8;   // each of these may be of another work item
  static constexpr int kKeyStages = 4, kQueryStages = 3, kValueStages = 2, kRecordStages = 2,
                       kGateStages = 3, kLowerStages = 2;
  static constexpr uint32_t kTileBytes = 16384;  // [2 panels][64 tokens][64]
  static constexpr uint32_t kValueBytes = 16384;
  static constexpr uint32_t kSlice = 2048, kP = 8192, kFactors = 16384, kRecordStage = 17664;
  static constexpr uint32_t kGateBytes = 2064;
  // L of one chunk: LowerTile, after whose first row stands whether it is in two parts and whether
  // the chunk forgets, and the diagonal blocks of four warps
  static constexpr uint32_t kParts = 128, kForgets = 132, kDiagonal = LowerTile::kBytes,
                            kLowerStage = kDiagonal + 4 * LowerTile::kDiagonalBytes;
  static constexpr uint32_t kLengths = 512;  // inverse lengths [64] of K, [64] of Q

  static constexpr uint32_t kKey = 0;
  static constexpr uint32_t kQuery = kKey + kKeyStages * kTileBytes;
  static constexpr uint32_t kValue = kQuery + kQueryStages * kTileBytes;
  static constexpr uint32_t kRecord = kValue + kValueStages * kValueBytes;
  static constexpr uint32_t kLower = kRecord + kRecordStages * kRecordStage;
  static constexpr uint32_t kLowParts = kLower + kLowerStages * kLowerStage;  // one for both stages
  static constexpr uint32_t kGate = kLowParts + LowerTile::kBytes;
  static constexpr uint32_t kInverseLength = kGate + kGateStages * kGateBytes;  // two of
  static constexpr uint32_t kKeySquares = kInverseLength + 2 * kLengths;        // two of 4 floats
  static constexpr uint32_t kUnits = kKeySquares + 32;
  static constexpr uint32_t kNext = kUnits + kUnitSlots * kUnitBytes;  // publish_place's own
  static constexpr uint32_t kPlace = kNext + 16;  // token, tokens left, head of a chunk
  static constexpr uint32_t kRawGates = kPlace + 16 * kPlaces;  // two of [64] gate, [64] beta
  // barriers, 8 bytes each
  static constexpr uint32_t kKeyFull = kRawGates + 1024;
  static constexpr uint32_t kKeyEmpty = kKeyFull + 8 * kKeyStages;
  static constexpr uint32_t kQueryFull = kKeyEmpty + 8 * kKeyStages;
  static constexpr uint32_t kQueryEmpty = kQueryFull + 8 * kQueryStages;
  static constexpr uint32_t kValueFull = kQueryEmpty + 8 * kQueryStages;
  static constexpr uint32_t kValueEmpty = kValueFull;  // none: who empties it loads
  static constexpr uint32_t kRecordFull = kValueFull + 8 * kValueStages;  // T and P
  static constexpr uint32_t kFactorsFull = kRecordFull + 8 * kRecordStages;
  static constexpr uint32_t kRecordEmpty = kFactorsFull + 8 * kRecordStages;
  static constexpr uint32_t kGateFull = kRecordEmpty + 8 * kRecordStages;
  static constexpr uint32_t kGateEmpty = kGateFull + 8 * kGateStages;
  static constexpr uint32_t kLowerFull = kGateEmpty + 8 * kGateStages;
  static constexpr uint32_t kLowerEmpty = kLowerFull + 8 * kLowerStages;
  static constexpr uint32_t kSquaresFull = kLowerEmpty + 8 * kLowerStages;
  static constexpr uint32_t kUnitFull = kSquaresFull + 8;
  static constexpr uint32_t kUnitEmpty = kUnitFull + 8 * kUnitSlots;
  // sequences: first tokens [N + 1], then order [N], 16-bit
  static constexpr uint32_t kOffsets = kUnitEmpty + 8 * kUnitSlots;
  static constexpr uint32_t kOrder = kOffsets + 4 * (kMostOrderedSequences + 1);
  static constexpr uint32_t kBytes = kOrder + 2 * kMostOrderedSequences + 1024;  // to align tiles
};
static_assert(OneLaunchLayout::kBytes <= 232448 && OneLaunchLayout::kForgets < LowerTile::kRow &&
              OneLaunchLayout::kKeyFull % 8 == 0 &&
              OneLaunchLayout::kLowerStages == OneLaunchLayout::kRecordStages &&
              OneLaunchLayout::kLowerStages == 2 &&  // kSquaresFull's parity is the stage
              OneLaunchLayout::kLower % 16 == 0 && OneLaunchLayout::kUnits % 16 == 0);

// Named barriers: 3 and 4 are the math warpgroups' own, 5 is theirs together.
inline constexpr int kFirstBarrier = 6, kSecondBarrier = 7;

/// Every thread of the block: the sequences' first tokens and their order, longest first (ties in
/// order); a thread's sequence has as rank the number of sequences before it. And zeros to this
/// block's part of the outputs of padding.
__device__ __forceinline__ void order_sequences(uint32_t sm, const KernelArguments& a) {
  using Layout = OneLaunchLayout;
  const int n = static_cast<int>(threadIdx.x), sequences = a.p.num_sequences;
  const uint32_t padding = sm + Layout::kLower;  // of each sequence; not yet in use otherwise
  const auto offset = [&](int m) { return load_shared<int>(sm + Layout::kOffsets + 4 * m); };
  if (n <= sequences)
    store_shared(sm + Layout::kOffsets + 4 * n, static_cast<int>(a.p.sequence_offsets[n]));
  if (n < sequences)
    store_shared(padding + 4 * n,
                 static_cast<int>(a.p.slot_index != nullptr && a.p.slot_index[n] < 0));
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
  if (a.p.slot_index != nullptr) {
    const int64_t token_units = static_cast<int64_t>(a.p.num_value_heads) * kDim / 8;
    uint4* const output = static_cast<uint4*>(a.p.output);
    for (int m = 0; m < sequences; m++)
      if (load_shared<int>(padding + 4 * m) != 0)
        for (int64_t i = offset(m) * token_units + blockIdx.x * Layout::kThreads + n;
             i < offset(m + 1) * token_units; i += gridDim.x * Layout::kThreads)
          output[i] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
}

/// The next work item that has tokens and a state; length -1 when there is none. A block's first
/// candidate has its own number, the others come from a counter, which is back at 0 once every
/// block has found no more: by then it has been asked once for every work item.
__device__ __forceinline__ Unit take_whole_unit(uint32_t sm, const KernelArguments& a, bool first) {
  using Layout = OneLaunchLayout;
  for (;; first = false) {
    Unit u{};
    u.length = -1;
    const unsigned int i = first
                               ? blockIdx.x
                               : gridDim.x + atomicInc(reinterpret_cast<unsigned int*>(a.next_unit),
                                                       static_cast<unsigned int>(a.units) - 1);
    if (i >= static_cast<unsigned int>(a.units)) return u;
    u.head = static_cast<int>(i) % a.p.num_value_heads;
    const int n = load_shared<uint16_t>(sm + Layout::kOrder + 2 * (i / a.p.num_value_heads));
    u.token0 = load_shared<int>(sm + Layout::kOffsets + 4 * n);
    const int length = load_shared<int>(sm + Layout::kOffsets + 4 * n + 4) - u.token0;
    if (length == 0) continue;  // the pool row stays as it is
    u.length = length;
    u.pool_row = a.p.slot_index != nullptr ? static_cast<int>(__ldg(a.p.slot_index + n)) : n;
    if (u.pool_row < 0) continue;  // padding: order_sequences has written its outputs
    u.start = from_pool;
    u.flags = ends_sequence;
    return u;
  }
}

// ---- feeding the block
// ------------------------------------------------------------------------------

/// One thread: where chunk n (of all work items) lies, taking the next work item where it begins
/// one; token -1 past the last. Announce: and hands it on, which the block's start does later.
template <bool Announce>
__device__ __forceinline__ void publish_place(uint32_t sm, const KernelArguments& a, int n) {
  using Layout = OneLaunchLayout;
  int4 next = load_shared<int4>(sm + Layout::kNext);  // token, left, head, work items handed on
  if (next.y == 0) {
    const Unit u = take_whole_unit(sm, a, n == 0);
    const int slot = next.w % Layout::kUnitSlots;
    mbarrier_wait(sm + Layout::kUnitEmpty + 8 * slot, ring_parity(next.w, Layout::kUnitSlots) ^ 1);
    store_unit(sm + Layout::kUnits + kUnitBytes * slot, u);
    if constexpr (Announce) mbarrier_arrive(sm + Layout::kUnitFull + 8 * slot);
    next = {u.length < 0 ? -1 : u.token0, u.length, u.head, next.w + 1};
  }
  store_shared(sm + Layout::kPlace + 16 * (n % Layout::kPlaces), next);
  if (next.y > 0) {
    next.x += kChunk;
    next.y = max(next.y - kChunk, 0);
  }
  store_shared(sm + Layout::kNext, next);
}
__device__ __forceinline__ int4 load_place(uint32_t sm, int n) {
  return load_shared<int4>(sm + OneLaunchLayout::kPlace + 16 * (n % OneLaunchLayout::kPlaces));
}

/// One thread: K of a chunk, once the tile before it is read.
__device__ __forceinline__ void load_key(uint32_t sm, const CUtensorMap* map,
                                         const KernelArguments& a, int4 place,
                                         RingPosition<OneLaunchLayout::kKeyStages> key) {
  using Layout = OneLaunchLayout;
  const uint32_t full = sm + Layout::kKeyFull + 8 * key.index;
  mbarrier_wait(sm + Layout::kKeyEmpty + 8 * key.index, key.round_parity ^ 1);
  mbarrier_arrive_expect(full, Layout::kTileBytes);
  tensor_load(sm + Layout::kKey + key.index * Layout::kTileBytes, map, full, 0, place.x, 0,
              place.z / a.p.value_heads_per_key_head);
}
/// The same of Q.
__device__ __forceinline__ void load_query(uint32_t sm, const CUtensorMap* map,
                                           const KernelArguments& a, int4 place,
                                           RingPosition<OneLaunchLayout::kQueryStages> query) {
  using Layout = OneLaunchLayout;
  const uint32_t full = sm + Layout::kQueryFull + 8 * query.index;
  mbarrier_wait(sm + Layout::kQueryEmpty + 8 * query.index, query.round_parity ^ 1);
  mbarrier_arrive_expect(full, Layout::kTileBytes);
  tensor_load(sm + Layout::kQuery + query.index * Layout::kTileBytes, map, full, 0, place.x, 0,
              place.z / a.p.value_heads_per_key_head);
}
/// One thread: 64 columns of V to their half of a stage.
__device__ __forceinline__ void load_value(uint32_t sm, const CUtensorMap* value_map, int stage,
                                           int token, int panel, int head) {
  using Layout = OneLaunchLayout;
  const uint32_t full = sm + Layout::kValueFull + 8 * stage;
  mbarrier_arrive_expect(full, Layout::kValueBytes / 2);
  tensor_load(sm + Layout::kValue + stage * Layout::kValueBytes + panel * (Layout::kValueBytes / 2),
              value_map, full, 0, token, panel, head);
}

/// What the leader of math warpgroup `panel` loads (math_role's LoadAhead).
struct MathLoads {
  uint32_t sm;
  const CUtensorMap *query_map, *key_map, *value_map;
  const KernelArguments& a;
  int panel;

  using Key = RingPosition<OneLaunchLayout::kKeyStages>;
  using Query = RingPosition<OneLaunchLayout::kQueryStages>;
  using Value = RingPosition<OneLaunchLayout::kValueStages>;

  __device__ __forceinline__ void begin(const Unit& u) const {
    load_value(sm, value_map, 0, u.token0, panel, u.head);
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
      load_value(sm, value_map, static_cast<int>(value.index ^ 1), place.x, panel, place.z);
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

/// One warp: starts to bring the gates of chunk n.
__device__ __forceinline__ void fetch_gates(uint32_t sm, const KernelArguments& a, int n, int l) {
  const int4 place = load_place(sm, n);
  if (place.x < 0) return;
  const int64_t first = static_cast<int64_t>(place.x + 2 * l) * a.p.num_value_heads + place.z;
  const uint32_t raw = sm + OneLaunchLayout::kRawGates + 512 * (n & 1) + 8 * l;
#pragma unroll
  for (int e = 0; e < 2; e++)
    if (2 * l + e < place.y) {
      copy_4_async(raw + 4 * e, a.p.gates.gate + first + e * a.p.num_value_heads);
      copy_4_async(raw + 256 + 4 * e, a.p.gates.beta + first + e * a.p.num_value_heads);
    }
}
/// One warp: the gates of chunk n, which have arrived, scanned.
__device__ __forceinline__ void scan_fetched_gates(uint32_t sm, const KernelArguments& a, int n,
                                                   int l) {
  using Layout = OneLaunchLayout;
  const int4 place = load_place(sm, n);
  if (place.x < 0) return;
  const uint32_t raw = sm + Layout::kRawGates + 512 * (n & 1) + 8 * l;
  float2 x = load_shared<float2>(raw), beta = load_shared<float2>(raw + 256);
  const GateParams& gates = a.p.gates;
  if (gates.gate_encoding != GateEncoding::log_decay || gates.beta_encoding != BetaEncoding::beta)
      [[unlikely]] {
    x = {decode_log_decay(gates, x.x, place.z), decode_log_decay(gates, x.y, place.z)};
    beta = {decode_beta(gates, beta.x), decode_beta(gates, beta.y)};
  }
  const bool in0 = 2 * l < place.y, in1 = 2 * l + 1 < place.y;
  x.x = in0 ? fmaxf(x.x * kLog2E, kFullReset) : 0.f;
  x.y = in1 ? fmaxf(x.y * kLog2E, kFullReset) : 0.f;
  beta.x = in0 ? beta.x : 0.f;
  beta.y = in1 ? beta.y : 0.f;
  const int stage = n % Layout::kGateStages;
  mbarrier_wait(sm + Layout::kGateEmpty + 8 * stage, ring_parity(n, Layout::kGateStages) ^ 1);
  scan_gates(sm + Layout::kGate + stage * Layout::kGateBytes, x.x, x.y, beta.x, beta.y, l);
  mbarrier_arrive(sm + Layout::kGateFull + 8 * stage);  // every lane, for its own writes
}

// ---- auxiliary warpgroups
// ------------------------------------------------------------------------

/// The first: L, P and factors of every chunk.
template <typename Token, bool Normalize>
__device__ __forceinline__ void first_auxiliary_role(uint32_t sm, const KernelArguments& a, int t) {
  using Layout = OneLaunchLayout;
  const int w = __shfl_sync(~0u, t >> 5, 0);
  RingPosition<Layout::kKeyStages> key;
  RingPosition<Layout::kQueryStages> query;
  RingPosition<Layout::kRecordStages> record;
  RingPosition<Layout::kGateStages> gate;
  RingPosition<Layout::kLowerStages> lower;
  for (int unit = 0;; unit++) {
    const Unit u = follow_unit<Layout>(sm, unit);
    if (u.length < 0) break;
#pragma unroll 1
    for (int left = u.length; left > 0; left -= kChunk) {
      int l = t & 31;
      asm volatile(""
                   : "+r"(l));  // lane addresses are made anew for each chunk: hoisted, they spill
      const int valid = min(left, kChunk);
      const uint32_t K = sm + Layout::kKey + key.index * Layout::kTileBytes,
                     Q = sm + Layout::kQuery + query.index * Layout::kTileBytes,
                     T = sm + Layout::kRecord + record.index * Layout::kRecordStage,
                     L = sm + Layout::kLower + lower.index * Layout::kLowerStage,
                     gates = sm + Layout::kGate + gate.index * Layout::kGateBytes,
                     lengths = sm + Layout::kInverseLength + lower.index * Layout::kLengths,
                     squares = sm + Layout::kKeySquares + lower.index * 16;
      float x[32];  // K K^T, then Q K^T [64 x 64], rows 16w + l/4 (+8)
      const uint64_t key_tile = wgmma::k_major_128(K), query_tile = wgmma::k_major_128(Q);
      mbarrier_wait(sm + Layout::kKeyFull + 8 * key.index, key.round_parity);
      if (valid < kChunk) [[unlikely]] {  // rows past the sequence's end are zeros from here on
        mbarrier_wait(sm + Layout::kQueryFull + 8 * query.index, query.round_parity);
        zero_rows(K, valid, t);
        zero_rows(K + 8192, valid, t);
        zero_rows(Q, valid, t);
        zero_rows(Q + 8192, valid, t);
        fence_async_proxy();
        named_barrier_sync(kFirstBarrier, 128);
      }
      wgmma::hold(x);
      wgmma::registers_ready();
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int step = 2 * (i & 3) + 512 * (i >> 2);
        wgmma::multiply_ss_n64<Token>(x, key_tile + step, key_tile + step, i > 0);
      }
      wgmma::commit();
      if constexpr (Normalize) {
        store_inverse_lengths<Token>(K, lengths, valid, t);
        mbarrier_wait(sm + Layout::kQueryFull + 8 * query.index, query.round_parity);
        store_inverse_lengths<Token>(Q, lengths + 256, valid, t);
        named_barrier_sync(kFirstBarrier, 128);  // lengths of all rows
      }
      mbarrier_wait(sm + Layout::kGateFull + 8 * gate.index, gate.round_parity);
      mbarrier_wait(sm + Layout::kLowerEmpty + 8 * lower.index, lower.round_parity ^ 1);
      wgmma::wait<0>();
      wgmma::hold(x);
      if constexpr (Normalize) {
        scale_by_lengths(x, lengths, lengths, w, l);
      } else {
        const uint32_t own = largest_key_square(x, w);
        if (l == 0) {
          store_shared(squares + 4 * w, own);
          mbarrier_arrive(sm + Layout::kSquaresFull);
        }
      }
      {
        const RowPair beta = load_rows(gates + GateLayout::kBeta, w, l),
                      from = load_rows(gates + GateLayout::kFromBlock, w, l);
        const RowPair rows{from.x * beta.x, from.y * beta.y};
        const uint32_t diagonal = L + Layout::kDiagonal + LowerTile::kDiagonalBytes * w;
        for_lower_blocks(
            gates, w, l, [&](int jb, const float2(&f)[2]) { store_lower(L, x, jb, rows, f, w, l); },
            [&](int jb, const float(&m)[2][4]) {
              store_lower_diagonal(diagonal, x, jb, beta, m, l);
            });
        float largest = 1.f;  // |k|^2
        if constexpr (!Normalize) {
          mbarrier_wait(sm + Layout::kSquaresFull, lower.index);
          largest = largest_key_square(squares);
        }
        const bool parts = !(largest_step(gates, largest) <= kFloat16Limit);
        if (parts) [[unlikely]] {  // again, in two parts
          // the low parts' one tile is read until the chunk before is merged
          const int other = lower.index ^ 1;
          mbarrier_wait(sm + Layout::kLowerEmpty + 8 * other,
                        lower.round_parity ^ static_cast<uint32_t>(lower.index == 0));
          for_lower_blocks(
              gates, w, l,
              [&](int jb, const float2(&f)[2]) {
                store_lower_parts(L, sm + Layout::kLowParts, x, jb, rows, f, w, l);
              },
              [](int, const float(&)[2][4]) {});
        }
        if (t == 0) {
          store_shared(L + Layout::kParts, static_cast<int>(parts));
          store_shared(
              L + Layout::kForgets,
              static_cast<int>(forgets(load_shared<float>(gates + GateLayout::kGamma + 252))));
        }
      }
      mbarrier_arrive(sm + Layout::kLowerFull + 8 * lower.index);  // every lane, for its own writes

      mbarrier_wait(sm + Layout::kQueryFull + 8 * query.index, query.round_parity);
      wgmma::hold(x);
      wgmma::registers_ready();
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int step = 2 * (i & 3) + 512 * (i >> 2);
        wgmma::multiply_ss_n64<Token>(x, query_tile + step, key_tile + step, i > 0);
      }
      wgmma::commit();
      mbarrier_wait(sm + Layout::kRecordEmpty + 8 * record.index, record.round_parity ^ 1);
      store_factors<Normalize>(T + Layout::kFactors, gates, lengths, a.p.scale, t);
      mbarrier_arrive(sm + Layout::kFactorsFull + 8 * record.index);
      wgmma::wait<0>();
      wgmma::hold(x);
      if (l == 0) {
        mbarrier_arrive(sm + Layout::kKeyEmpty + 8 * key.index);
        mbarrier_arrive(sm + Layout::kQueryEmpty + 8 * query.index);
      }
      if constexpr (Normalize) scale_by_lengths(x, lengths + 256, lengths, w, l);
      {
        const RowPair from = load_rows(gates + GateLayout::kFromBlock, w, l);
        const RowPair rows{from.x * a.p.scale, from.y * a.p.scale};
        const uint32_t p_at = slice_lane(T + Layout::kP, w, l, false);
        for_lower_blocks(
            gates, w, l,
            [&](int jb, const float2(&f)[2]) {
              store_p<Token>(p_at + Layout::kSlice * jb, x, jb, rows, f);
            },
            [&](int jb, const float(&m)[2][4]) {
              store_p_diagonal<Token>(p_at + Layout::kSlice * jb, x, jb, a.p.scale, m, l);
            });
      }
      fence_async_proxy();
      mbarrier_arrive(sm + Layout::kRecordFull + 8 * record.index);
      mbarrier_arrive(sm + Layout::kGateEmpty + 8 * gate.index);
      key.advance();
      query.advance();
      record.advance();
      gate.advance();
      lower.advance();
    }
  }
}

/// The second: T of every chunk; and the block's feed.
template <typename Token>
__device__ __forceinline__ void second_auxiliary_role(uint32_t sm, const CUtensorMap* query_map,
                                                      const CUtensorMap* key_map,
                                                      const KernelArguments& a, int t) {
  using Layout = OneLaunchLayout;
  {  // the feed starts, with what is needed first: gates, K and Q of chunk 0, then the state
    const int w = __shfl_sync(~0u, t >> 5, 0), l = t & 31;
    if (t == 64) {
      store_shared(sm + Layout::kNext, make_int4(0, 0, 0, 0));
#pragma unroll 1
      for (int n = 0; n < Layout::kPlaceAhead; n++) publish_place<false>(sm, a, n);
    }
    named_barrier_sync(kSecondBarrier, 128);
    if (w == 3) {
      fetch_gates(sm, a, 0, l);
      fetch_gates(sm, a, 1, l);
      wait_own_copies();
      scan_fetched_gates(sm, a, 0, l);
    } else if (t == 64) {
#pragma unroll 1
      for (int n = 0; n < Layout::kPlaceAhead; n++) {
        const int4 place = load_place(sm, n);
        const auto stage = static_cast<uint32_t>(n);
        if (place.x >= 0) {
          load_key(sm, key_map, a, place, {stage, 0});
          load_query(sm, query_map, a, place, {stage, 0});
        }
        if (n == 0) {
          const int taken = load_shared<int4>(sm + Layout::kNext).w;
          for (int slot = 0; slot < taken; slot++)
            mbarrier_arrive(sm + Layout::kUnitFull + 8 * slot);
        }
      }
    }
    named_barrier_sync(kSecondBarrier, 128);
  }
  // Before chunk n of all work items (buffers and parities are made of n): the place of n + 3, the
  // gates of n + 2, the scan of n + 1.
  const auto feed = [&](int n, int w, int l) {
    if (w == 2) {
      fetch_gates(sm, a, n + Layout::kFetchAhead, l);
      if (l == 0) publish_place<true>(sm, a, n + Layout::kPlaceAhead);
      __syncwarp();
    } else if (w == 3) {
      scan_fetched_gates(sm, a, n + Layout::kScanAhead, l);
    }
  };
  // Every diagonal block is inverted, and the buffers that the merge reads and writes are there.
  const auto meet = [&](int n, int w) {
    if (w == 2) wait_own_copies();  // gates
    named_barrier_sync(kSecondBarrier, 128);
    mbarrier_wait(sm + Layout::kRecordEmpty + 8 * (n % Layout::kRecordStages),
                  ring_parity(n, Layout::kRecordStages) ^ 1);
  };
  const auto hand_on = [&](int n) {
    fence_async_proxy();
    mbarrier_arrive(sm + Layout::kLowerEmpty + 8 * (n % Layout::kLowerStages));
    mbarrier_arrive(sm + Layout::kRecordFull + 8 * (n % Layout::kRecordStages));
  };
  const auto lower_tile = [&](int n) {
    return sm + Layout::kLower + (n % Layout::kLowerStages) * Layout::kLowerStage;
  };
  const auto diagonal = [&](int n, int w) {
    return lower_tile(n) + Layout::kDiagonal + LowerTile::kDiagonalBytes * w;
  };
  const auto column_of_t = [&](int n, int w, int l) {
    const uint32_t T = sm + Layout::kRecord + (n % Layout::kRecordStages) * Layout::kRecordStage;
    return slice_lane(T + Layout::kSlice * w, w, l, true);
  };
  const auto kept_of = [](uint32_t L, int l) {
    return diagonal_kept(load_shared<int>(L + Layout::kForgets) != 0, l);
  };
#pragma unroll 1
  for (int chunk = 0;;) {
    // Chunks in float16. One in two parts leaves this loop: its code is not jumped over in each
    // round, jumps miss the instruction cache.
#pragma unroll 1
    for (;; chunk++) {
      asm volatile("" : "+r"(t));  // addresses of lane and warp are made anew: hoisted, they spill
      const int l = t & 31, w = __shfl_sync(~0u, t >> 5, 0);
      feed(chunk, w, l);
      if (load_place(sm, chunk).x < 0) return;
      mbarrier_wait(sm + Layout::kLowerFull + 8 * (chunk % Layout::kLowerStages),
                    ring_parity(chunk, Layout::kLowerStages));
      const uint32_t L = lower_tile(chunk), own_block = w * LowerTile::block(1, 1);
      if (__shfl_sync(~0u, load_shared<int>(L + Layout::kParts), 0) != 0) break;
      invert_diagonal(L + own_block, diagonal(chunk, w), l);
      meet(chunk, w);
      asm volatile("" : "+r"(chunk));  // likewise
      merge_column<Token>(tile_lane(L, l) + own_block, column_of_t(chunk, w, l), kept_of(L, l), w);
      hand_on(chunk);
    }
    const int l = t & 31, w = __shfl_sync(~0u, t >> 5, 0);
    const uint32_t L = lower_tile(chunk), low = sm + Layout::kLowParts,
                   own_block = w * LowerTile::block(1, 1);
    invert_diagonal_parts(L + own_block, low + own_block, diagonal(chunk, w), l);
    meet(chunk, w);
    merge_column_parts<Token>(tile_lane(L, l) + own_block, tile_lane(low, l) + own_block,
                              column_of_t(chunk, w, l), kept_of(L, l), w);
    hand_on(chunk);
    chunk++;
  }
}

template <typename Token, bool Normalize>
__global__ void __launch_bounds__(OneLaunchLayout::kThreads, 1)
    one_launch_kernel(const __grid_constant__ CUtensorMap query_map,
                      const __grid_constant__ CUtensorMap key_map,
                      const __grid_constant__ CUtensorMap value_map,
                      const __grid_constant__ CUtensorMap output_map, const KernelArguments a) {
  using Layout = OneLaunchLayout;
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  uint8_t* shared =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023});
  const uint32_t sm = shared_address(shared);
  // the triangles' other halves are zero and stay so
  for (uint32_t i = threadIdx.x; i < Layout::kRecordStages * Layout::kRecordStage / 16;
       i += Layout::kThreads)
    store_shared(sm + Layout::kRecord + 16 * i, make_uint4(0, 0, 0, 0));
  if (threadIdx.x == Layout::kThreads - 32) {  // not of the warps that order the sequences
    prefetch_tensor_map(&key_map);
    prefetch_tensor_map(&query_map);
    prefetch_tensor_map(&value_map);
    prefetch_tensor_map(&output_map);
    constexpr int kMath = 256, kAuxiliary = 128;
    const auto init = [&](uint32_t barriers, int stages, int arrivals) {
      for (int i = 0; i < stages; i++) mbarrier_init(barriers + 8 * i, arrivals);
    };
    init(sm + Layout::kKeyFull, Layout::kKeyStages, 1);
    init(sm + Layout::kKeyEmpty, Layout::kKeyStages, (kMath + kAuxiliary) / 32);
    init(sm + Layout::kQueryFull, Layout::kQueryStages, 1);
    init(sm + Layout::kQueryEmpty, Layout::kQueryStages, (kMath + kAuxiliary) / 32);
    init(sm + Layout::kValueFull, Layout::kValueStages, 2);
    init(sm + Layout::kRecordFull, Layout::kRecordStages, 2 * kAuxiliary);
    init(sm + Layout::kFactorsFull, Layout::kRecordStages, kAuxiliary);
    init(sm + Layout::kRecordEmpty, Layout::kRecordStages, kMath);
    init(sm + Layout::kGateFull, Layout::kGateStages, 32);
    init(sm + Layout::kGateEmpty, Layout::kGateStages, kAuxiliary);
    init(sm + Layout::kLowerFull, Layout::kLowerStages, kAuxiliary);
    init(sm + Layout::kLowerEmpty, Layout::kLowerStages, kAuxiliary);
    init(sm + Layout::kSquaresFull, 1, kAuxiliary / 32);
    init(sm + Layout::kUnitFull, Layout::kUnitSlots, 1);
    init(sm + Layout::kUnitEmpty, Layout::kUnitSlots, kMath + kAuxiliary);
    fence_mbarrier_init();
  }
  fence_async_proxy();
  order_sequences(sm, a);  // ends with a barrier
  const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), t = threadIdx.x % 128;
  if (wg < 2) {
    registers_increase<192>();
    math_role<Layout, Token, false>(sm, &output_map, a, wg, t,
                                    MathLoads{sm, &query_map, &key_map, &value_map, a, wg});
  } else {
    registers_decrease<64>();
    if (wg == 2) {
      first_auxiliary_role<Token, Normalize>(sm, a, t);
    } else {
      second_auxiliary_role<Token>(sm, &query_map, &key_map, a, t);
    }
  }
}

}  // namespace gdn::cuda::fused_sm90
