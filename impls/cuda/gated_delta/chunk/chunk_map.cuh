// Which tokens a chunk holds. Chunks are numbered through all sequences in order; a launch covers
// the upper bound capacity / C + N, and a first small kernel maps chunk -> sequence from the
// sequence_offsets that lie on the device at run time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Device arrays, written by enqueue_chunk_map.
struct ChunkMap {
  std::int32_t* first_chunk = nullptr;  ///< [N + 1]: of each sequence; the last is their number
  std::int32_t* sequence = nullptr;     ///< [max_chunks]: of each chunk
};

/// Chunks of C tokens that sequences of together `tokens` tokens can have at most.
inline std::int64_t max_chunks(std::int64_t tokens, std::int64_t num_sequences, std::int64_t C) {
  return tokens / C + num_sequences;
}

void enqueue_chunk_map(const GatedDeltaParams& params, const ChunkMap& map, int chunk_tokens,
                       cudaStream_t stream);

#ifdef __CUDACC__

/// One chunk; length 0 where the launch's upper bound exceeds the chunks there are.
struct ChunkSpan {
  std::int64_t first_token = 0;  ///< counted over all sequences
  int length = 0;                ///< 1 .. C
  bool padding = false;          ///< of a sequence with slot -1
};

template <int C>
__device__ __forceinline__ ChunkSpan chunk_span(const GatedDeltaParams& p, const ChunkMap& map,
                                                int chunk) {
  if (chunk >= map.first_chunk[p.num_sequences]) return {};
  const int n = map.sequence[chunk];
  const SequenceSpan sequence = sequence_span(p, n);
  const std::int64_t begin = static_cast<std::int64_t>(chunk - map.first_chunk[n]) * C;
  const std::int64_t left = sequence.length - begin;
  return {sequence.first + begin, static_cast<int>(left < C ? left : C), sequence.is_padding()};
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
