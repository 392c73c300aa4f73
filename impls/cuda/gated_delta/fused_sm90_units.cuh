// Work items of the chain and pieces kernels of fused_sm90: their shared-memory layout, how one
// warp makes items from a counter and the lengths on the device, and the loads of K, Q, V and
// records that follow them. Code that a block runs once is kept short here: it comes from memory.
//
// Pieces. Where there are fewer sequences and heads than multiprocessors, sequences are split into
// pieces of equally many chunks. The chain begins a piece as many chunks early, without output, as
// it takes to forget what was before them, or at the sequence's beginning: a near piece needs at
// most kOwnChunks of them. What is forgotten is a bound, 2^-kForgetBits, on the norm of the
// transition M of those chunks: a product over chunks of gamma_C and of max(1, beta |k|^2 - 1)
// (norm of I - beta k k^T), computed with the records.
//
// Where any piece is not near, the pieces kernel computes for every piece but a sequence's last the
// state L that it makes of zeros (of the initial state, for the first), and its M, so that S_out =
// M S_in + L; the chain then starts all but the nearest pieces from their predecessors' L and M.
// That is exact but for rounding. Where M is negligible, only as many of the piece's last chunks
// are run as it takes to forget.
//
// What is best for near pieces seldom is for others. So the chain may be launched twice, for pieces
// of two lengths (or none) and by halves of V or not: the pieces kernel, which looks at the gates,
// decides which of the two leaves at once. For far pieces the multiprocessors that the pieces
// kernel leaves free may run the chain of every sequence's first piece meanwhile: those items come
// first and wait for nothing of that kernel, and the others wait for the state that they hand on.
#pragma once

#include "cuda/gated_delta/fused_sm90_common.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/matrix.cuh"

namespace gdn::cuda::fused_sm90 {

using namespace hopper;

/// What is left of a state that is forgotten: 4e-15 of it, 2^-39 of a bfloat16 rounding.
inline constexpr float kForgetBits = 48.f;

/// Most chunks before a piece that the chain runs itself: where that does for all pieces, and
/// beside the pieces kernel, whose states are there then for the price of loading them.
inline constexpr int kOwnChunks = 10, kOwnChunksBesideOthers = 3;

inline constexpr uint32_t kUnitBytes = 48;  ///< a Unit in shared memory

/// MathWarpgroups 2: a block does all of V; 1: a block does 64 columns of V.
template <int MathWarpgroups>
struct ChainLayout {
  static constexpr int kMathWarpgroups = MathWarpgroups;
  static constexpr bool kWholeSequences = false;   // work items may be pieces
  static constexpr bool kRecordsFromKeys = false;  // records are not made of the K tiles here
  static constexpr bool kMathLoads = false;        // a warpgroup of its own loads
  static constexpr bool kRegistersToSpare = true;  // more can be made under products
  static constexpr int kUnitSlots = 1;
  static constexpr int kThreads = 128 * (MathWarpgroups + 1);
  static constexpr int kKeyStages = 4, kQueryStages = 3, kValueStages = 3, kRecordStages = 3;
  static constexpr uint32_t kTileBytes = 16384;  // [2 panels][64 tokens][64]
  static constexpr uint32_t kValueBytes =
      MathWarpgroups * 8192;  // panels of this block; O in place
  // record in shared memory: four slices of [64][16], rows above each slice's first zero
  static constexpr uint32_t kSlice = 2048, kP = 8192, kFactors = 16384, kRecordStage = 17664;
  static constexpr uint32_t kKey = 0, kQuery = kKey + kKeyStages * kTileBytes,
                            kValue = kQuery + kQueryStages * kTileBytes,
                            kRecord = kValue + kValueStages * kValueBytes,
                            kBarriers = kRecord + kRecordStages * kRecordStage;
  // barriers, 8 bytes each
  static constexpr uint32_t kKeyFull = kBarriers, kKeyEmpty = kKeyFull + 32,
                            kQueryFull = kKeyEmpty + 32, kQueryEmpty = kQueryFull + 32,
                            kValueFull = kQueryEmpty + 32, kValueEmpty = kValueFull + 32,
                            kRecordFull = kValueEmpty + 32, kRecordEmpty = kRecordFull + 32,
                            kUnitFull = kRecordEmpty + 32, kUnitEmpty = kUnitFull + 8,
                            kUnits = kUnitEmpty + 8,
                            kIsFar = kUnits + kUnitSlots * kUnitBytes,  // pieces: any is not near
      kOutputs = kIsFar + 16;  // value_role's own: what is to be stored of each V buffer
  static constexpr uint32_t kBytes = kOutputs + 16 * kValueStages + 1024;  // 1024: to align tiles
};

/// One warpgroup: zeros to the rows from `valid` on of a tile panel [64][64].
__device__ __forceinline__ void zero_rows(uint32_t panel, int valid, int t) {
#pragma unroll 1
  for (int i = valid * 8 + t; i < kChunk * 8; i += 128)
    store_shared(panel + 16 * i, make_uint4(0, 0, 0, 0));
}

/// Where in its row piece i of 16 bytes lies of the 16 columns that are a warp's own, two a row:
/// those of V that it alone reads, and of O that it stores.
__device__ __forceinline__ int own_byte(int t, int i) { return (t & 96) + (i & 1) * 16; }
/// The same zeros as zero_rows, each warp's in its own columns.
__device__ __forceinline__ void zero_own_columns(uint32_t panel, int valid, int t) {
#pragma unroll 1
  for (int i = valid * 2 + t % 32; i < kChunk * 2; i += 32)
    store_shared(panel + swizzle_128(i >> 1, own_byte(t, i)), make_uint4(0, 0, 0, 0));
}

/// A work item as one warp hands it on: 12 integers, equal for all readers.
struct Unit {
  int token0;      // first token
  int length;      // tokens; negative: no more work
  int head;        // value head
  int panel;       // first 64-column panel of V
  int pool_row;    // -1: padding
  int chunk_slot;  // of its first chunk
  int piece_slot;  // with pieces
  int start;       // Start
  int combine;     // with from_pieces, from_first: transitions to apply, of the pieces just before
                   // this one
  int flags;       // UnitFlags
  int sequence;    // whose initial state may have been saved
  int first_output;  // token from which on outputs are stored: what is before is to be forgotten
};

/// Where the state of a work item starts.
enum Start : int {
  from_pool,    ///< the initial state, or zeros if there is none
  from_zero,    ///< what was before is negligible, or enters through the transition
  from_unit,    ///< pieces kernel: the identity, V = 0: the result is the transition
  from_pieces,  ///< chain: the states and transitions of earlier pieces
  from_first,   ///< the same, where the earliest state is the one that a first piece hands on
  from_saved,   ///< chain, one of several pieces: the initial state as it was saved, since the last
                ///< piece may already have written the pool row
};

enum UnitFlags : int {
  ends_sequence = 1,  ///< the final state is written
  hands_on = 2,       ///< its last state is written for the chains of later pieces
  is_early = 4,       ///< needs nothing of the kernel before
};

__device__ __forceinline__ Unit load_unit(uint32_t address) {
  const int4 x = load_shared<int4>(address), y = load_shared<int4>(address + 16);
  const int4 z = load_shared<int4>(address + 32);
  return {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w, z.x, z.y, z.z, z.w};
}
/// Whole warps. All lanes read the same; the shuffles tell the compiler so, which keeps what is
/// made of it in uniform registers.
__device__ __forceinline__ Unit load_unit_uniform(uint32_t address) {
  const Unit u = load_unit(address);
  const auto uniform = [](int x) { return __shfl_sync(~0u, x, 0); };
  return {uniform(u.token0),     uniform(u.length),   uniform(u.head),
          uniform(u.panel),      uniform(u.pool_row), uniform(u.chunk_slot),
          uniform(u.piece_slot), uniform(u.start),    uniform(u.combine),
          uniform(u.flags),      uniform(u.sequence), uniform(u.first_output)};
}
__device__ __forceinline__ void store_unit(uint32_t address, const Unit& u) {
  store_shared(address, make_int4(u.token0, u.length, u.head, u.panel));
  store_shared(address + 16, make_int4(u.pool_row, u.chunk_slot, u.piece_slot, u.start));
  store_shared(address + 32, make_int4(u.combine, u.flags, u.sequence, u.first_output));
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

// ---- how much of a state matters, from the bounds that were computed with the records
// -----------------

/// Whole warps: of `chunks` chunks that end where slot `end` begins, how many of the last suffice
/// to forget the state before them; -1 if all of them do not.
__device__ __forceinline__ int chunks_to_forget(const KernelArguments& a, int end, int chunks,
                                                int head, int lane) {
  float before = 0.f;
#pragma unroll 1
  for (int done = 0; done < chunks; done += 32) {
    const bool inside = done + lane < chunks;
    float bits =
        inside
            ? a.transition_bound[static_cast<int64_t>(end - 1 - done - lane) * a.p.num_value_heads +
                                 head]
            : 0.f;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_up_sync(~0u, bits, distance);
      if (lane >= distance) bits += other;
    }
    bits += before;
    const unsigned int forgotten = __ballot_sync(~0u, inside && bits <= -kForgetBits);
    if (forgotten != 0) return done + __ffs(static_cast<int>(forgotten));
    before = __shfl_sync(~0u, bits, 31);
  }
  return -1;
}

/// Whole warps: chunks before slot `end`, of the `before` that its sequence has there, from which
/// on the chain can run itself: as many as forget, or all. -1: more than kOwnChunks.
__device__ __forceinline__ int own_chunks(const KernelArguments& a, int end, int before, int head,
                                          int lane) {
  const int forget = chunks_to_forget(a, end, min(before, kOwnChunks), head, lane);
  return forget < 0 && before <= kOwnChunks ? before : forget;
}

/// Whole warps: how many of the pieces just before a piece (its sequence's first excepted) need
/// their transition.
__device__ __forceinline__ int transitions_before(const KernelArguments& a, int piece_slot,
                                                  int piece, int head, int lane) {
#pragma unroll 1
  for (int count = 0; count < piece - 1; count += 32) {
    const int i = count + lane;
    const bool ends =
        i >= piece - 1 ||
        a.needs_transition[static_cast<int64_t>(piece_slot - 1 - i) * a.p.num_value_heads + head] ==
            0;
    const unsigned int end = __ballot_sync(~0u, ends);
    if (end != 0) return count + __ffs(static_cast<int>(end)) - 1;
  }
  return max(piece - 1, 0);
}

/// Every thread of a block: whether one of its share of all pieces is not near, so that the pieces
/// kernel has work. Waits for the kernels before this one, and lets those after it start.
template <int Threads>
__device__ __forceinline__ bool any_piece_is_far(const KernelArguments& a) {
  bool far = false;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < a.near_piece_heads; i += Threads) {
    const int slot = i / a.p.num_value_heads, head = i % a.p.num_value_heads;
    int n = 0;
    int64_t begin = __ldg(a.p.sequence_offsets), end = __ldg(a.p.sequence_offsets + 1);
#pragma unroll 1
    for (int high = a.p.num_sequences; high - n > 1;) {
      const int middle = (n + high) / 2;
      const int64_t offset = __ldg(a.p.sequence_offsets + middle);
      if (first_piece_slot(offset, middle, a.near_chunks) <= slot) {
        n = middle;
        begin = offset;
        end = __ldg(a.p.sequence_offsets + middle + 1);
      } else {
        high = middle;
      }
    }
    const int before =
        (slot - static_cast<int>(first_piece_slot(begin, n, a.near_chunks))) * a.near_chunks;
    if (before <= kOwnChunks || before * int64_t{kChunk} >= end - begin ||
        (a.p.slot_index != nullptr && __ldg(a.p.slot_index + n) < 0))
      continue;
    wait_for_prerequisites();
    launch_dependents();
    const float* bound = a.transition_bound +
                         (first_chunk_slot(begin, n) + before - kOwnChunks) * a.p.num_value_heads +
                         head;
    float bits = 0.f;
#pragma unroll
    for (int chunk = 0; chunk < kOwnChunks; chunk++)
      bits += bound[static_cast<int64_t>(chunk) * a.p.num_value_heads];
    far |= !(bits <= -kForgetBits);
  }
  return far;
}

// ---- taking work items
// ---------------------------------------------------------------------------------

/// A work item, and what of it only the kernels before this one can tell.
struct Item {
  Unit unit;
  int piece;  // of its sequence; with pieces
  int part;   // pieces kernel: 0 the piece's state, 1 its transition
  int64_t sequence_length;
};

/// Whole warps: the next work item, in all that lengths tell; length -1 when there is none.
/// `number`: of the last item taken, -1 before the first, which is the block's own number unless
/// items go by arrival; later ones come from a counter. Whole sequences longest first, pieces as
/// they lie, first pieces before all others where they run beside the pieces kernel. Waits for the
/// kernels before this one where it needs them: not for a block's first piece, by its number, nor
/// beside the pieces kernel. That has waited for prepare before it let any block of a later kernel
/// start, so what prepare wrote is in memory by then.
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ Item find_item(const KernelArguments& a, int& number, int lane) {
  constexpr int kHalves = 2 / MathWarpgroups;
  const bool whole = !Pieces && a.chunks_per_piece == 0;
#pragma unroll 1
  for (;;) {
    Item item{};
    Unit& u = item.unit;
    u.length = -1;
    const bool by_arrival = !Pieces && a.items_by_arrival,
               firsts_first = !Pieces && a.first_pieces_beside;
    if (number < 0 && !by_arrival) {
      number = static_cast<int>(blockIdx.x);
    } else {
      if (!firsts_first) wait_for_prerequisites();
      if (lane == 0)
        number = (by_arrival ? 0 : static_cast<int>(gridDim.x)) +
                 atomicAdd(a.next_unit + (Pieces ? 1 : 0), 1);
      number = __shfl_sync(~0u, number, 0);
    }
    if (number >= (Pieces ? a.piece_units : a.units)) return item;
    int i = number;
    item.part = Pieces ? i % 2 : i % kHalves;
    i /= Pieces ? 2 : kHalves;
    u.panel = Pieces ? 0 : item.part * MathWarpgroups;
    u.head = i % a.p.num_value_heads;
    i /= a.p.num_value_heads;
    SlotPlace place;
    bool is_first = false;
    if (firsts_first) {
      is_first = i < a.p.num_sequences;
      if (!is_first) i -= a.p.num_sequences;
    }
    if (whole || is_first) {
      if (whole) wait_for_prerequisites();
      place.sequence = whole ? a.order[i] : i;
      place.begin = __ldg(a.p.sequence_offsets + place.sequence);
      place.end = __ldg(a.p.sequence_offsets + place.sequence + 1);
    } else {
      place = place_of_slot(a.p, i, lane, [&](int64_t offset, int n) {
        return first_piece_slot(offset, n, a.chunks_per_piece);
      });
    }
    item.sequence_length = place.end - place.begin;
    if (item.sequence_length == 0) continue;  // the pool row stays as it is
    u.token0 = static_cast<int>(place.begin);
    u.length = static_cast<int>(item.sequence_length);
    u.pool_row = a.p.slot_index != nullptr
                     ? static_cast<int>(__ldg(a.p.slot_index + place.sequence))
                     : place.sequence;
    u.chunk_slot = static_cast<int>(first_chunk_slot(place.begin, place.sequence));
    u.sequence = place.sequence;
    u.start = from_pool;
    u.flags = ends_sequence;
    if (whole) return item;
    const int chunks = a.chunks_per_piece,
              first_slot = static_cast<int>(first_piece_slot(place.begin, place.sequence, chunks));
    if (is_first) i = first_slot;
    item.piece = i - first_slot;
    if (a.first_pieces_beside && item.piece == 0 && !is_first) continue;
    if (u.pool_row < 0) {  // padding
      if (Pieces || item.piece > 0) continue;
      if (is_first) u.flags |= is_early;
      return item;
    }
    const int64_t begin = static_cast<int64_t>(item.piece) * chunks * kChunk,
                  end = begin + chunks * kChunk;
    if (begin >= item.sequence_length || (Pieces && end >= item.sequence_length)) continue;
    u.token0 += static_cast<int>(begin);
    u.length = static_cast<int>(min(end, item.sequence_length) - begin);
    u.chunk_slot += item.piece * chunks;
    u.piece_slot = i;
    if (end < item.sequence_length) u.flags = is_first ? hands_on : 0;
    if (is_first) u.flags |= is_early;
    return item;
  }
}

/// What there is to do for the chain that does not: nothing, at once.
__device__ __forceinline__ Unit no_unit() {
  Unit u{};
  u.length = -1;
  u.flags = is_early;
  return u;
}
/// Whole warps: whether this launch of the chain is the one that works, once that is decided. The
/// other's blocks leave at once but for one, which stays for the kernels before: what comes after
/// waits for this kernel, and so for those.
__device__ __forceinline__ bool serves_this_run(const KernelArguments& a) {
  int look = undecided;
  while (look == undecided) look = load_relaxed(a.decision);
  if (look == (a.serves == Serves::far_gates ? some_far : all_near)) return true;
  if (blockIdx.x == 0) wait_for_prerequisites();
  return false;
}

/// Whole warps, chain: where a piece begins and with what state.
__device__ __forceinline__ Unit begin_piece(const KernelArguments& a, const Item& item, int lane) {
  Unit u = item.unit;
  const int before = item.piece * a.chunks_per_piece;
  const bool beside_others =
      a.serves == Serves::any_gates ? *a.decision == some_far : a.serves == Serves::far_gates;
  int own = own_chunks(a, u.chunk_slot, before, u.head, lane);
  if (beside_others) {
    if (own > kOwnChunksBesideOthers) own = -1;
  } else if (own < 0) {  // any_piece_is_far, which adds in another order, has found it near
    own = kOwnChunks;
  }
  if (own < 0) {
    u.combine = transitions_before(a, u.piece_slot, item.piece, u.head, lane);
    u.start = a.first_pieces_beside && u.combine == item.piece - 1 ? from_first : from_pieces;
    return u;
  }
  u.first_output = u.token0;
  u.token0 -= own * kChunk;
  u.length += own * kChunk;
  u.chunk_slot -= own;
  if (own < before) {
    u.start = from_zero;
  } else if (a.p.pool.read && (item.piece > 0 || !(u.flags & ends_sequence))) {  // one of several
    u.start = from_saved;
  }
  return u;
}

/// Whole warps, pieces kernel: which chunks of a piece matter after it; length 0 if there is no
/// transition to make.
__device__ __forceinline__ Unit shorten_piece(const KernelArguments& a, const Item& item,
                                              int lane) {
  Unit u = item.unit;
  const int chunks = a.chunks_per_piece,
            forget = chunks_to_forget(a, u.chunk_slot + chunks, chunks, u.head, lane);
  if (item.part == 1) {
    u.start = from_unit;
    if (item.piece == 0 || forget > 0) u.length = 0;
    return u;
  }
  if (lane == 0)
    a.needs_transition[static_cast<int64_t>(u.piece_slot) * a.p.num_value_heads + u.head] =
        forget < 0;
  if (forget > 0 || item.piece > 0) u.start = from_zero;  // else the initial state
  if (forget > 0) {
    u.token0 += (chunks - forget) * kChunk;
    u.chunk_slot += chunks - forget;
    u.length = forget * kChunk;
  }
  return u;
}

/// One warp: takes work items, the first of which is found, and hands them on. The next is taken
/// when the last loads of this one are under way: earlier, and a block with much to do would keep
/// it from one that has done its own.
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ void unit_role(uint32_t sm, const KernelArguments& a, Item item,
                                          int number, int lane) {
  using Layout = ChainLayout<MathWarpgroups>;
  RingPosition<Layout::kUnitSlots> slot;
#pragma unroll 1
  for (;; item = find_item<MathWarpgroups, Pieces>(a, number, lane)) {
    Unit u = item.unit;
    // also at the end: a kernel that ended before those ahead of it would speak for them
    if (!(u.flags & is_early)) wait_for_prerequisites();
    if (u.length > 0 && u.pool_row >= 0) {
      if constexpr (Pieces) {
        u = shorten_piece(a, item, lane);
        if (u.length == 0) continue;
      } else if (a.chunks_per_piece > 0) {
        u = begin_piece(a, item, lane);
      }
    }
    if (lane == 0) {
      store_unit(sm + Layout::kUnits + kUnitBytes * slot.index, u);
      mbarrier_arrive(sm + Layout::kUnitFull + 8 * slot.index);
      if (u.length >= 0) mbarrier_wait(sm + Layout::kUnitEmpty + 8 * slot.index, slot.round_parity);
    }
    __syncwarp();
    slot.advance();
    if (u.length < 0) return;
  }
}

// ---- loads
// ---------------------------------------------------------------------------------------------

/// One thread: calls visit(unit), which issues its loads, for every work item that has chunks to
/// do.
template <typename Layout, typename Visit>
__device__ __forceinline__ void follow_units(uint32_t sm, Visit visit) {
  RingPosition<Layout::kUnitSlots> unit_ring;
  for (;;) {
    mbarrier_wait(sm + Layout::kUnitFull + 8 * unit_ring.index, unit_ring.round_parity);
    const Unit u = load_unit(sm + Layout::kUnits + kUnitBytes * unit_ring.index);
    if (u.length < 0) return;
    if (u.pool_row >= 0) visit(u);
    mbarrier_arrive(sm + Layout::kUnitEmpty + 8 * unit_ring.index);
    unit_ring.advance();
  }
}

/// One thread: transitions to apply, then K and Q.
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ void key_query_role(uint32_t sm, const CUtensorMap* query_map,
                                               const CUtensorMap* key_map,
                                               const KernelArguments& a) {
  using Layout = ChainLayout<MathWarpgroups>;
  RingPosition<Layout::kKeyStages> key;
  RingPosition<Layout::kQueryStages> query;
  RingPosition<Layout::kRecordStages> record, last_record;  // the math's
  bool rows_zeroed = false;                                 // in the key ring, by the math
  auto next_key_stage = [&]() {
    const uint32_t full = sm + Layout::kKeyFull + 8 * key.index;
    mbarrier_wait(sm + Layout::kKeyEmpty + 8 * key.index, key.round_parity ^ 1);
    mbarrier_arrive_expect(full, Layout::kTileBytes);
    return full;
  };
  follow_units<Layout>(sm, [&](const Unit& u) {
    if (!(u.flags & is_early)) wait_for_prerequisites();  // transitions
    if constexpr (!Pieces) {
      if (u.combine > 0 && rows_zeroed) {
        // Those writes come before these copies by the key ring's own barriers: each thread's, then
        // its warp's arrival. racecheck does not follow that step, but this: every thread arrives.
        mbarrier_wait(sm + Layout::kRecordEmpty + 8 * last_record.index, last_record.round_parity);
        rows_zeroed = false;
      }
    }
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
        last_record = record;
        record.advance();
      }
    }
    rows_zeroed |= left < 0;
  });
}

/// One thread: V of every work item (none for a transition); and, but for pieces, stores O of whole
/// chunks, which the math has left in V's place.
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ void value_role(uint32_t sm, const CUtensorMap* value_map,
                                           const CUtensorMap* output_map) {
  using Layout = ChainLayout<MathWarpgroups>;
  RingPosition<Layout::kValueStages> value;
  const auto buffer = [&] { return sm + Layout::kValue + value.index * Layout::kValueBytes; };
  const auto output = [&] { return sm + Layout::kOutputs + 16 * value.index; };
  const auto empty_buffer = [&] {
    mbarrier_wait(sm + Layout::kValueEmpty + 8 * value.index, value.round_parity ^ 1);
    if constexpr (!Pieces) {
      const int4 o = load_shared<int4>(output());  // token, panel, head
      if (o.x < 0) return;
#pragma unroll
      for (int wg = 0; wg < MathWarpgroups; wg++)
        tensor_store(output_map, buffer() + wg * 8192, 0, o.x, o.y + wg, o.z);
      bulk_commit();
      bulk_wait_read<0>();
    }
  };
  const auto none = make_int4(-1, 0, 0, 0);
  if constexpr (!Pieces)
    for (int i = 0; i < Layout::kValueStages; i++)
      store_shared(sm + Layout::kOutputs + 16 * i, none);
  follow_units<Layout>(sm, [&](const Unit& u) {
    int left = u.start == from_unit ? 0 : u.length;
    for (int token = u.token0; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t full = sm + Layout::kValueFull + 8 * value.index;
      empty_buffer();
      if constexpr (!Pieces)
        store_shared(output(), left >= kChunk && token >= u.first_output
                                   ? make_int4(token, u.panel, u.head, 0)
                                   : none);
      mbarrier_arrive_expect(full, Layout::kValueBytes);
      tensor_load(buffer(), value_map, full, 0, token, u.panel, u.head);
      value.advance();
    }
  });
  if constexpr (!Pieces) {
    for (int i = 0; i < Layout::kValueStages; i++) {
      empty_buffer();
      value.advance();
    }
    bulk_wait<0>();
  }
}

/// One thread: the records (without P in the pieces kernel).
template <int MathWarpgroups, bool Pieces>
__device__ __forceinline__ void record_role(uint32_t sm, const KernelArguments& a) {
  using Layout = ChainLayout<MathWarpgroups>;
  RingPosition<Layout::kRecordStages> stage;
  follow_units<Layout>(sm, [&](const Unit& u) {
    if (!(u.flags & is_early)) wait_for_prerequisites();
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
