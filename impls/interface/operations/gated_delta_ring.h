// gated_delta_ring (docs/contract.md, section 1.11): its operands as typed pointers, which is what kernels
// read.
#pragma once

#include <cstdint>

#include "interface/operations/gated_delta.h"

namespace gdn {

const OperationSchema& gated_delta_ring_operation();

/// Of a row of a ring: as many as the problem says, or as the longest sequence has tokens where that is more.
std::int64_t ring_places(const Problem& problem);
/// Whether a sequence with this ring_fold makes a new state: a row that was not read has to be written.
bool ring_folds(const Problem& problem, std::int64_t ring_fold);
/// Element type of ring_update: bfloat16 beside states of that type, else float32.
DType ring_update_dtype(const Problem& problem);

/// Where records lie: record i of the `length` that a sequence has is at place (first + i) % ring of its row,
/// and what the call's token t does is written at (first + length + t) % ring.
struct GatedDeltaRingArguments {
  /// The pool's rows are written for sequences that fold; rounding_seed, checkpoints and output_slot_index are
  /// none.
  GatedDeltaArguments tokens;
  IndexArray ring_first;        ///< [N], 0 .. ring - 1
  IndexArray ring_length;       ///< [N], 0 .. ring less the tokens of the sequence
  IndexArray ring_fold;         ///< [N]; see ring_folds()
  void* ring_key = nullptr;     ///< rows of [ring, Hk, Dk] in the token dtype
  void* ring_update = nullptr;  ///< rows of [ring, Hv, Dv] in ring_update_dtype()
  float* ring_decay = nullptr;  ///< rows of [ring, Hv]
  // Elements from one row of a pool to the next.
  std::int64_t key_row_stride = 0;
  std::int64_t update_row_stride = 0;
  std::int64_t decay_row_stride = 0;
};

/// Checked by require_operands(), as gated_delta_arguments() is.
GatedDeltaRingArguments gated_delta_ring_arguments(const Problem& problem,
                                                   const Arguments& arguments);

}  // namespace gdn
