// The block of the one-launch kernel: its warpgroups, and its shared memory with the rings through
// which they hand things on.
#pragma once

#include "cuda/gated_delta/chunk_sm90/triangles.cuh"
#include "cuda/gated_delta/fused_sm90/chain_layout.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// Warpgroups after those of math.
enum AuxiliaryWarpgroup : int { first_auxiliary = 2, second_auxiliary = 3 };
/// Warps of the second auxiliary warpgroup that feed the block besides.
enum FeedingWarp : int { placing_warp = 2, scanning_warp = 3 };

struct OneLaunchLayout {
  static constexpr int kMathWarpgroups = 2;
  static constexpr bool kWholeSequences = true, kRecordsFromKeys = true, kMathLoads = true,
                        kRegistersToSpare = false, kCheckpoints = false;
  static constexpr int kThreads = 512;
  static constexpr int kLoadAhead = 3;   // chunks that loads of K and Q are ahead of the math
  static constexpr int kScanAhead = 1;   // that gates are scanned ahead of the inverse,
  static constexpr int kFetchAhead = 2;  // fetched,
  static constexpr int kPlaceAhead = 3;  // and that it is known which chunks will come
  static constexpr int kPlaces = 8;      // from two behind to kPlaceAhead ahead
  static constexpr int kItemSlots = 8;   // each of these may be of another work item
  static constexpr int kKeyStages = 4, kQueryStages = 3, kValueStages = 2, kRecordStages = 2,
                       kGateStages = 3, kLowerStages = 2;
  static constexpr uint32_t kTileBytes = 2 * kChunk * kKeyDim;  // K or Q: [2 panels][64 tokens][64]
  static constexpr uint32_t kPanelBytes = 2 * kChunk * kPanel;  // [64 tokens][64]
  static constexpr uint32_t kValueBytes = 2 * kChunk * kValueDim;
  // L of one chunk: LowerTile, after whose first row stands whether it is in two parts and whether
  // the chunk forgets, and the diagonal blocks of four warps
  static constexpr uint32_t kParts = 128, kForgets = 132, kDiagonal = LowerTile::kBytes,
                            kLowerStage = kDiagonal + 4 * LowerTile::kDiagonalBytes;
  static constexpr uint32_t kLengths = 512;  // inverse lengths [64] of K, [64] of Q

  static constexpr uint32_t kKey = 0;
  static constexpr uint32_t kQuery = kKey + kKeyStages * kTileBytes;
  static constexpr uint32_t kValue = kQuery + kQueryStages * kTileBytes;
  static constexpr uint32_t kRecord = kValue + kValueStages * kValueBytes;
  static constexpr uint32_t kLower = kRecord + kRecordStages * RecordBuffer::kBytes;
  static constexpr uint32_t kLowParts = kLower + kLowerStages * kLowerStage;  // one for both stages
  static constexpr uint32_t kGate = kLowParts + LowerTile::kBytes;
  static constexpr uint32_t kInverseLength = kGate + kGateStages * GateLayout::kBytes;  // two of
  static constexpr uint32_t kKeySquares = kInverseLength + 2 * kLengths;  // two of 4 floats
  static constexpr uint32_t kItems = kKeySquares + 32;
  static constexpr uint32_t kNext = kItems + kItemSlots * WorkItem::kBytes;  // publish_place's own
  static constexpr uint32_t kPlace = kNext + 16;  // token, tokens left, head of a chunk
  static constexpr uint32_t kRawGates = kPlace + 16 * kPlaces;  // two of [64] gate, [64] beta
  // mbarriers
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
  static constexpr uint32_t kItemFull = kSquaresFull + 8;
  static constexpr uint32_t kItemEmpty = kItemFull + 8 * kItemSlots;
  // sequences: first tokens [N + 1], then order [N], 16-bit
  static constexpr uint32_t kOffsets = kItemEmpty + 8 * kItemSlots;
  static constexpr uint32_t kOrder = kOffsets + 4 * (kMostOrderedSequences + 1);
  // with checkpoints: sequence, head, tokens done, next checkpoint of what is taken from next
  static constexpr uint32_t kGoesOn = (kOrder + 2 * kMostOrderedSequences + 15) / 16 * 16;
  static constexpr uint32_t kBytes = kGoesOn + 16 + 1024;  // to align tiles

  using Item = WorkItem;
  using Items = Ring<kItemSlots, kItems, Item::kBytes, kItemFull, kItemEmpty>;
  using Keys = Ring<kKeyStages, kKey, kTileBytes, kKeyFull, kKeyEmpty>;
  using Queries = Ring<kQueryStages, kQuery, kTileBytes, kQueryFull, kQueryEmpty>;
  using Values = Ring<kValueStages, kValue, kValueBytes, kValueFull, kValueEmpty>;
  using Records = Ring<kRecordStages, kRecord, RecordBuffer::kBytes, kRecordFull, kRecordEmpty>;
  using Gates = Ring<kGateStages, kGate, GateLayout::kBytes, kGateFull, kGateEmpty>;
  using Lowers = Ring<kLowerStages, kLower, kLowerStage, kLowerFull, kLowerEmpty>;

  /// Arrivals that complete a phase.
  static constexpr int kMathThreads = 256, kAuxiliaryThreads = 128;  // of one auxiliary warpgroup
  static constexpr int kTileReaders = (kMathThreads + kAuxiliaryThreads) / 32;  // a lane of a warp
  static constexpr int kItemReaders = kMathThreads + kAuxiliaryThreads;
};
static_assert(OneLaunchLayout::kBytes <= 232448 && OneLaunchLayout::kForgets < LowerTile::kRow &&
              OneLaunchLayout::kKeyFull % 8 == 0 &&
              OneLaunchLayout::kLowerStages == OneLaunchLayout::kRecordStages &&
              OneLaunchLayout::kLowerStages == 2 &&  // kSquaresFull's parity is the stage
              OneLaunchLayout::kLower % 16 == 0 && OneLaunchLayout::kItems % 16 == 0 &&
              OneLaunchLayout::kGoesOn % 16 == 0);

/// With checkpoints: work items are the parts of a sequence between them, one after the other.
struct CheckpointsLayout : OneLaunchLayout {
  static constexpr bool kCheckpoints = true;
};

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
