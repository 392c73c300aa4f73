// The two warps of channel_sm90 that feed the block: one loads K, Q and gates, the other loads V
// and stores O.
#pragma once

#include "cuda/gated_delta/channel_sm90/layout.cuh"
#include "cuda/gated_delta/channel_sm90/work_item.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// One thread: K, Q and, where the copy engine can bring them, gates of every chunk.
template <Work kWork, GateForm Form>
__device__ __forceinline__ void loading_role(uint32_t sm, const CUtensorMap* query_map,
                                             const CUtensorMap* key_map,
                                             const CUtensorMap* gate_map, const ChannelParams& a) {
  constexpr uint32_t kGateBytes = Form == GateForm::read     ? 0
                                  : Form == GateForm::halves ? Layout::kGateBytes / 2
                                                             : Layout::kGateBytes;
  constexpr bool kQueries = kWork != Work::transitions;
  RingCursor<Layout::Loads> slot;
  for (ChunkCursor<kWork> at(sm, a); !at.at_end(); at.advance(sm, a), slot.advance()) {
    const int token = at.token(), key_head = at.item.key_head(a.p);
    const uint32_t to = slot.buffer(sm), full = slot.full(sm);
    slot.await_empty(sm);
    slot.expect(sm, (kQueries ? Layout::kGates : Layout::kGates / 2) + kGateBytes);
#pragma unroll
    for (int panel = 0; panel < kKeyDim / kPanel; panel++) {
      const uint32_t panel_to = to + panel * Layout::kNextPanel;
      tensor_load(panel_to + Layout::kKey, key_map, full, 0, token, panel, key_head);
      if constexpr (kQueries)
        tensor_load(panel_to + Layout::kQuery, query_map, full, 0, token, panel, key_head);
    }
    if constexpr (Form != GateForm::read)
      tensor_load(to + Layout::kGates, gate_map, full, 0, token, 0, at.item.head);
  }
}

/// A warp: the outputs of a sequence's last tokens, whose chunk is not whole. A copy of the box
/// would reach into the next sequence.
__device__ __forceinline__ void store_tail(uint32_t outputs, const ChannelParams& a, int token,
                                           int valid, int head, int lane) {
  constexpr int kUnits = 2 * kValueDim / 16;  // of 16 bytes, of a token
  for (int i = lane; i < valid * kUnits; i += 32) {
    const int row = i / kUnits, unit = i % kUnits;
    const uint32_t from = outputs + (unit >> 3) * Layout::kPanelBytes +
                          swizzle_128(static_cast<uint32_t>(row), (unit & 7) * 16);
    const int64_t element = output_index(a.p, int64_t{token} + row, head, 8 * unit);
    *reinterpret_cast<uint4*>(static_cast<uint16_t*>(a.p.output) + element) =
        load_shared<uint4>(from);
  }
}

/// A warp: V of every chunk, and O, which lies in V's place once the math warps are done with it.
template <Work kWork>
__device__ __forceinline__ void value_role(uint32_t sm, const CUtensorMap* value_map,
                                           const CUtensorMap* output_map, const ChannelParams& a,
                                           int lane) {
  constexpr int kStoring = 2;  // stores that may still read their buffers
  ChunkCursor<kWork> load(sm, a);
  RingCursor<Layout::Values> to, from;
  const auto load_next = [&] {
    if (load.at_end()) return;
    if (lane == 0) {
      to.expect(sm, Layout::kValueBytes);
      tensor_load(to.buffer(sm), value_map, to.full(sm), 0, load.token(), 0, load.item.head);
    }
    to.advance();
    load.advance(sm, a);
  };
  for (int i = 0; i < Layout::kValueSlots; i++) load_next();
  int stored = 0;
  for (ChunkCursor<kWork> at(sm, a); !at.at_end(); at.advance(sm, a), from.advance()) {
    const int token = at.token(), valid = at.valid(), head = at.item.head;
    mbarrier_wait(from.empty(sm), from.round_parity);  // V has been read, and O is there
    if (at.chunk < at.item.early_chunks) {
      // the piece before stores them
    } else if (valid < kChunk) {
      store_tail(from.buffer(sm), a, token, valid, head, lane);
    } else if (lane == 0) {
      tensor_store(output_map, from.buffer(sm), 0, token, 0, head);
    }
    __syncwarp();  // the buffer of a tail is read
    if (lane == 0) {
      bulk_commit();  // of a tail an empty group, so that groups are counted like chunks
      bulk_wait_read<kStoring>();
    }
    // The buffer of the chunk kStoring before this one is free; the first buffers loaded in this
    // loop are those of the first chunks stored.
    if (++stored > kStoring) load_next();
  }
  if (lane == 0) bulk_wait<0>();
}

/// One thread, Work::transitions: V of every chunk that has any.
__device__ __forceinline__ void piece_value_role(uint32_t sm, const CUtensorMap* value_map,
                                                 const ChannelParams& a) {
  RingCursor<Layout::Values> to;
  for (ChunkCursor<Work::transitions> at(sm, a); !at.at_end(); at.advance(sm, a)) {
    if (at.item.is_transition) continue;
    to.await_empty(sm);
    to.expect(sm, Layout::kValueBytes);
    tensor_load(to.buffer(sm), value_map, to.full(sm), 0, at.token(), 0, at.item.head);
    to.advance();
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
