// The work item of the chain, pieces and one-launch kernels: one value head of a sequence or piece,
// and which columns of V. How items are handed on in a block: hopper/work_items.cuh.
#pragma once

#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace hopper;

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

enum ItemFlags : int {
  ends_sequence = 1,  ///< the final state is written
  hands_on = 2,       ///< its last state is written for the chains of later pieces
  is_early = 4,       ///< needs nothing of the kernel before
  goes_on = 8,        ///< starts from the state that the item before it leaves, in registers
};

struct WorkItem {
  int token0;      // first token
  int length;      // tokens; negative: no more work
  int head;        // value head
  int panel;       // first 64-column panel of V
  int pool_row;    // that is read; -1: padding
  int chunk_slot;  // of its first chunk
  int piece_slot;  // with pieces; with checkpoints the row of the one that it ends at, or -1
  int start;       // Start
  int combine;     // with from_pieces, from_first: transitions to apply, of the pieces just before
                   // this one
  int flags;       // ItemFlags
  int sequence;    // whose initial state may have been saved, and whose final state has a row
  int first_output;  // token from which on outputs are stored: what is before is to be forgotten

  static constexpr uint32_t kBytes = 48;  ///< in shared memory

  static __device__ __forceinline__ WorkItem load(uint32_t address) {
    const int4 x = load_shared<int4>(address), y = load_shared<int4>(address + 16);
    const int4 z = load_shared<int4>(address + 32);
    return {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w, z.x, z.y, z.z, z.w};
  }
  /// Whole warps. All lanes read the same; the shuffles tell the compiler so, which keeps what is
  /// made of it in uniform registers.
  static __device__ __forceinline__ WorkItem load_uniform(uint32_t address) {
    const WorkItem x = load(address);
    const auto uniform = [](int value) { return __shfl_sync(~0u, value, 0); };
    return {uniform(x.token0),     uniform(x.length),   uniform(x.head),
            uniform(x.panel),      uniform(x.pool_row), uniform(x.chunk_slot),
            uniform(x.piece_slot), uniform(x.start),    uniform(x.combine),
            uniform(x.flags),      uniform(x.sequence), uniform(x.first_output)};
  }
  __device__ __forceinline__ void store(uint32_t address) const {
    store_shared(address, make_int4(token0, length, head, panel));
    store_shared(address + 16, make_int4(pool_row, chunk_slot, piece_slot, start));
    store_shared(address + 32, make_int4(combine, flags, sequence, first_output));
  }
};

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
