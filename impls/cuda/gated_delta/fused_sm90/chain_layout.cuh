// The block of the chain and pieces kernels: its roles, and its shared memory with the rings
// through which they hand things on.
#pragma once

#include "cuda/gated_delta/chunk_sm90/tile_rows.cuh"
#include "cuda/gated_delta/fused_sm90/geometry.h"
#include "cuda/gated_delta/fused_sm90/record.h"
#include "cuda/gated_delta/fused_sm90/work_item.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/ring.cuh"
#include "cuda/hopper/work_items.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// Warps of the loading warpgroup, the last of a block; all but the last work by one thread.
enum LoadingWarp : int { key_query_warp, value_warp, record_warp, item_warp };

/// Barriers of hardware between warps of a block; 0 is __syncthreads.
enum NamedBarrier : int {
  first_math_barrier = 3,   ///< one math warpgroup's own: this, and the next for the second
  all_math_barrier = 5,     ///< both
  first_auxiliary_barrier,  ///< one-launch kernel
  second_auxiliary_barrier
};

/// MathWarpgroups 2: a block does 128 columns of V; 1: 64.
template <int MathWarpgroups>
struct ChainLayout {
  static constexpr int kMathWarpgroups = MathWarpgroups;
  static constexpr bool kWholeSequences = false;   // work items may be pieces
  static constexpr bool kRecordsFromKeys = false;  // records are not made of the K tiles here
  static constexpr bool kMathLoads = false;        // a warpgroup of its own loads
  static constexpr bool kRegistersToSpare = true;  // more can be made under products
  static constexpr bool kCheckpoints = false;      // no states inside a call
  static constexpr int kThreads = 128 * (MathWarpgroups + 1);
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kItemSlots = 1;
  static constexpr int kKeyStages = 4, kQueryStages = 3, kValueStages = 3, kRecordStages = 3;
  static constexpr uint32_t kTileBytes = 2 * kChunk * kKeyDim;  // K or Q: [2 panels][64 tokens][64]
  static constexpr uint32_t kPanelBytes = 2 * kChunk * kPanel;  // [64 tokens][64]
  static constexpr uint32_t kValueBytes = MathWarpgroups * kPanelBytes;  // O in place

  static constexpr uint32_t kKey = 0, kQuery = kKey + kKeyStages * kTileBytes,
                            kValue = kQuery + kQueryStages * kTileBytes,
                            kRecord = kValue + kValueStages * kValueBytes,
                            kBarriers = kRecord + kRecordStages * RecordBuffer::kBytes;
  // mbarriers, up to four of each
  static constexpr uint32_t kKeyFull = kBarriers, kKeyEmpty = kKeyFull + 32,
                            kQueryFull = kKeyEmpty + 32, kQueryEmpty = kQueryFull + 32,
                            kValueFull = kQueryEmpty + 32, kValueEmpty = kValueFull + 32,
                            kRecordFull = kValueEmpty + 32, kRecordEmpty = kRecordFull + 32,
                            kItemFull = kRecordEmpty + 32, kItemEmpty = kItemFull + 8;
  static constexpr uint32_t kItems = kItemEmpty + 8,    // WorkItems
      kIsFar = kItems + kItemSlots * WorkItem::kBytes,  // pieces kernel: any piece is far
      kOutputs = kIsFar + 16;  // value_role's own: what is to be stored of each V buffer
  static constexpr uint32_t kBytes = kOutputs + 16 * kValueStages + 1024;  // 1024: to align tiles

  using Item = WorkItem;
  using Items = Ring<kItemSlots, kItems, Item::kBytes, kItemFull, kItemEmpty>;
  using Keys = Ring<kKeyStages, kKey, kTileBytes, kKeyFull, kKeyEmpty>;
  using Queries = Ring<kQueryStages, kQuery, kTileBytes, kQueryFull, kQueryEmpty>;
  using Values = Ring<kValueStages, kValue, kValueBytes, kValueFull, kValueEmpty>;
  using Records = Ring<kRecordStages, kRecord, RecordBuffer::kBytes, kRecordFull, kRecordEmpty>;

  /// Arrivals that complete a phase.
  static constexpr int kOneLoad = 1;                             // of a buffer filled by a copy
  static constexpr int kMathWarps = 4 * MathWarpgroups;          // K, Q, V: a lane of each warp
  static constexpr int kMathThreads = 128 * MathWarpgroups;      // records: every reader
  static constexpr int kItemReaders = kMathThreads + item_warp;  // and a thread of each load warp
};

/// Every warp but that of items: barriers, tensor maps to the cache, zeros where records leave out
/// zeros. Ends before the block's first __syncthreads.
template <typename Layout>
__device__ __forceinline__ void prepare_block(uint32_t sm, int warp, int lane,
                                              const CUtensorMap* query_map,
                                              const CUtensorMap* key_map,
                                              const CUtensorMap* value_map,
                                              const CUtensorMap* output_map) {
  constexpr int kOtherWarps = Layout::kWarps - 1;
  if (warp == kOtherWarps - 1 && lane == 0) {
    for (int i = 0; i < 4; i++) {
      mbarrier_init(sm + Layout::kKeyFull + 8 * i, Layout::kOneLoad);
      mbarrier_init(sm + Layout::kKeyEmpty + 8 * i, Layout::kMathWarps);
      mbarrier_init(sm + Layout::kQueryFull + 8 * i, Layout::kOneLoad);
      mbarrier_init(sm + Layout::kQueryEmpty + 8 * i, Layout::kMathWarps);
      mbarrier_init(sm + Layout::kValueFull + 8 * i, Layout::kOneLoad);
      mbarrier_init(sm + Layout::kValueEmpty + 8 * i, Layout::kMathWarps);
      mbarrier_init(sm + Layout::kRecordFull + 8 * i, Layout::kOneLoad);
      mbarrier_init(sm + Layout::kRecordEmpty + 8 * i, Layout::kMathThreads);
    }
    mbarrier_init(sm + Layout::kItemFull, 1);
    mbarrier_init(sm + Layout::kItemEmpty, Layout::kItemReaders);
    fence_mbarrier_init();
  }
  if (warp == 0 && lane < 4) {
    prefetch_tensor_map(lane == 0   ? key_map
                        : lane == 1 ? query_map
                        : lane == 2 ? value_map
                                    : output_map);
  }
  // what records leave out of the triangles is zero and stays so
  for (uint32_t i = threadIdx.x; i < Layout::kRecordStages * RecordBuffer::kBytes / 16;
       i += 32 * kOtherWarps)
    store_shared(sm + Layout::kRecord + 16 * i, make_uint4(0, 0, 0, 0));
  fence_async_proxy();
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
