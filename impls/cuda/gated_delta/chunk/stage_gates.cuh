// Stages 1 and 2 of cuda/chunkwise: norms of q and k (only with normalize_qk), then the scalars of
// every chunk and value head: typed gates decoded, their cumulative sums, beta.
//
// Bound by: reading q and k once (norms); latency (gates: 8 bytes read and 28 written a token and
// head).
#pragma once

#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kGateThreads = 256;

/// One warp per (token, key head): 1 / sqrt(sum x^2 + 1e-6) of q and k. kSteps: per step, the query
/// that of its token.
template <typename Element, bool kSteps>
__global__ void __launch_bounds__(kGateThreads)
    norms_kernel(const GatedDeltaParams p, const ChunkwiseWorkspace w) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t index =
      (static_cast<std::int64_t>(blockIdx.x) * kGateThreads + threadIdx.x) / 32;
  const std::int64_t token = index / p.num_key_heads;
  const int head = static_cast<int>(index % p.num_key_heads);
  if (token >= p.sequence_offsets[p.num_sequences]) return;
  const Element* const query = query_at<Element>(p, kSteps ? token / p.steps : token, head);
  const Element* const key = key_at<Element>(p, token, head);
  float query_squares = 0;
  float key_squares = 0;
  for (int k = lane; k < p.key_head_dim; k += 32) {
    const float q = to_float(query[k]);
    const float x = to_float(key[k]);
    query_squares = fmaf(q, q, query_squares);
    key_squares = fmaf(x, x, key_squares);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    query_squares += __shfl_xor_sync(~0u, query_squares, step);
    key_squares += __shfl_xor_sync(~0u, key_squares, step);
  }
  if (lane == 0) {
    w.query_norm[index] = inverse_length(query_squares);
    w.key_norm[index] = inverse_length(key_squares);
  }
}

/// One warp per (chunk, value head).
template <int C>
__global__ void __launch_bounds__(kGateThreads)
    gates_kernel(const GatedDeltaParams p, const ChunkwiseWorkspace w) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t index =
      (static_cast<std::int64_t>(blockIdx.x) * kGateThreads + threadIdx.x) / 32;
  const std::int64_t chunk = index / p.num_value_heads;
  const int head = static_cast<int>(index % p.num_value_heads);
  if (chunk >= w.max_chunks) return;
  const ChunkSpan span = chunk_span<C>(p, w.map, static_cast<int>(chunk));
  if (span.length == 0 || span.padding) return;
  ChunkGates<C>& gates = *gates_at<C>(w, index);
  scan_chunk_gates(p.gates, head, gates,
                   load_lane_gates<C>(p, head, span.first_token, span.length, lane), span.length,
                   lane);
  const int key_head = head / p.value_heads_per_key_head;
  for (int r = lane; r < C; r += 32) {
    float query_factor = p.scale;
    float key_factor = 1;
    if (p.normalize_qk && r < span.length) {
      const std::int64_t at = (span.first_token + r) * p.num_key_heads + key_head;
      query_factor *= w.query_norm[at];
      key_factor = w.key_norm[at];
    }
    gates.query_factor[r] = query_factor;
    gates.key_factor[r] = key_factor;
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
