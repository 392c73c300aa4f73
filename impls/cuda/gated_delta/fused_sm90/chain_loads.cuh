// The loading roles of the chain and pieces kernels: one thread each, which follows the work items
// and keeps its rings full.
#pragma once

#include <type_traits>

#include "cuda/gated_delta/fused_sm90/chain_layout.cuh"
#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/gated_delta/fused_sm90/token_tiles.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// One thread: calls visit(item), which issues its loads, for every work item that has chunks to
/// do.
template <typename Layout, typename Visit>
__device__ __forceinline__ void follow_items(uint32_t sm, Visit visit) {
  RingCursor<typename Layout::Items> slot;
  for (;;) {
    slot.await_full(sm);
    const WorkItem item = WorkItem::load(slot.buffer(sm));
    if (item.length < 0) return;
    if (item.pool_row >= 0) visit(item);
    slot.release(sm);
    slot.advance();
  }
}

/// Transitions to apply, then K and, in the chain, Q.
template <typename Layout, typename Params>
__device__ __forceinline__ void key_query_role(uint32_t sm, const CUtensorMap* query_map,
                                               const CUtensorMap* key_map, const Params& a) {
  constexpr bool kPieces = std::is_same_v<Params, PiecesParams>;
  RingCursor<typename Layout::Keys> key;
  RingCursor<typename Layout::Queries> query;
  RingCursor<typename Layout::Records> record, last_record;  // the math's
  bool rows_zeroed = false;                                  // in the key ring, by the math
  // The wait below, for the last record of the item before, tells that record's phase from the one
  // two before only if the phase between is complete. It is: with one slot for items, this one came
  // after the record role had asked for that record, for which its buffer had to be empty.
  static_assert(Layout::kItemSlots == 1);
  const auto next_key_stage = [&]() {
    const uint32_t full = key.full(sm);
    key.await_empty(sm);
    mbarrier_arrive_expect(full, Layout::kTileBytes);
    return full;
  };
  follow_items<Layout>(sm, [&](const WorkItem& item) {
    if (!(item.flags & is_early)) wait_for_prerequisites();  // transitions
    if constexpr (!kPieces) {
      if (item.combine > 0 && rows_zeroed) {
        // Those writes come before these copies by the key ring's own barriers: each thread's, then
        // its warp's arrival. racecheck does not follow that step, but this: every thread arrives.
        mbarrier_wait(last_record.empty(sm), last_record.round_parity);
        rows_zeroed = false;
      }
    }
    for (int before = item.combine; before > 0; before--)
      for (int tile = 0; tile < 4; tile++) {
        const uint32_t full = next_key_stage();
        bulk_load(key.buffer(sm),
                  a.work.transitions + transition_offset(a, item.piece_slot - before, item.head) +
                      tile * Layout::kTileBytes,
                  Layout::kTileBytes, full);
        key.advance();
      }
    const int key_head = item.head / a.p.value_heads_per_key_head;
    int left = item.length;
    for (int token = item.token0; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t full = next_key_stage();
      load_key_tile(key.buffer(sm), key_map, full, a.rows, token, key_head, a.p.key_head_dim);
      key.advance();
      if constexpr (!kPieces) {
        const uint32_t query_full = query.full(sm);
        query.await_empty(sm);
        mbarrier_arrive_expect(query_full, Layout::kTileBytes);
        load_query_tile(query.buffer(sm), query_map, query_full, a.rows, token, key_head,
                        a.p.key_head_dim);
        query.advance();
        last_record = record;
        record.advance();
      }
    }
    rows_zeroed |= left < 0;
  });
}

/// V of every work item (none for a transition); and, in the chain, stores O of whole chunks, which
/// the math has left in V's place.
template <typename Layout, bool Stores>
__device__ __forceinline__ void value_role(uint32_t sm, const CUtensorMap* value_map,
                                           const CUtensorMap* output_map, const TokenRows& rows) {
  RingCursor<typename Layout::Values> value;
  // beside each buffer, what is to be stored of it: token, panel, head; token -1: nothing
  const auto output = [&] { return sm + Layout::kOutputs + 16 * value.index; };
  const auto nothing = make_int4(-1, 0, 0, 0);
  const auto empty_buffer = [&] {
    value.await_empty(sm);
    if constexpr (Stores) {
      const int4 o = load_shared<int4>(output());
      if (o.x < 0) return;
#pragma unroll
      for (int wg = 0; wg < Layout::kMathWarpgroups; wg++)
        store_output_tile(output_map, value.buffer(sm) + wg * Layout::kPanelBytes, rows, o.x,
                          o.y + wg, o.z);
      bulk_commit();
      bulk_wait_read<0>();
    }
  };
  if constexpr (Stores)
    for (int i = 0; i < Layout::kValueStages; i++)
      store_shared(sm + Layout::kOutputs + 16 * i, nothing);
  follow_items<Layout>(sm, [&](const WorkItem& item) {
    int left = item.start == from_unit ? 0 : item.length;
    for (int token = item.token0; left > 0; token += kChunk, left -= kChunk) {
      const uint32_t full = value.full(sm);
      empty_buffer();
      if constexpr (Stores)
        store_shared(output(), left >= kChunk && token >= item.first_output
                                   ? make_int4(token, item.panel, item.head, 0)
                                   : nothing);
      mbarrier_arrive_expect(full, Layout::kValueBytes);
      load_value_tile(value.buffer(sm), value_map, full, rows, token, item.panel, item.head);
      value.advance();
    }
  });
  if constexpr (Stores) {
    for (int i = 0; i < Layout::kValueStages; i++) {
      empty_buffer();
      value.advance();
    }
    bulk_wait<0>();
  }
}

/// The records, without P in the pieces kernel.
template <typename Layout, typename Params>
__device__ __forceinline__ void record_role(uint32_t sm, const Params& a) {
  constexpr bool kPieces = std::is_same_v<Params, PiecesParams>;
  RingCursor<typename Layout::Records> stage;
  follow_items<Layout>(sm, [&](const WorkItem& item) {
    if (!(item.flags & is_early)) wait_for_prerequisites();
    const uint8_t* record =
        a.work.records + (static_cast<int64_t>(item.chunk_slot) * a.p.num_value_heads + item.head) *
                             static_cast<int64_t>(kRecordBytes);
    for (int left = item.length; left > 0; left -= kChunk) {
      const uint32_t to = stage.buffer(sm), full = stage.full(sm);
      stage.await_empty(sm);
      mbarrier_arrive_expect(full, (kPieces ? 1 : 2) * kTriangleBytes + kFactorBytes);
#pragma unroll
      for (int b = 0; b < 4; b++) {  // rows 16b..63 of slice b
        const uint32_t bytes = 2048 - 512 * b, from = triangle_slice(b) + 512 * b;
        bulk_load(to + kSliceBytes * b + 512 * b, record + from, bytes, full);
        if constexpr (!kPieces)
          bulk_load(to + RecordBuffer::kP + kSliceBytes * b + 512 * b,
                    record + kTriangleBytes + from, bytes, full);
      }
      bulk_load(to + RecordBuffer::kFactors, record + 2 * kTriangleBytes, kFactorBytes, full);
      record += static_cast<int64_t>(a.p.num_value_heads) * kRecordBytes;
      stage.advance();
    }
  });
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
