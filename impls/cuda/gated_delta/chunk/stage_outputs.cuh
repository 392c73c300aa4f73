// Stage 6 of cuda/chunkwise: the outputs of a chunk and value head,
//
//     O = scale (diag(gamma) Q S + lower(Q K^T * D) V')
//
// with S at the chunk's start and V' from stage 5. One block per (chunk, value head), one warp per
// 16 tokens. The blocks of S and V' come straight from global memory (L1 serves the block's other
// warps) in the order in which the products take them.
//
// With several steps per token the query of a token stands in its last step's row, and the other
// rows of the products are left unused.
//
// Bound by: memory; S alone is Dk Dv / C elements a token and head.
#pragma once

#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta/chunk/output_pair.cuh"
#include "cuda/gated_delta/chunk/step_rows.cuh"
#include "cuda/gated_delta/chunk/tile_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Key dimensions of K in shared memory at a time; Q lies there whole.
constexpr int kOutputSlab = 64;
/// Value blocks of 16 that a warp sums at a time: as many as registers and, where several warps
/// share the tokens, shared memory have room for.
template <typename Element, int C>
constexpr int output_group() {
  if (sizeof(Element) == 2) return C < 64 ? 2 : 4;
  return C == 64 ? 2 : 1;
}
template <typename Element, int C>
constexpr int kOutputGroup = output_group<Element, C>();
/// Warps that share 16 tokens, each with other value blocks: small chunks would have too few warps.
template <int C>
constexpr int kOutputColumns = C < 64 ? 64 / C : 1;
template <int C>
constexpr int kOutputThreads = 2 * C* kOutputColumns<C>;

/// Shared memory: byte offsets. Groups of value blocks, of S and V', one ahead; K in the place of
/// the second, which is fetched when K has been used.
struct OutputsLayout {
  int query, group, group_bytes, bytes;
};
template <typename Element, int C>
__host__ __device__ constexpr OutputsLayout outputs_layout(int key_head_dim, int value_head_dim) {
  const int element = static_cast<int>(sizeof(Element));
  const int key_blocks = blocks_of_16(key_head_dim);
  const int value_blocks = blocks_of_16(value_head_dim);
  const int group = kOutputGroup<Element, C> * kOutputColumns<C>;
  const int group_blocks = group < value_blocks ? group : value_blocks;
  OutputsLayout at{};
  at.query = static_cast<int>(sizeof(ChunkGates<C>));
  at.group = at.query + C * tile_stride(16 * key_blocks) * element;
  at.group_bytes = group_blocks * (key_blocks + C / 16) * kFragmentElements * element;
  const int key_bytes = C * tile_stride(kOutputSlab) * element;
  const int second_bytes = group < value_blocks ? at.group_bytes : 0;
  at.bytes = at.group + at.group_bytes + (key_bytes > second_bytes ? key_bytes : second_bytes);
  return at;
}

/// The queries of the tokens whose last step is in the chunk, each in that step's row; zeros in the
/// others.
template <typename Element>
__device__ __forceinline__ void copy_queries_of_steps_async(const GatedDeltaParams& p,
                                                            Element* tile, int stride, int rows,
                                                            const ChunkSpan& span, int key_head,
                                                            int padded_columns, int thread,
                                                            int num_threads) {
  constexpr int kVector = 16 / sizeof(Element);
  const RowTokens<true> tokens(p, span.first_token);
  const int vectors = padded_columns / kVector;
  for (int i = thread; i < rows * vectors; i += num_threads) {
    const int row = i / vectors;
    const int column = i % vectors * kVector;
    const bool valid = row < span.length && tokens.is_last(row) && column < p.key_head_dim;
    copy16_async_if(valid, tile + row * stride + column,
                    valid ? query_at<Element>(p, tokens.token(row), key_head) + column
                          : query_at<Element>(p, 0, 0));
  }
}

template <typename Element, int C, bool kSteps>
__global__ void __launch_bounds__(kOutputThreads<C>, sizeof(Element) == 2 && C < 128 ? 4 : 1)
    outputs_kernel(const GatedDeltaParams p, const ChunkwiseWorkspace w) {
  constexpr int kBlocks = C / 16;
  constexpr int kThreads = kOutputThreads<C>;
  constexpr int kKeyStride = tile_stride(kOutputSlab);
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  auto& gates = *reinterpret_cast<ChunkGates<C>*>(shared_bytes);
  const OutputsLayout at = outputs_layout<Element, C>(p.key_head_dim, p.value_head_dim);
  auto* const query_tile = reinterpret_cast<Element*>(shared_bytes + at.query);
  const auto group_tile = [&](int group) {
    return reinterpret_cast<Element*>(shared_bytes + at.group + group % 2 * at.group_bytes);
  };
  Element* const key_tile = group_tile(1);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int i = thread / 32 % kBlocks;       // this warp's block of 16 tokens
  const int column = thread / 32 / kBlocks;  // and which of the warps that share them it is
  const int chunk = static_cast<int>(blockIdx.x / p.num_value_heads);
  const int head = static_cast<int>(blockIdx.x % p.num_value_heads);
  const int key_head = head / p.value_heads_per_key_head;
  const ChunkSpan span = chunk_span<C>(p, w.map, chunk);
  const RowTokens<kSteps> tokens(p, span.first_token);
  if (span.length == 0) return;
  if (span.padding) {
    const std::int64_t first = tokens.first_token;
    const std::int64_t end = tokens.token(span.length);
    store_zero_outputs(p, {first, end - first, -1}, head, 0, p.value_head_dim, thread, kThreads);
    return;
  }
  const std::int64_t index = chunk_head(p, chunk, head);
  const int key_blocks = blocks_of_16(p.key_head_dim);
  const int value_blocks = blocks_of_16(p.value_head_dim);
  const int query_stride = tile_stride(16 * key_blocks);

  // S, then V', of value blocks [kGroup group, ...)
  constexpr int kOwn = kOutputGroup<Element, C>;  // this warp's of a group
  constexpr int kGroup = kOwn * kOutputColumns<C>;
  const int group_blocks = min(kGroup, value_blocks);
  const auto fetch_group = [&](int group) {
    const int first = group * kGroup;
    const int count = min(kGroup, value_blocks - first);
    constexpr int kBlockBytes = kFragmentElements * static_cast<int>(sizeof(Element));
    copy_async(group_tile(group),
               states_at<Element>(w, p, index) +
                   static_cast<std::int64_t>(first) * key_blocks * kFragmentElements,
               count * key_blocks * kBlockBytes, thread, kThreads);
    copy_async(group_tile(group) + group_blocks * key_blocks * kFragmentElements,
               values_at<Element, C>(w, p, index) + first * kBlocks * kFragmentElements,
               count * kBlocks * kBlockBytes, thread, kThreads);
    commit_copies();
  };

  copy_async(&gates, gates_at<C>(w, index), sizeof(ChunkGates<C>), thread, kThreads);
  if constexpr (kSteps) {
    copy_queries_of_steps_async(p, query_tile, query_stride, C, span, key_head, 16 * key_blocks,
                                thread, kThreads);
  } else {
    copy_rows_async(query_tile, query_stride, query_at<Element>(p, span.first_token, key_head),
                    p.query_token_stride, C, span.length, p.key_head_dim, 16 * key_blocks, thread,
                    kThreads);
  }
  const Element* const key = key_at<Element>(p, span.first_token, key_head);
  Accumulator products[kBlocks];  // Q K^T, blocks (i, 0 .. i)
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) products[j] = zero_accumulator();
  for (int first = 0; first < p.key_head_dim; first += kOutputSlab) {
    const int columns = min(kOutputSlab, p.key_head_dim - first);
    copy_rows_async(key_tile, kKeyStride, key + first, p.key_token_stride, C, span.length, columns,
                    16 * blocks_of_16(columns), thread, kThreads);
    commit_copies();
    if (first == 0) {
      fetch_group(0);  // meanwhile
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();
    for (int column = 0; column < columns; column += 16) {
      const auto rows = load_fragment(query_tile, query_stride, 16 * i, first + column, lane);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        if (j <= i) {
          multiply_add(products[j], rows,
                       load_fragment(key_tile, kKeyStride, 16 * j, column, lane));
        }
      }
    }
    __syncthreads();
  }
  Fragment<Element> P[kBlocks];  // scale lower(Q K^T * D), blocks (i, 0 .. i)
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    if (j <= i) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int r = 16 * i + fragment_row(lane, e);
        const int c = 16 * j + fragment_column(lane, e);
        const float entry = gates.query_factor[r] * gates.key_factor[c] *
                            decay_between(gates, r, c) * products[j].value[e];
        products[j].value[e] = r >= c ? entry : 0.0f;
      }
    }
    P[j] = round_to_fragment<Element>(products[j]);
  }

  const int row = 16 * i + lane / 4;  // of this lane's pairs 0 and 2; pairs 1 and 3: row + 8
  const float row_factor[2] = {gates.gamma[row] * gates.query_factor[row],
                               gates.gamma[row + 8] * gates.query_factor[row + 8]};
  for (int group = 0; group * kGroup < value_blocks; ++group) {
    wait_copies<0>();
    __syncthreads();
    if ((group + 1) * kGroup < value_blocks) fetch_group(group + 1);
    const int first = group * kGroup + column * kOwn;  // value blocks of this warp
    const int last = value_blocks - 1 - first;
    if (last < 0) continue;
    const Element* const states =
        group_tile(group) + column * kOwn * key_blocks * kFragmentElements;
    const Element* const values =
        group_tile(group) +
        (group_blocks * key_blocks + column * kOwn * kBlocks) * kFragmentElements;
    Accumulator sums[kOwn];
#pragma unroll
    for (int g = 0; g < kOwn; ++g) sums[g] = zero_accumulator();
#pragma unroll 2
    for (int kk = 0; kk < key_blocks; ++kk) {
      const auto query = load_fragment(query_tile, query_stride, 16 * i, 16 * kk, lane);
#pragma unroll
      for (int g = 0; g < kOwn; ++g) {  // past the last block: that one again, not stored
        const int block = min(g, last) * key_blocks + kk;
        multiply_add(sums[g], query,
                     load_stored_fragment(states + block * kFragmentElements, lane));
      }
    }
#pragma unroll
    for (int g = 0; g < kOwn; ++g) {
#pragma unroll
      for (int e = 0; e < 8; ++e) sums[g].value[e] *= row_factor[e / 2 % 2];
    }
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      if (j <= i) {
#pragma unroll
        for (int g = 0; g < kOwn; ++g) {
          const int block = min(g, last) * kBlocks + j;
          multiply_add(sums[g], P[j],
                       load_stored_fragment(values + block * kFragmentElements, lane));
        }
      }
    }
#pragma unroll
    for (int g = 0; g < kOwn; ++g) {
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        const int r = 16 * i + fragment_row(lane, e);
        const int v = 16 * (first + g) + fragment_column(lane, e);
        if (r < span.length && v < p.value_head_dim && tokens.is_last(r)) {
          store_output_pair<Element>(p, output_index(p, tokens.token(r), head, v), sums[g].value[e],
                                     sums[g].value[e + 1]);
        }
      }
    }
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
