// Stage 5 of cuda/chunkwise: the only serial stage, over the chunks of a (sequence, value head):
//
//     V' = U - W S;     S <- gamma_C S + (diag(gamma_C / gamma) K)^T V'
//
// A warp owns 16 value dimensions and is independent of all others: S^T [16 v x Dk] stays in its
// float32 registers, is rounded in place to the operand of S^T W^T, and V'^T, rounded, is the
// operand of V'^T K. Per chunk it stores S^T as it was at the start and V'^T (in the place of U^T)
// for stage 6. A block is 1 to 4 such warps, which share W and K in shared memory, and 2 warps that
// copy the next chunk's there meanwhile.
//
// With checkpoints the sequences of `p` and of the chunk map are segments (checkpoint_segments.cuh): a block
// walks the chunks of all segments of its sequence, which are numbered one behind the other, and its warps
// store S from their registers after the last chunk of a segment that ends at a checkpoint.
//
// With the additive update V' = U and there is no W: only the second of the two equations is left.
//
// Bound by: latency of one chunk (two dependent chains of products) where sequences and heads are
// few, and then by shared-memory reads of W and K (2 C Dk elements a warp and chunk); by memory
// where many.
#pragma once

#include "cuda/gated_delta/chunk/checkpoint_segments.cuh"
#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta/chunk/tile_copy.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kMaxStateWarps = 4;
/// Warps that only copy, so that the others' chain of products is not held up by it.
constexpr int kLoadingWarps = 2;

/// Shared memory of one stage: W, K, this block's U^T, the gates. Byte offsets.
struct StateStage {
  int key;
  int values;
  int gates;
  int bytes;
};
template <typename Element, int C>
__host__ __device__ constexpr StateStage state_stage(int key_head_dim, int warps) {
  const int padded = 16 * blocks_of_16(key_head_dim);
  const int element = static_cast<int>(sizeof(Element));
  StateStage stage{};
  stage.key = C * padded * element;
  stage.values = stage.key + C * tile_stride(padded) * element;
  stage.gates = stage.values + C * 16 * warps * element;
  stage.bytes = stage.gates + static_cast<int>(sizeof(ChunkGates<C>));
  return stage;
}

/// S^T of a block of `warps` warps as it passes between the pool and registers: float
/// [16 warps][tile_stride].
inline __host__ __device__ int state_exchange_bytes(int key_head_dim, int warps) {
  return 16 * warps * tile_stride(16 * blocks_of_16(key_head_dim)) *
         static_cast<int>(sizeof(float));
}

/// A warp's S^T, of value dimensions v_begin .. v_begin + 15, to a row of states.
template <int kKeyBlocks>
__device__ __forceinline__ void store_fragments(const StatePool& states, std::int64_t row, int head,
                                                int v_begin, const Accumulator (&S)[kKeyBlocks],
                                                int lane) {
#pragma unroll
  for (int kk = 0; kk < kKeyBlocks; ++kk) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int k = 16 * kk + fragment_column(lane, e);
      const int v = v_begin + fragment_row(lane, e);
      if (k < states.key_head_dim && v < states.value_head_dim) {
        store_state(states, row, head, k, v, S[kk].value[e]);
      }
    }
  }
}

/// kKeyBlocks: 16-row blocks of S that are computed; Dk <= 16 kKeyBlocks. Block: a warp for
/// each 16 value dimensions, then kLoadingWarps. `stages`: 1 or 2 chunks in shared memory.
template <typename Element, int C, int kKeyBlocks, bool kAdditive, bool kCheckpoints>
__global__ void __launch_bounds__(32 * (kMaxStateWarps + kLoadingWarps),
                                  kKeyBlocks <= 8 && sizeof(Element) == 2 ? 2 : 1)
    states_kernel(const GatedDeltaParams p, const ChunkwiseWorkspace w, int stages) {
  constexpr int kBlocks = C / 16;
  // blocks of 16 tokens whose V' is summed at a time: as many as there are registers for
  constexpr int kMost = C == 32 ? 1 : 2;
  constexpr int kGroup = kBlocks < kMost ? kBlocks : kMost;
  // Where registers allow, blocks of S past Dk, which are zero, are multiplied as well: without
  // branches the loads of one block run ahead of the products of the one before.
  constexpr bool kEveryBlock = kKeyBlocks <= 8 && sizeof(Element) == 2;
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  const int thread = static_cast<int>(threadIdx.x);
  const int num_threads = static_cast<int>(blockDim.x);
  const int warps = num_threads / 32 - kLoadingWarps;
  const int lane = thread % 32;
  const int key_blocks = blocks_of_16(p.key_head_dim);
  const int value_blocks = blocks_of_16(p.value_head_dim);
  const int tiles = (value_blocks + warps - 1) / warps;
  const int tile = static_cast<int>(blockIdx.x % tiles);
  const int head = static_cast<int>(blockIdx.x / tiles % p.num_value_heads);
  const int sequence = static_cast<int>(blockIdx.x / tiles / p.num_value_heads);
  // its segments, without checkpoints itself
  const int segments =
      kCheckpoints ? static_cast<int>(segments_of_sequence(p.checkpoints.count)) : 1;
  SequenceSpan span = sequence_span(p, sequence * segments);
  if constexpr (kCheckpoints) {
    span.length = p.sequence_offsets[(sequence + 1) * segments] - span.first;
  }

  const int first_block = tile * warps;  // of value dimensions, this block's
  const int block_count = min(warps, value_blocks - first_block);
  const int v_begin = 16 * first_block;
  const int v_end = min(p.value_head_dim, v_begin + 16 * block_count);
  if constexpr (kCheckpoints) {
    store_absent_checkpoints(p, sequence, span, head, v_begin, v_end, thread, num_threads);
  }
  if (span.length == 0 || span.is_padding()) return;
  const int first_chunk = w.map.first_chunk[sequence * segments];
  const int num_chunks = kCheckpoints ? w.map.first_chunk[(sequence + 1) * segments] - first_chunk
                                      : static_cast<int>((span.length + C - 1) / C);
  const int my_block = thread / 32;
  const bool active = my_block < block_count;

  float* const exchange = reinterpret_cast<float*>(shared_bytes);
  const int exchange_stride = tile_stride(16 * key_blocks);
  for (int at = thread; at < 16 * warps * exchange_stride; at += num_threads) exchange[at] = 0;
  __syncthreads();
  load_state_tile(
      p.pool, span.row, head, v_begin, v_end, thread, num_threads,
      [&](int k, int v, float value) { exchange[(v - v_begin) * exchange_stride + k] = value; });
  __syncthreads();

  const StateStage layout = state_stage<Element, C>(p.key_head_dim, warps);
  const auto stage_at = [&](int c) {
    return shared_bytes + (stages == 2 ? c % 2 : 0) * layout.bytes;
  };
  // Both roles pass the same block barriers: one before the first step, one after each, and with
  // one stage one within it. With two stages the copies run a step ahead: chunk c + 1 while c is
  // computed.
  if (thread >= 32 * warps) {
    const int loader = thread - 32 * warps;
    const auto fetch = [&](int c) {
      unsigned char* const stage = stage_at(c);
      const std::int64_t index = chunk_head(p, first_chunk + c, head);
      ChunkSpan chunk;
      if constexpr (kCheckpoints) {
        chunk = chunk_span<C>(p, w.map, first_chunk + c);
      } else {
        const std::int64_t done = static_cast<std::int64_t>(c) * C;
        chunk.first_token = span.first + done;
        chunk.length = static_cast<int>(span.length - done < C ? span.length - done : C);
      }
      if constexpr (!kAdditive) {
        copy_async(stage, w_at<Element, C>(w, p, index),
                   kBlocks * key_blocks * kFragmentElements * static_cast<int>(sizeof(Element)),
                   loader, 32 * kLoadingWarps);
      }
      copy_rows_async(reinterpret_cast<Element*>(stage + layout.key), tile_stride(16 * key_blocks),
                      key_at<Element>(p, chunk.first_token, head / p.value_heads_per_key_head),
                      p.key_token_stride, C, chunk.length, p.key_head_dim, 16 * key_blocks, loader,
                      32 * kLoadingWarps);
      copy_async(stage + layout.values,
                 values_at<Element, C>(w, p, index) + first_block * kBlocks * kFragmentElements,
                 block_count * kBlocks * kFragmentElements * static_cast<int>(sizeof(Element)),
                 loader, 32 * kLoadingWarps);
      copy_async(stage + layout.gates, gates_at<C>(w, index), sizeof(ChunkGates<C>), loader,
                 32 * kLoadingWarps);
      commit_copies();
    };
    block_barrier();
#pragma unroll 1
    for (int c = 1 - stages; c < num_chunks; ++c) {
      if (c + stages - 1 < num_chunks) {
        fetch(c + stages - 1);
        wait_copies<0>();
      }
      if (stages == 1) block_barrier();
      block_barrier();
    }
  } else {
    Accumulator S[kKeyBlocks];  // S^T, rows v, columns k: block kk holds k = 16 kk ..
#pragma unroll
    for (int kk = 0; kk < kKeyBlocks; ++kk) {
      S[kk] = zero_accumulator();
      if (kk < key_blocks) {
        S[kk] = widen(load_fragment(exchange, exchange_stride, 16 * my_block, 16 * kk, lane));
      }
    }
    block_barrier();
    if (stages == 2) block_barrier();
#pragma unroll 1
    for (int c = 0; c < num_chunks; ++c) {
      if (stages == 1) block_barrier();
      if (active) {
        unsigned char* const stage = stage_at(c);
        const auto* const W = reinterpret_cast<const Element*>(stage);
        const auto* const K = reinterpret_cast<const Element*>(stage + layout.key);
        auto* const U = reinterpret_cast<Element*>(stage + layout.values) +
                        my_block * kBlocks * kFragmentElements;
        const auto& gates = *reinterpret_cast<const ChunkGates<C>*>(stage + layout.gates);
        const std::int64_t index = chunk_head(p, first_chunk + c, head);
        Element* const states =
            states_at<Element>(w, p, index) +
            static_cast<std::int64_t>(first_block + my_block) * key_blocks * kFragmentElements;
        Element* const values = values_at<Element, C>(w, p, index) +
                                (first_block + my_block) * kBlocks * kFragmentElements;

#pragma unroll 1
        for (int first = 0; first < kBlocks; first += kGroup) {
          Accumulator sums[kGroup];  // -V'^T = S^T W^T - U^T, blocks [16 v x 16 tokens]
#pragma unroll
          for (int g = 0; g < kGroup; ++g) {
            sums[g] = widen(load_stored_fragment(U + (first + g) * kFragmentElements, lane));
            if constexpr (!kAdditive) {
#pragma unroll
              for (float& value : sums[g].value) value = -value;
            }
          }
#pragma unroll
          for (int kk = 0; kk < kKeyBlocks; ++kk) {
            if (!kEveryBlock && kk >= key_blocks) break;
            const int at = kEveryBlock ? min(kk, key_blocks - 1) : kk;
            const auto operand = round_to_fragment<Element>(S[kk]);
            if (first == 0 && kk < key_blocks) {
              store_fragment(states + kk * kFragmentElements, operand, lane);
            }
            if constexpr (!kAdditive) {
#pragma unroll
              for (int g = 0; g < kGroup; ++g) {
                const Element* const block =
                    W + ((first + g) * key_blocks + at) * kFragmentElements;
                multiply_add(sums[g], operand, load_stored_fragment(block, lane));
              }
            }
          }
#pragma unroll
          for (int g = 0; g < kGroup; ++g) {
            const int i = first + g;
            if constexpr (!kAdditive) {
#pragma unroll
              for (float& value : sums[g].value) value = -value;
              store_fragment(values + i * kFragmentElements, round_to_fragment<Element>(sums[g]),
                             lane);
            }
#pragma unroll
            for (int e = 0; e < 8; ++e) {
              const int token = 16 * i + fragment_column(lane, e);
              sums[g].value[e] *= gates.remaining[token] * gates.key_factor[token];
            }
            // V'^T, each token decayed to the chunk's end, in the place of U^T: each lane's own
            // share
            store_fragment(U + i * kFragmentElements, round_to_fragment<Element>(sums[g]), lane);
          }
        }
        const float chunk_decay = gates.gamma[C - 1];
#pragma unroll
        for (int kk = 0; kk < kKeyBlocks; ++kk) {
#pragma unroll
          for (float& value : S[kk].value) value *= chunk_decay;
        }
#pragma unroll 1
        for (int i = 0; i < kBlocks; ++i) {
          const auto decayed = load_stored_fragment(U + i * kFragmentElements, lane);
#pragma unroll
          for (int kk = 0; kk < kKeyBlocks; ++kk) {
            if (!kEveryBlock && kk >= key_blocks) break;
            const int at = kEveryBlock ? min(kk, key_blocks - 1) : kk;
            multiply_add(
                S[kk], decayed,
                load_fragment_transposed(K, tile_stride(16 * key_blocks), 16 * i, 16 * at, lane));
          }
        }
        if (kEveryBlock && key_blocks < kKeyBlocks) {
#pragma unroll
          for (int kk = 1; kk < kKeyBlocks; ++kk) {
            if (kk >= key_blocks) S[kk] = zero_accumulator();
          }
        }
        if constexpr (kCheckpoints) {
          const int segment = w.map.sequence[first_chunk + c];
          const int place = segment - sequence * segments;
          if (place < p.checkpoints.count &&
              w.map.first_chunk[segment + 1] == first_chunk + c + 1) {
            const std::int64_t row = std::int64_t{sequence} * p.checkpoints.count + place;
            store_fragments(p.checkpoints.states, row, head, v_begin + 16 * my_block, S, lane);
          }
        }
      }
      block_barrier();
    }
    if (active) {
#pragma unroll
      for (int kk = 0; kk < kKeyBlocks; ++kk) {
        if (kk < key_blocks) {
#pragma unroll
          for (int e = 0; e < 8; e += 2) {
            *reinterpret_cast<float2*>(
                exchange + (16 * my_block + fragment_row(lane, e)) * exchange_stride + 16 * kk +
                fragment_column(lane, e)) = make_float2(S[kk].value[e], S[kk].value[e + 1]);
          }
        }
      }
    }
  }
  __syncthreads();
  store_state_tile(p.pool, output_row(p, sequence, span.row), head, v_begin, v_end, thread,
                   num_threads,
                   [&](int k, int v) { return exchange[(v - v_begin) * exchange_stride + k]; });
}

}  // namespace gdn::GDN_CUDA_TARGET
