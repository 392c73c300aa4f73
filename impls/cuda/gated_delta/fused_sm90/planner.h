// The planner of fused_sm90: from the lengths known at planning time, which kernels run and how the
// work is divided among blocks. Host only, no CUDA header: what it decides is tested without CUDA
// (tests/planner_test.cpp).
//
// Other lengths than those of the plan are as correct: the kernels read lengths on the device. The
// form, the halves of V and the heads of a prepare block change no bit; pieces do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/gated_delta/fused_sm90/costs.h"
#include "cuda/gated_delta/fused_sm90/geometry.h"
#include "cuda/gated_delta/fused_sm90/record.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// Bytes of what the kernels read, write and hand on. Kernels of another record or state bring
/// their own.
struct Footprint {
  std::int64_t record;        ///< of a chunk and value head
  std::int64_t key_query;     ///< K and Q of a chunk and key head
  std::int64_t value_output;  ///< V and O of a chunk and value head
  std::int64_t state;         ///< of 128 columns of a value head, handed from piece to piece
  std::int64_t transition;    ///< of a piece and value head
};
inline constexpr Footprint kFootprint{
    .record = kRecordBytes,
    .key_query = 2 * kChunk * kKeyDim * kTokenBytes,
    .value_output = 2 * kChunk * kValueDim * kTokenBytes,
    .state = kStateElements * std::int64_t{sizeof(float)},
    .transition = kTransitionBytes,
};

/// What the planner needs to know of a problem and of the kernels that do it.
struct Shape {
  std::vector<std::int64_t> lengths;  ///< tokens of each sequence, or rows
  std::int64_t key_heads = 1, value_heads = 1;
  bool has_initial_state = false;
  Footprint footprint = kFootprint;
  int value_panels = 2;           ///< of 64 columns, that a head's V has
  bool may_be_one_launch = true;  ///< that kernel takes 128x128 heads alone
  TokenRows rows;                 ///< of a token

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t tokens() const;
  std::int64_t longest() const;
  /// Value heads of a key head.
  std::int64_t group() const { return value_heads / key_heads; }
  /// Of 128 columns of V each, that a head has.
  int slices() const { return value_slices(value_panels); }
  /// Blocks of the chain that a head has.
  int blocks_of_head(int halves) const { return halves == 2 ? value_panels : slices(); }
};

/// How a launch of the chain is divided.
struct ChainDivision {
  int halves = 1;            ///< blocks that share 128 columns of a head's V
  int chunks_per_piece = 0;  ///< 0: sequences whole
  /// The chains of first pieces run beside the pieces kernel and hand their states on.
  bool first_pieces_beside = false;
  bool in_pieces() const { return chunks_per_piece > 0; }
  bool operator==(const ChainDivision&) const = default;
};

/// What a plan launches.
struct Choice {
  bool one_launch = false;  ///< the one-launch kernel alone; nothing of the rest applies
  ChainDivision near;       ///< of the chain where all its pieces are near
  ChainDivision far;        ///< where any is far: the same launch, or one of its own
  int heads_per_block = 1;  ///< value heads of one key head that a prepare block serves
  bool two_chains() const { return !(near == far); }
  bool in_pieces() const { return near.in_pieces(); }
};

/// `may_split`: sequences may be cut into pieces.
Choice choose(const Shape& shape, const Costs& costs, int multiprocessors, bool may_split);

/// Expected time of the chain, and of the pieces kernel before it, where gates forget within
/// `forget` chunks.
double expected_chain_us(const Shape& shape, const ChainDivision& division, int forget,
                         const Costs& costs, int multiprocessors);

/// Chunks per piece that choose() weighs, in increasing order; the first is 0, whole sequences.
std::vector<int> piece_lengths(const Shape& shape);

// ---- what follows from a choice

/// Blocks of the prepare kernel, in their order in the grid.
struct PrepareGrid {
  std::int64_t ranking_blocks = 0;  ///< order the sequences by length
  std::int64_t saving_blocks = 0;   ///< save initial states, kSavingBlocks a sequence, head, slice
  std::int64_t chunk_blocks = 0;    ///< a chunk, key head and group of value heads each
  /// States are saved of sequences longer than this many chunks: of those that the near or the far
  /// division cuts.
  int saved_chunks = 0;
  /// The blocks that run when these are done are of so many chunks further on.
  int prefetch_chunks = 0;
  std::int64_t blocks() const { return ranking_blocks + saving_blocks + chunk_blocks; }
};
PrepareGrid prepare_grid(const Shape& shape, const Choice& choice, int multiprocessors);

/// Work items of a launch of the chain.
struct ChainItems {
  std::int64_t items = 0;
  /// A block gets its first item as it comes, not by its number.
  bool by_arrival = false;
};
ChainItems chain_items(const Shape& shape, const ChainDivision& division, const Costs& costs);

/// Blocks of a launch of so many work items, of which blocks take one after the other: as many as
/// are on the device at the same time, one a multiprocessor, and no more than there are items.
unsigned int persistent_blocks(std::int64_t items, int multiprocessors);

/// Slots of pieces times value heads; 0 where sequences are whole.
std::int64_t piece_heads(const Shape& shape, const ChainDivision& division);

/// Most piece heads that a choice may have: bounds the workspace.
inline constexpr std::int64_t kMostPieceHeads = 576;

/// Device memory of a plan in bytes, in the order of its allocation.
struct WorkspaceBytes {
  std::int64_t records = 0;      ///< T, P and factors of every chunk and value head
  std::int64_t order = 0;        ///< sequences by length, and the work counters
  std::int64_t bounds = 0;       ///< how much of a state each chunk leaves
  std::int64_t flags = 0;        ///< of pieces
  std::int64_t states = 0;       ///< of pieces, from zeros
  std::int64_t saved = 0;        ///< initial states
  std::int64_t transitions = 0;  ///< of pieces
  std::int64_t total() const {
    return records + order + bounds + flags + states + saved + transitions;
  }
};
/// Of prepare, pieces and chain; `far_heads`: piece_heads of the far division.
WorkspaceBytes workspace_bytes(const Shape& shape, bool in_pieces, std::int64_t far_heads);
/// The most that any choice may take.
WorkspaceBytes most_workspace_bytes(const Shape& shape, bool may_split);

/// The choice in words, for PlanInfo; `blocks`: of the near chain.
std::string describe(const Choice& choice, unsigned int blocks);

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
