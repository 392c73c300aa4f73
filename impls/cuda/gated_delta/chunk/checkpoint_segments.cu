#include "cuda/gated_delta/chunk/checkpoint_segments.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 128;

/// One thread per sequence: a segment ends where the next wanted checkpoint is only after all before it.
__global__ void __launch_bounds__(kThreads)
    segments_kernel(const GatedDeltaParams tokens, const CheckpointSegments segments) {
  const int n = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (n >= tokens.num_sequences) return;
  const SequenceSpan span = sequence_span(tokens, n);
  std::int64_t segment = n * segments_of_sequence(tokens.checkpoints.count);
  std::int64_t begin = 0;
  for (std::int64_t j = 0; j <= tokens.checkpoints.count; ++j, ++segment) {
    segments.offsets[segment] = (span.first + begin) * tokens.steps;
    segments.slot_index[segment] = span.row;
    if (j == tokens.checkpoints.count || span.length == 0) continue;
    const std::int64_t count =
        tokens.checkpoints.tokens[std::int64_t{n} * tokens.checkpoints.count + j];
    if (count != 0) begin = count;
  }
  if (n == tokens.num_sequences - 1) {
    segments.offsets[segment] = (span.first + span.length) * tokens.steps;
  }
}

}  // namespace

GatedDeltaParams params_of_segments(const GatedDeltaParams& params,
                                    const CheckpointSegments& segments) {
  GatedDeltaParams p = params;
  p.num_sequences = static_cast<std::int32_t>(params.num_sequences *
                                              segments_of_sequence(params.checkpoints.count));
  p.sequence_offsets = segments.offsets;
  p.slot_index = segments.slot_index;
  return p;
}

void enqueue_checkpoint_segments(const GatedDeltaParams& tokens, const CheckpointSegments& segments,
                                 cudaStream_t stream) {
  launch_kernel(
      segments_kernel,
      grid_blocks((std::int64_t{tokens.num_sequences} + kThreads - 1) / kThreads, "cuda/chunkwise"),
      kThreads, 0, stream, tokens, segments);
}

}  // namespace gdn::GDN_CUDA_TARGET
