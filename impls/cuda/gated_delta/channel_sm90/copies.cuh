// The warp of channel_sm90 that feeds the block: it loads K, Q, gates and V, and stores O.
#pragma once

#include "cuda/gated_delta/channel_sm90/layout.cuh"
#include "cuda/gated_delta/channel_sm90/work_item.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

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

struct FeedingMaps {
  const CUtensorMap *query, *key, *gate, *value, *output;
};

/// A warp: what is loaded of every chunk.
template <Work kWork, GateForm Form>
class Loads {
 public:
  __device__ __forceinline__ Loads(uint32_t sm, const FeedingMaps& maps, const ChannelParams& a,
                                   int lane)
      : sm_(sm), maps_(maps), a_(a), lane_(lane), chunk_(sm, a), chunk_of_value_(sm, a) {}

  __device__ __forceinline__ bool at_end() const { return chunk_of_value_.at_end(); }

  /// K, Q and, where the copy engine can bring them, gates of the next chunk, once its place has been read.
  __device__ __forceinline__ void next_chunk() {
    if (chunk_.at_end()) return;
    slot_.await_empty(sm_);
    if (lane_ == 0) load_chunk();
    __syncwarp();
    slot_.advance();
    chunk_.advance(sm_, a_);
  }
  /// V of the next chunk, if it has any: a transition has none. Its place must be free but in
  /// Work::transitions, where it is waited for.
  __device__ __forceinline__ void next_value() {
    if (chunk_of_value_.at_end()) return;
    if (!chunk_of_value_.item.is_transition) {
      if constexpr (kWork == Work::transitions) value_.await_empty(sm_);
      if (lane_ == 0) {
        value_.expect(sm_, Layout::kValueBytes);
        tensor_load(value_.buffer(sm_), maps_.value, value_.full(sm_), 0, chunk_of_value_.token(),
                    0, chunk_of_value_.item.head);
      }
      __syncwarp();
      value_.advance();
    }
    chunk_of_value_.advance(sm_, a_);
  }

 private:
  __device__ __forceinline__ void load_chunk() const {
    constexpr uint32_t kGateBytes = Form == GateForm::read     ? 0
                                    : Form == GateForm::halves ? Layout::kGateBytes / 2
                                                               : Layout::kGateBytes;
    constexpr bool kQueries = kWork != Work::transitions;
    const int token = chunk_.token(), key_head = chunk_.item.key_head(a_.p);
    const uint32_t to = slot_.buffer(sm_), full = slot_.full(sm_);
    slot_.expect(sm_, (kQueries ? Layout::kGates : Layout::kGates / 2) + kGateBytes);
#pragma unroll
    for (int panel = 0; panel < kKeyDim / kPanel; panel++) {
      const uint32_t panel_to = to + panel * Layout::kNextPanel;
      tensor_load(panel_to + Layout::kKey, maps_.key, full, 0, token, panel, key_head);
      if constexpr (kQueries)
        tensor_load(panel_to + Layout::kQuery, maps_.query, full, 0, token, panel, key_head);
    }
    if constexpr (Form != GateForm::read)
      tensor_load(to + Layout::kGates, maps_.gate, full, 0, token, 0, chunk_.item.head);
  }

  const uint32_t sm_;
  const FeedingMaps& maps_;
  const ChannelParams& a_;
  const int lane_;
  ChunkCursor<kWork> chunk_, chunk_of_value_;
  RingCursor<Layout::Loads> slot_;
  RingCursor<Layout::Values> value_;
};

/// A warp: O of every chunk, from V's place once the math warps are done with it; then what those to come need in the
/// places that this one's has left.
template <Work kWork, GateForm Form>
__device__ __forceinline__ void feeding_role(uint32_t sm, const FeedingMaps& maps,
                                             const ChannelParams& a, int lane) {
  Loads<kWork, Form> loads(sm, maps, a, lane);
  for (int i = 0; i < Layout::kSlots; i++) {
    loads.next_chunk();
    if (i < Layout::kValueSlots) loads.next_value();
  }
  if constexpr (kWork == Work::transitions) {
    while (!loads.at_end()) {
      loads.next_chunk();
      loads.next_value();
    }
  } else {
    constexpr int kStoring = 2;  // stores that may still read their buffers
    RingCursor<Layout::Values> from;
    int stored = 0;
    for (ChunkCursor<kWork> at(sm, a); !at.at_end(); at.advance(sm, a), from.advance()) {
      const int token = at.token(), valid = at.valid(), head = at.item.head;
      mbarrier_wait(from.empty(sm), from.round_parity);  // V has been read, and O is there
      if (at.chunk < at.item.early_chunks) {
        // the piece before stores them
      } else if (valid < kChunk) {
        store_tail(from.buffer(sm), a, token, valid, head, lane);
      } else if (lane == 0) {
        tensor_store(maps.output, from.buffer(sm), 0, token, 0, head);
      }
      __syncwarp();  // the buffer of a tail is read
      if (lane == 0) {
        bulk_commit();  // of a tail an empty group, so that groups are counted like chunks
        bulk_wait_read<kStoring>();
      }
      __syncwarp();
      // The buffer of the chunk kStoring before this one is free; the first buffers loaded in this
      // loop are those of the first chunks stored.
      if (++stored > kStoring) loads.next_value();
      loads.next_chunk();
    }
    if (lane == 0) bulk_wait<0>();
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
