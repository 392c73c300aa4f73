// Work items of the chain and pieces kernels of fused_sm90: their shared-memory layout, how one
// loading thread makes items from a counter and the lengths on the device, and the loads of K, Q, V
// and records that follow them.
//
// Pieces. Where there are fewer sequences and heads than multiprocessors, sequences are split into
// pieces of equally many chunks. The pieces kernel computes, for every piece but a sequence's last,
// the state L that it makes of zeros (of the initial state, for the first), and its transition M,
// so that S_out = M S_in + L; the chain then starts each piece from its predecessors' L and M. That
// is exact but for rounding. Where the gates make M negligible, only as many of the piece's last
// chunks are run as it takes to forget: the bound 2^-kForgetBits on |M| is a product over chunks of
// gamma_C and of max(1, beta |k|^2 - 1) (norm of I - beta k k^T), computed with the records.
#pragma once

#include "cuda/gated_delta/fused_sm90_common.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/matrix.cuh"

namespace gdn::cuda::fused_sm90 {

using namespace hopper;

/// What is left of a state that is forgotten: 4e-15 of it, 2^-39 of a bfloat16 rounding.
inline constexpr float kForgetBits = 48.f;

inline constexpr uint32_t kUnitBytes = 48;  ///< a Unit in shared memory

/// MathWarpgroups 2: a block does all of V; 1: a block does 64 columns of V.
template <int MathWarpgroups>
struct ChainLayout {
  static constexpr int kMathWarpgroups = MathWarpgroups;
  static constexpr bool kWholeSequences = false;   // work items may be pieces
  static constexpr bool kRecordsFromKeys = false;  // records are not made of the K tiles here
  static constexpr bool kMathLoads = false;        // a warpgroup of its own loads
  static constexpr int kUnitSlots = 2;
  static constexpr int kThreads = 128 * (MathWarpgroups + 1);
  static constexpr int kKeyStages = 4, kQueryStages = 3, kValueStages = 3, kRecordStages = 3;
  static constexpr uint32_t kTileBytes = 16384;  // [2 panels][64 tokens][64]
  static constexpr uint32_t kValueBytes =
      MathWarpgroups * 8192;  // panels of this block; O in place
  // record in shared memory: four slices of [64][16], rows above each slice's first zero
  static constexpr uint32_t kSlice = 2048, kP = 8192, kFactors = 16384, kRecordStage = 17408;
  static constexpr uint32_t kKey = 0, kQuery = kKey + kKeyStages * kTileBytes,
                            kValue = kQuery + kQueryStages * kTileBytes,
                            kRecord = kValue + kValueStages * kValueBytes,
                            kBarriers = kRecord + kRecordStages * kRecordStage;
  // barriers, 8 bytes each
  static constexpr uint32_t kKeyFull = kBarriers, kKeyEmpty = kKeyFull + 32,
                            kQueryFull = kKeyEmpty + 32, kQueryEmpty = kQueryFull + 32,
                            kValueFull = kQueryEmpty + 32, kValueEmpty = kValueFull + 32,
                            kRecordFull = kValueEmpty + 32, kRecordEmpty = kRecordFull + 32,
                            kUnitFull = kRecordEmpty + 32, kUnitEmpty = kUnitFull + 16,
                            kUnits = kUnitEmpty + 16;
  static constexpr uint32_t kBytes =
      kUnits + kUnitSlots * kUnitBytes + 1024;  // 1024: to align the tiles
};

/// One warpgroup: zeros to the rows from `valid` on of a tile panel [64][64].
__device__ __forceinline__ void zero_rows(uint32_t panel, int valid, int t) {
#pragma unroll 1
  for (int i = valid * 8 + t; i < kChunk * 8; i += 128)
    store_shared(panel + 16 * i, make_uint4(0, 0, 0, 0));
}

/// A work item as the loading warp hands it on: 12 integers, equal for all readers.
struct Unit {
  int token0;      // first token
  int length;      // tokens; negative: no more work
  int head;        // value head
  int panel;       // first 64-column panel of V
  int pool_row;    // -1: padding
  int chunk_slot;  // of its first chunk
  int piece_slot;  // with pieces
  int start;       // Start
  int combine;     // with Start::pieces: transitions to apply, of the pieces just before this one
  int last;        // ends at the sequence's end: the final state is written
  int saved_slot;  // piece slot whose state holds the initial state; -1: none
};

/// Where the state of a work item starts.
enum Start : int {
  from_pool,    ///< the initial state, or zeros if there is none
  from_zero,    ///< pieces kernel: what was before is negligible, or enters through the transition
  from_unit,    ///< pieces kernel: the identity, V = 0: the result is the transition
  from_pieces,  ///< chain: the states and transitions of earlier pieces
  from_saved,  ///< chain, first of several pieces: the initial state as the pieces kernel saved it,
               ///< since the last piece may already have written the pool row
};

__device__ __forceinline__ Unit load_unit(uint32_t address) {
  const int4 x = load_shared<int4>(address), y = load_shared<int4>(address + 16);
  const int4 z = load_shared<int4>(address + 32);
  return {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w, z.x, z.y, z.z};
}
/// Whole warps. All lanes read the same; the shuffles tell the compiler so, which keeps what is
/// made of it in uniform registers.
__device__ __forceinline__ Unit load_unit_uniform(uint32_t address) {
  const Unit u = load_unit(address);
  const auto uniform = [](int x) { return __shfl_sync(~0u, x, 0); };
  return {uniform(u.token0),   uniform(u.length),     uniform(u.head),       uniform(u.panel),
          uniform(u.pool_row), uniform(u.chunk_slot), uniform(u.piece_slot), uniform(u.start),
          uniform(u.combine),  uniform(u.last),       uniform(u.saved_slot)};
}
__device__ __forceinline__ void store_unit(uint32_t address, const Unit& u) {
  store_shared(address, make_int4(u.token0, u.length, u.head, u.panel));
  store_shared(address + 16, make_int4(u.pool_row, u.chunk_slot, u.piece_slot, u.start));
  store_shared(address + 32, make_int4(u.combine, u.last, u.saved_slot, 0));
}

/// Whole warps: the work item of this number, read once by every thread that follows the items.
template <typename Layout>
__device__ __forceinline__ Unit follow_unit(uint32_t sm, int number) {
  const uint32_t slot = number % Layout::kUnitSlots;
  mbarrier_wait(sm + Layout::kUnitFull + 8 * slot, ring_parity(number, Layout::kUnitSlots));
  const Unit u = load_unit_uniform(sm + Layout::kUnits + kUnitBytes * slot);
  mbarrier_arrive(sm + Layout::kUnitEmpty + 8 * slot);
  return u;
}

/// The last sequence whose first piece slot is <= `slot`.
__device__ __forceinline__ int sequence_of_piece(const KernelArguments& a, int slot) {
  int low = 0, high = a.p.num_sequences;
  while (high - low > 1) {
    const int n = (low + high) / 2;
    if (first_piece_slot(__ldg(a.p.sequence_offsets + n), n, a.chunks_per_piece) <= slot) {
      low = n;
    } else {
      high = n;
    }
  }
  return low;
}

/// Chunks from the end of a piece that suffice to forget the state before them; -1 if all of its
/// `chunks` chunks do not. Eight loads at a time: their latency is what this costs.
__device__ __forceinline__ int chunks_to_forget(const KernelArguments& a, int64_t chunk_slot,
                                                int chunks, int head) {
  float bits = 0.f;
  for (int done = 0; done < chunks; done += 8) {
    float bound[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
      bound[i] =
          done + i < chunks
              ? a.transition_bound[(chunk_slot + chunks - 1 - done - i) * a.p.num_value_heads +
                                   head]
              : 0.f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      bits += bound[i];
      if (done + i < chunks && bits <= -kForgetBits) return done + i + 1;
    }
  }
  return -1;
}

/// How many of the pieces just before a piece (its sequence's first excepted) need their
/// transition.
__device__ __forceinline__ int transitions_before(const KernelArguments& a, int piece_slot,
                                                  int piece, int head) {
  int count = 0;
  while (count < piece - 1) {
    int needed[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
      needed[i] = count + i < piece - 1
                      ? a.needs_transition[(piece_slot - 1 - count - i) *
                                               static_cast<int64_t>(a.p.num_value_heads) +
                                           head]
                      : 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      if (!needed[i]) return count;
      count++;
    }
  }
  return count;
}

/// The next work item; length -1 when there is none. Items are taken in order from a counter: whole
/// sequences longest first, pieces as they lie.
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ Unit take_unit(const KernelArguments& a) {
  constexpr int kHalves = 2 / MathWarpgroups;
  for (;;) {
    Unit u{};
    u.length = u.saved_slot = -1;
    int i = atomicAdd(a.next_unit + (Pieces ? 1 : 0), 1);
    if (i >= (Pieces ? a.piece_units : a.units)) return u;
    const int part = Pieces ? i % 2 : i % kHalves;  // of a piece: 0 its state, 1 its transition
    i /= Pieces ? 2 : kHalves;
    u.panel = Pieces ? 0 : part * MathWarpgroups;
    u.head = i % a.p.num_value_heads;
    i /= a.p.num_value_heads;
    const bool whole = a.chunks_per_piece == 0;
    const int n = whole ? a.order[i] : sequence_of_piece(a, i);
    const SequenceSpan span = sequence_span(a.p, n);
    if (span.length == 0) continue;  // the pool row stays as it is
    u.token0 = static_cast<int>(span.first);
    u.length = static_cast<int>(span.length);
    u.pool_row = static_cast<int>(span.row);
    u.chunk_slot = static_cast<int>(first_chunk_slot(span.first, n));
    u.start = from_pool;
    u.last = 1;
    if (whole) return u;
    const int chunks = a.chunks_per_piece;
    const int piece = i - static_cast<int>(first_piece_slot(span.first, n, chunks));
    if (span.is_padding()) {
      if (Pieces || piece > 0) continue;
      return u;
    }
    const int64_t begin = static_cast<int64_t>(piece) * chunks * kChunk,
                  end = begin + chunks * kChunk;
    if (begin >= span.length || (Pieces && end >= span.length)) continue;
    u.token0 += static_cast<int>(begin);
    u.length = static_cast<int>(min(end, span.length) - begin);
    u.chunk_slot += piece * chunks;
    u.piece_slot = i;
    u.last = end >= span.length;
    if (piece == 0 && !u.last && a.p.pool.read)  // the last piece makes no state of its own
      u.saved_slot = i + static_cast<int>((span.length - 1) / (chunks * kChunk));
    if constexpr (!Pieces) {
      if (piece > 0) {
        u.start = from_pieces;
        u.combine = transitions_before(a, i, piece, u.head);
      } else if (u.saved_slot >= 0) {
        u.start = from_saved;
      }
      return u;
    }
    const int forget = chunks_to_forget(a, u.chunk_slot, chunks, u.head);
    if (part == 0) {
      a.needs_transition[static_cast<int64_t>(i) * a.p.num_value_heads + u.head] = forget < 0;
      if (forget > 0 || piece > 0) u.start = from_zero;  // else the initial state
      if (forget > 0) {
        u.token0 += (chunks - forget) * kChunk;
        u.chunk_slot += chunks - forget;
        u.length = forget * kChunk;
      }
    } else {
      if (piece == 0 || forget > 0) continue;
      u.start = from_unit;
      u.saved_slot = -1;
    }
    return u;
  }
}

/// One thread: takes work items, hands them on, loads transitions to apply, then K and Q.
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ void key_query_role(uint32_t sm, const CUtensorMap* query_map,
                                               const CUtensorMap* key_map,
                                               const KernelArguments& a) {
  using Layout = ChainLayout<MathWarpgroups>;
  RingPosition<Layout::kKeyStages> key;
  RingPosition<Layout::kQueryStages> query;
  RingPosition<Layout::kUnitSlots> unit_ring;
  auto next_key_stage = [&]() {
    const uint32_t full = sm + Layout::kKeyFull + 8 * key.index;
    mbarrier_wait(sm + Layout::kKeyEmpty + 8 * key.index, key.round_parity ^ 1);
    mbarrier_arrive_expect(full, Layout::kTileBytes);
    return full;
  };
  wait_for_prerequisites();  // what earlier kernels left in the workspace
  for (;;) {
    const Unit u = take_unit<MathWarpgroups, Pieces>(a);
    mbarrier_wait(sm + Layout::kUnitEmpty + 8 * unit_ring.index, unit_ring.round_parity ^ 1);
    store_unit(sm + Layout::kUnits + kUnitBytes * unit_ring.index, u);
    mbarrier_arrive(sm + Layout::kUnitFull + 8 * unit_ring.index);
    unit_ring.advance();
    if (u.length < 0) return;
    if (u.pool_row < 0) continue;
    for (int before = u.combine; before > 0; before--)
      for (int tile = 0; tile < 4; tile++) {
        const uint32_t full = next_key_stage();
        bulk_load(sm + Layout::kKey + key.index * Layout::kTileBytes,
                  a.transitions +
                      (static_cast<int64_t>(u.piece_slot - before) * a.p.num_value_heads + u.head) *
                          kTransitionBytes +
                      tile * Layout::kTileBytes,
                  Layout::kTileBytes, full);
        key.advance();
      }
    const int key_head = u.head / a.p.value_heads_per_key_head;
    int left = u.length;
    for (int token = u.token0; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t full = next_key_stage();
      tensor_load(sm + Layout::kKey + key.index * Layout::kTileBytes, key_map, full, 0, token, 0,
                  key_head);
      key.advance();
      if constexpr (!Pieces) {
        const uint32_t query_full = sm + Layout::kQueryFull + 8 * query.index;
        mbarrier_wait(sm + Layout::kQueryEmpty + 8 * query.index, query.round_parity ^ 1);
        mbarrier_arrive_expect(query_full, Layout::kTileBytes);
        tensor_load(sm + Layout::kQuery + query.index * Layout::kTileBytes, query_map, query_full,
                    0, token, 0, key_head);
        query.advance();
      }
    }
  }
}

/// One thread: calls item(unit) for every work item that has chunks to do.
template <typename Layout, typename Item>
__device__ __forceinline__ void follow_units(uint32_t sm, Item item) {
  RingPosition<Layout::kUnitSlots> unit_ring;
  for (;;) {
    mbarrier_wait(sm + Layout::kUnitFull + 8 * unit_ring.index, unit_ring.round_parity);
    const Unit u = load_unit(sm + Layout::kUnits + kUnitBytes * unit_ring.index);
    mbarrier_arrive(sm + Layout::kUnitEmpty + 8 * unit_ring.index);
    unit_ring.advance();
    if (u.length < 0) return;
    if (u.pool_row >= 0) item(u);
  }
}

/// One thread: V of every work item (none for a transition).
template <int MathWarpgroups>
__device__ __forceinline__ void value_role(uint32_t sm, const CUtensorMap* value_map) {
  using Layout = ChainLayout<MathWarpgroups>;
  RingPosition<Layout::kValueStages> value;
  follow_units<Layout>(sm, [&](const Unit& u) {
    int left = u.start == from_unit ? 0 : u.length;
    for (int token = u.token0; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t full = sm + Layout::kValueFull + 8 * value.index;
      mbarrier_wait(sm + Layout::kValueEmpty + 8 * value.index, value.round_parity ^ 1);
      mbarrier_arrive_expect(full, Layout::kValueBytes);
      tensor_load(sm + Layout::kValue + value.index * Layout::kValueBytes, value_map, full, 0,
                  token, u.panel, u.head);
      value.advance();
    }
  });
}

/// One thread: the records (without P in the pieces kernel).
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ void record_role(uint32_t sm, const KernelArguments& a) {
  using Layout = ChainLayout<MathWarpgroups>;
  RingPosition<Layout::kRecordStages> stage;
  wait_for_prerequisites();
  follow_units<Layout>(sm, [&](const Unit& u) {
    const uint8_t* record =
        a.records + (static_cast<int64_t>(u.chunk_slot) * a.p.num_value_heads + u.head) *
                        static_cast<int64_t>(kRecordBytes);
    for (int left = u.length; left > 0; left -= kChunk) {
      const uint32_t to = sm + Layout::kRecord + stage.index * Layout::kRecordStage,
                     full = sm + Layout::kRecordFull + 8 * stage.index;
      mbarrier_wait(sm + Layout::kRecordEmpty + 8 * stage.index, stage.round_parity ^ 1);
      mbarrier_arrive_expect(full, (Pieces ? 1 : 2) * kTriangleBytes + kFactorBytes);
#pragma unroll
      for (int b = 0; b < 4; b++) {  // rows 16b..63 of slice b
        const uint32_t bytes = 2048 - 512 * b, from = triangle_slice(b) + 512 * b;
        bulk_load(to + Layout::kSlice * b + 512 * b, record + from, bytes, full);
        if constexpr (!Pieces)
          bulk_load(to + Layout::kP + Layout::kSlice * b + 512 * b, record + kTriangleBytes + from,
                    bytes, full);
      }
      bulk_load(to + Layout::kFactors, record + 2 * kTriangleBytes, kFactorBytes, full);
      record += static_cast<int64_t>(a.p.num_value_heads) * kRecordBytes;
      stage.advance();
    }
  });
}

}  // namespace gdn::cuda::fused_sm90
