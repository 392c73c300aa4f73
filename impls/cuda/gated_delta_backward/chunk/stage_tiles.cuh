// The tokens of a chunk as float32 tiles: q (times scale) and k divided by their norms where the problem
// says so, v and d_output. A block for each chunk and value head; that of a key head's first value head
// writes the tiles of q and k.
//
// Bound by: memory.
#pragma once

#include "cuda/gated_delta_backward/chunk/chunk_gradients.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kTileThreads = 256;

template <int C>
__global__ void __launch_bounds__(kTileThreads)
    backward_tiles_kernel(const BackwardParams backward, const ChunkGradients w) {
  const GatedDeltaParams& p = backward.forward;
  const int chunk = static_cast<int>(blockIdx.x / p.num_value_heads);
  const int head = static_cast<int>(blockIdx.x % p.num_value_heads);
  const ChunkSpan span = chunk_span<C>(p, w.forward.map, chunk);
  if (span.length == 0 || span.padding) return;
  const ChunkTiles<C> tiles(p, w, chunk, head);
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < C * tiles.value_stride; e += kTileThreads) {
    const int r = e / tiles.value_stride, v = e % tiles.value_stride;
    float value = 0, d_output = 0;
    if (r < span.length && v < p.value_head_dim) {
      const std::int64_t token = span.first_token + r;
      const std::int64_t at = static_cast<std::int64_t>(head) * p.value_head_dim + v;
      value = load_element(p.value, token * p.value_token_stride + at, backward.token_dtype);
      d_output = load_element(backward.d_output, token * backward.d_output_token_stride + at,
                              backward.token_dtype);
    }
    tiles.values()[e] = value;
    tiles.d_output()[e] = d_output;
  }
  if (head % p.value_heads_per_key_head != 0) return;
  const std::int64_t key_offset =
      static_cast<std::int64_t>(head / p.value_heads_per_key_head) * p.key_head_dim;
  for (int e = thread; e < C * tiles.key_stride; e += kTileThreads) {
    const int r = e / tiles.key_stride, k = e % tiles.key_stride;
    float query = 0, key = 0;
    if (r < span.length && k < p.key_head_dim) {
      const std::int64_t token = span.first_token + r;
      const std::int64_t at = key_offset + k;
      query = tiles.gates().query_factor[r] *
              load_element(p.query, token * p.query_token_stride + at, backward.token_dtype);
      key = tiles.gates().key_factor[r] *
            load_element(p.key, token * p.key_token_stride + at, backward.token_dtype);
    }
    tiles.query()[e] = query;
    tiles.key()[e] = key;
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
