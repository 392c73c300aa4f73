// What each kernel of fused_sm90 takes, by value. Made on the host from what a plan knows, by one
// function for each kernel (launches.h).
#pragma once

#include <cstdint>

#include "cuda/gated_delta/fused_sm90/geometry.h"
#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// For which gates a launch of the chain works. Where one division into pieces does not serve all
/// gates well the chain is launched twice, and one of the two leaves at once.
enum class Serves : int {
  any_gates,
  near_gates,  ///< where all pieces are near (forgetting.cuh)
  far_gates    ///< where any is not
};
/// What the pieces kernel has found of this run's gates.
enum Decision : int { undecided = 0, all_near, some_far };

/// Counters of work items that blocks take.
enum Counter : int { chain_counter = 0, pieces_counter = 1, num_counters = 2 };

/// Device memory of a plan of several launches; what hands one kernel's results to the next.
struct Workspace {
  uint8_t* records = nullptr;  ///< [chunk slots, Hv] of kRecordBytes
  int* order = nullptr;        ///< [N] sequences, longest first
  int* next_item = nullptr;    ///< [num_counters]
  // the rest only with pieces
  float* transition_bound = nullptr;  ///< [chunk slots, Hv] log2 of a bound on |S_out| / |S_in|
  int* needs_transition = nullptr;    ///< [piece slots, Hv] the state before it matters after it
  int* decision = nullptr;            ///< a Decision
  int* first_state_ready = nullptr;   ///< [N, Hv, 2 slices] of first pieces that run beside
  float* piece_states = nullptr;      ///< [piece slots, Hv, 128 slices, 128] after it, from zeros
  float* saved_states = nullptr;      ///< [N, Hv, 128 slices, 128] initial states
  uint8_t* transitions = nullptr;     ///< [piece slots, Hv] of kTransitionBytes
};

struct PrepareParams {
  GatedDeltaParams p;
  TokenRows rows;
  int heads_per_block = 1;  ///< value heads of one key head that a block serves
  int prefetch_chunks = 0;  ///< so many chunks on are the blocks that run after these
  Workspace work;
  int saving_blocks = 0;  ///< that save initial states, kSavingBlocks a sequence, head and slice
  int saved_chunks = 0;   ///< of sequences of more chunks than these
};

struct PiecesParams {
  GatedDeltaParams p;
  TokenRows rows;
  int chunks_per_piece = 0;          ///< of far pieces, which this kernel computes
  bool first_pieces_beside = false;  ///< the chain computes first pieces meanwhile: left out here
  bool two_chains = false;           ///< two launches of the chain follow
  int items = 0;                     ///< work items: a state and a transition for each piece
  int near_chunks = 0;               ///< chunks of the pieces that are near or not,
  int near_piece_heads = 0;          ///< slots of these times value heads
  static constexpr bool items_by_arrival = false;  ///< as in ChainParams
  Workspace work;
};

struct ChainParams {
  GatedDeltaParams p;
  TokenRows rows;
  int chunks_per_piece = 0;  ///< sequences are split into pieces of this many chunks; 0 = whole
  int items = 0;             ///< work items
  Serves serves = Serves::any_gates;
  /// The chain of each sequence's first piece runs beside the pieces kernel, which leaves those
  /// out, and hands its state on to the others'. Chains for far gates.
  bool first_pieces_beside = false;
  /// A block gets its first item as it comes, not by its number: blocks that start together then
  /// have neighbours, which share K, Q and records. Where items are long.
  bool items_by_arrival = false;
  Workspace work;
};

struct OneLaunchParams {
  GatedDeltaParams p;
  TokenRows rows;
  int items = 0;             ///< work items: sequences times value heads
  int* next_item = nullptr;  ///< counter of those taken; every run leaves it at 0
};

/// Of 128 columns of V each, that a head has.
template <typename Params>
__host__ __device__ inline int slices_of(const Params& a) {
  return value_slices(value_panels(a.p.value_head_dim));
}
/// Offset of a state [128 slices, 128] in an array of them, [rows, Hv].
template <typename Params>
__host__ __device__ inline int64_t head_state_offset(const Params& a, int row, int head) {
  return (static_cast<int64_t>(row) * a.p.num_value_heads + head) * slices_of(a) * kStateElements;
}

/// Offset of a transition in an array of them, [rows, Hv].
template <typename Params>
__host__ __device__ inline int64_t transition_offset(const Params& a, int row, int head) {
  return (static_cast<int64_t>(row) * a.p.num_value_heads + head) * kTransitionBytes;
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
