// States inside the call in chunks: to the chunkwise kernels the tokens of a sequence up to a checkpoint,
// and those behind its last one, are sequences of their own, so that no chunk crosses a checkpoint. Only
// the state pass knows that they follow one another, and stores a state where one ends.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Segments that a sequence is cut into: one for each checkpoint, then what is left. Segment j of sequence n
/// is number segments_of_sequence() n + j; it is without tokens where the checkpoint is not wanted.
inline __host__ __device__ std::int64_t segments_of_sequence(std::int64_t checkpoints) {
  return checkpoints + 1;
}

/// Device arrays, written by enqueue_checkpoint_segments; M segments of all sequences.
struct CheckpointSegments {
  std::int64_t* offsets = nullptr;     ///< [M + 1], in rows (step_rows.cuh)
  std::int64_t* slot_index = nullptr;  ///< [M], of the segment's sequence
};

/// The same problem with segments for sequences; `checkpoints` and output slots remain those of the sequences.
/// `params`: with several steps per token, of rows.
GatedDeltaParams params_of_segments(const GatedDeltaParams& params,
                                    const CheckpointSegments& segments);

/// `tokens` as made by make_params.
void enqueue_checkpoint_segments(const GatedDeltaParams& tokens, const CheckpointSegments& segments,
                                 cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET
