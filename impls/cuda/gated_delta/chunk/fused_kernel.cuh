// cuda/fused: one kernel walks the chunks of a (sequence, value head) with the state on chip.
//
// A block holds up to 8 value warps and 4 or 8 preparing warps, which work on consecutive chunks at
// the same time and meet at one barrier a chunk:
//
//   preparing warps, chunk c + 1            value warps, chunk c; each 16 value dimensions
//     gates; norms of q and k                 X  = diag(beta) (V - diag(gamma) K S)
//     L = I + strict_lower(.. K K^T ..)       V' = T X
//     P = scale lower(Q K^T * D)              O  = scale diag(gamma) Q S + P V'
//     T = L^-1                                S <- gamma_C S + (diag(gamma_C / gamma) K)^T V'
//
// S^T [16 v x Dk] stays in the float32 registers of its warp, X and V' as well: a value warp reads
// K, Q, T and P from shared memory and exchanges nothing with the other ones. K, Q and V of the
// chunks to come arrive meanwhile.
//
// With checkpoints the walk ends at each of them and starts anew behind it, the state passing through
// shared memory in float32: a chunk never crosses one.
#pragma once

#include <type_traits>

#include "cuda/gated_delta/chunk/chunk_gates.cuh"
#include "cuda/gated_delta/chunk/fragments.cuh"
#include "cuda/gated_delta/chunk/fused_launch.cuh"
#include "cuda/gated_delta/chunk/output_pair.cuh"
#include "cuda/gated_delta/chunk/tile_copy.cuh"
#include "cuda/gated_delta/chunk/triangular_inverse.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// What a block does.
struct alignas(16) FusedWork {
  SequenceSpan span;
  int sequence;
  int num_chunks;
  int head;
  int key_head;
  int v_begin;  ///< its value dimensions
  int v_end;

  template <int C>
  __device__ std::int64_t first_token(int chunk) const {
    return span.first + static_cast<std::int64_t>(chunk) * C;
  }
  template <int C>
  __device__ int length(int chunk) const {
    const std::int64_t left = span.length - static_cast<std::int64_t>(chunk) * C;
    return static_cast<int>(left < C ? left : C);
  }
};

/// Behind it, with checkpoints: where the block is in its sequence, of which FusedWork then has the tokens
/// up to the next checkpoint alone.
struct FusedCheckpoints {
  CheckpointWalk walk;
  std::int64_t sequence_first;  ///< token
  bool is_done;

  template <int C>
  __device__ void begin(const GatedDeltaParams& p, FusedWork& work) {
    walk = CheckpointWalk(p, work.sequence, work.span.length);
    sequence_first = work.span.first;
    show_tokens<C>(work);
  }
  template <int C>
  __device__ void advance(const GatedDeltaParams& p, FusedWork& work) {
    is_done = !walk.next(p);
    if (!is_done) show_tokens<C>(work);
  }

 private:
  template <int C>
  __device__ void show_tokens(FusedWork& work) const {
    work.span.first = sequence_first + walk.begin;
    work.span.length = walk.end - walk.begin;
    work.num_chunks = static_cast<int>((work.span.length + C - 1) / C);
  }
};

/// Shared memory: byte offsets. K, Q, V: row-major tiles; T, P: lower blocks in fragment order.
struct FusedLayout {
  int key, query, value, inverse, scores, gates, triangle, work, bytes;
  int key_tile, value_tile, triangle_tile;  ///< bytes of one K or Q; of one V; of one T or P
};
template <typename Element, int C, int kKeyBlocks, bool kCheckpoints>
__host__ __device__ constexpr FusedLayout fused_layout(const FusedSplit& split) {
  const int element = static_cast<int>(sizeof(Element));
  FusedLayout at{};
  at.key_tile = C * tile_stride(16 * kKeyBlocks) * element;
  at.value_tile = C * tile_stride(16 * split.value_warps) * element;
  at.triangle_tile = triangle_blocks(C) * kFragmentElements * element;
  at.key = 0;
  at.query = at.key + split.key_stages * at.key_tile;
  at.value = at.query + split.key_stages * at.key_tile;
  at.inverse = at.value + 2 * at.value_tile;
  at.scores = at.inverse + 2 * at.triangle_tile;
  at.gates = at.scores + 2 * at.triangle_tile;
  at.triangle = at.gates + 3 * static_cast<int>(sizeof(ChunkGates<C>));
  at.bytes = at.triangle + C * kTriangleStride<C> * static_cast<int>(sizeof(float));
  const int exchange =  // S^T between the pool and registers, before and after all else
      16 * split.value_warps * tile_stride(16 * kKeyBlocks) * static_cast<int>(sizeof(float));
  if (exchange > at.bytes) at.bytes = exchange;
  at.work = at.bytes;
  at.bytes += static_cast<int>(sizeof(FusedWork));
  if (kCheckpoints) at.bytes += static_cast<int>(sizeof(FusedCheckpoints));
  return at;
}

/// Which block of K K^T or, `is_score`, of Q K^T a preparing warp's product is.
template <int kBlocks>
struct TriangleTask {
  bool is_score;
  int row;  ///< of blocks
  int column;

  /// index: 0 .. 2 triangle_blocks - 1; those of K K^T first, by rows.
  __device__ __forceinline__ explicit TriangleTask(int index) {
    constexpr int kTriangle = triangle_block(kBlocks, 0);
    is_score = index >= kTriangle;
    const int block = index - (is_score ? kTriangle : 0);
    row = 0;
#pragma unroll
    for (int i = 1; i < kBlocks; ++i) row += block >= triangle_block(i, 0) ? 1 : 0;
    column = block - triangle_block(row, 0);
  }
};

/// T, P and the key and query factors of one chunk from its K and Q, by the preparing warps. The
/// last of them scans the next chunk's gates: while the others invert where the chunk has fewer blocks
/// than there are warps, else behind its own part of the inverse, which is the least.
template <typename Element, int C, int kKeyBlocks>
__device__ __forceinline__ void prepare_chunk(const GatedDeltaParams& p, const Element* key,
                                              const Element* query, int head,
                                              const LaneGates<C>& next_gates, int next_length,
                                              ChunkGates<C>& next, int length, ChunkGates<C>& gates,
                                              float* L, Element* inverse, Element* scores,
                                              int first_warp, int num_threads) {
  constexpr int kBlocks = C / 16;
  constexpr int kTriangle = triangle_blocks(C);
  const int lane = lane_anew();
  const int warp = warp_anew() - first_warp;
  const int warps = num_threads / 32;
  const int key_blocks = blocks_of_16(p.key_head_dim);
  constexpr int kStride = tile_stride(16 * kKeyBlocks);

  // One row of K or Q each, by the last warps: they have the fewest of the products below.
  const int norm = num_threads - 1 - (32 * warp + lane);
  if (norm < 2 * C) {
    const int r = norm % C;
    const bool is_key = norm < C;
    float factor = is_key ? 1.0f : p.scale;
    if (p.normalize_qk && r < length) {
      const Element* const row = (is_key ? key : query) + r * kStride;
      float squares = 0;
#pragma unroll 1
      for (int k = 0; k < p.key_head_dim; k += Vector16<Element>::kCount) {
        const auto vector = *reinterpret_cast<const Vector16<Element>*>(row + k);
#pragma unroll
        for (int e = 0; e < Vector16<Element>::kCount; ++e) {
          const float x = to_float(vector.values[e]);
          squares = fmaf(x, x, squares);
        }
      }
      factor *= inverse_length(squares);
    }
    (is_key ? gates.key_factor : gates.query_factor)[r] = factor;
  }

  // The lower blocks of K K^T, then those of Q K^T, dealt out to the warps. Fragments are loaded one step
  // ahead of their product.
  constexpr int kTasks = (2 * kTriangle + kFewestPreparingWarps - 1) / kFewestPreparingWarps;
  Accumulator products[kTasks];
#pragma unroll
  for (int t = 0; t < kTasks; ++t) {
    if (warp + t * warps >= 2 * kTriangle) break;
    const TriangleTask<kBlocks> task(warp + t * warps);
    const Element* const rows = (task.is_score ? query : key) + 16 * task.row * kStride;
    const Element* const columns = key + 16 * task.column * kStride;
    auto left = load_fragment(rows, kStride, 0, 0, lane);
    auto right = load_fragment(columns, kStride, 0, 0, lane);
    products[t] = zero_accumulator();
    // A float32 product is twelve instructions of the tensor cores and several times as many besides:
    // twice it no longer fits in the instruction cache beside the rest.
    [[maybe_unused]] constexpr int kUnroll = sizeof(Element) == 2 ? 2 : 1;
#pragma unroll kUnroll
    for (int kk = 1; kk < key_blocks; ++kk) {
      const auto next_left = load_fragment(rows, kStride, 0, 16 * kk, lane);
      const auto next_right = load_fragment(columns, kStride, 0, 16 * kk, lane);
      multiply_add(products[t], left, right);
      left = next_left;
      right = next_right;
    }
    multiply_add(products[t], left, right);
  }
  named_barrier<1>(num_threads);  // the factors of all tokens are there
#pragma unroll
  for (int t = 0; t < kTasks; ++t) {
    if (warp + t * warps >= 2 * kTriangle) break;
    const TriangleTask<kBlocks> task(warp + t * warps);
    const int i = task.row;
    const int j = task.column;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int r = 16 * i + fragment_row(lane, e);
      const int c = 16 * j + fragment_column(lane, e);
      const float row_factor =
          task.is_score ? gates.query_factor[r] : gates.beta[r] * gates.key_factor[r];
      const float entry =
          row_factor * gates.key_factor[c] * decay_between(gates, r, c) * products[t].value[e];
      products[t].value[e] = (task.is_score ? r >= c : r > c) ? entry : 0.0f;
    }
    if (task.is_score) {
      store_fragment(scores + triangle_block(i, j) * kFragmentElements,
                     round_to_fragment<Element>(products[t]), lane);
    } else {
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        *reinterpret_cast<float2*>(L + (16 * i + fragment_row(lane, e)) * kTriangleStride<C> +
                                   16 * j + fragment_column(lane, e)) =
            make_float2(products[t].value[e], products[t].value[e + 1]);
      }
    }
  }
  named_barrier<1>(num_threads);
  if (warp < kBlocks) {
    invert_diagonal_block<C>(L, warp, lane);
    named_barrier<2>(32 * kBlocks);
    substitute_block_column<C>(L, warp, lane, [&](int i, const Accumulator& block) {
      store_fragment(inverse + triangle_block(i, warp) * kFragmentElements,
                     round_to_fragment<Element>(block), lane);
    });
  }
  if (warp == warps - 1 && next_length > 0)
    scan_chunk_gates(p.gates, head, next, next_gates, next_length, lane);
}

/// One chunk of one value warp. S^T in and out; `value` points at the warp's 16 columns of V.
template <typename Element, int C, int kKeyBlocks>
__device__ __forceinline__ void walk_chunk(Accumulator (&S)[kKeyBlocks], const GatedDeltaParams& p,
                                           const Element* key, const Element* query,
                                           const Element* value, int value_stride,
                                           const ChunkGates<C>& gates, const Element* inverse,
                                           const Element* scores, const FusedWork& work,
                                           int chunk) {
  constexpr int kBlocks = C / 16;
  const int key_blocks = blocks_of_16(p.key_head_dim);
  constexpr int kStride = tile_stride(16 * kKeyBlocks);

  int lane = lane_anew();
  // (K S)^T, blocks [16 v x 16 tokens], and Q S, blocks [16 tokens x 16 v]
  Accumulator predicted[kBlocks];
  Accumulator outputs[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) predicted[i] = outputs[i] = zero_accumulator();
#pragma unroll
  for (int kk = 0; kk < kKeyBlocks; ++kk) {
    if (kk < key_blocks) {
      const auto operand = round_to_fragment<Element>(S[kk]);
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        multiply_add(predicted[i], operand, load_fragment(key, kStride, 16 * i, 16 * kk, lane));
        multiply_add(outputs[i], load_fragment(query, kStride, 16 * i, 16 * kk, lane), operand);
      }
    }
  }

  lane = lane_anew();
  // X^T = (V - diag(gamma) K S)^T diag(beta)
  Fragment<Element> values[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    Accumulator X = widen(load_fragment_transposed(value, value_stride, 16 * i, 0, lane));
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int token = 16 * i + fragment_column(lane, e);
      X.value[e] = gates.beta[token] * (X.value[e] - gates.gamma[token] * gates.key_factor[token] *
                                                         predicted[i].value[e]);
    }
    values[i] = round_to_fragment<Element>(X);
  }

  lane = lane_anew();
  // V'^T = X^T T^T in the place of X^T, last block first: row block i of T takes blocks 0 .. i of
  // X. Also decayed to the chunk's end, as the update takes it: from the unrounded sums where
  // values are rounded, otherwise at the update.
  const auto decay_to_end = [&](Accumulator& block, int i) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int token = 16 * i + fragment_column(lane, e);
      block.value[e] *= gates.remaining[token] * gates.key_factor[token];
    }
  };
  constexpr bool kRounds = sizeof(Element) == 2;
  Fragment<Element> decayed[kRounds ? kBlocks : 1];
#pragma unroll
  for (int i = kBlocks - 1; i >= 0; --i) {
    Accumulator sums = zero_accumulator();
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      multiply_add(sums, values[j],
                   load_stored_fragment(inverse + triangle_block(i, j) * kFragmentElements, lane));
    }
    values[i] = round_to_fragment<Element>(sums);
    if constexpr (kRounds) {
      decay_to_end(sums, i);
      decayed[i] = round_to_fragment<Element>(sums);
    }
  }

  lane = lane_anew();
  // O = scale diag(gamma) Q S + P V'
  const int v_begin = work.v_begin + 16 * warp_anew();
  const int length = work.length<C>(chunk);
  const std::int64_t first_output = output_index(p, work.first_token<C>(chunk), work.head, v_begin);
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    const int row = 16 * i + lane / 4;
    const float factor[2] = {gates.gamma[row] * gates.query_factor[row],
                             gates.gamma[row + 8] * gates.query_factor[row + 8]};
#pragma unroll
    for (int e = 0; e < 8; ++e) outputs[i].value[e] *= factor[e / 2 % 2];
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      multiply_add(outputs[i],
                   load_stored_fragment(scores + triangle_block(i, j) * kFragmentElements, lane),
                   values[j]);
    }
#pragma unroll
    for (int e = 0; e < 8; e += 2) {
      const int r = 16 * i + fragment_row(lane, e);
      const int v = fragment_column(lane, e);
      if (r < length && v_begin + v < p.value_head_dim) {
        store_output_pair<Element>(p, first_output + r * p.num_value_heads * p.value_head_dim + v,
                                   outputs[i].value[e], outputs[i].value[e + 1]);
      }
    }
  }

  lane = lane_anew();
  // S^T <- gamma_C S^T + V'^T K
  const float chunk_decay = gates.gamma[C - 1];
#pragma unroll
  for (int kk = 0; kk < kKeyBlocks; ++kk) {
#pragma unroll
    for (float& element : S[kk].value) element *= chunk_decay;
  }
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if constexpr (!kRounds) {
      Accumulator block = widen(values[i]);
      decay_to_end(block, i);
      decayed[0] = round_to_fragment<Element>(block);
    }
#pragma unroll
    for (int kk = 0; kk < kKeyBlocks; ++kk) {
      if (kk < key_blocks) {
        multiply_add(S[kk], decayed[kRounds ? i : 0],
                     load_fragment_transposed(key, kStride, 16 * i, 16 * kk, lane));
      }
    }
  }
}

template <int C>
__device__ __forceinline__ FusedWork fused_work(const GatedDeltaParams& p,
                                                const FusedSplit& split) {
  const int columns = 16 * split.value_warps;
  const int tiles = (p.value_head_dim + columns - 1) / columns;
  FusedWork work;
  work.sequence = static_cast<int>(blockIdx.x / tiles / p.num_value_heads);
  work.span = sequence_span(p, work.sequence);
  work.num_chunks = static_cast<int>((work.span.length + C - 1) / C);
  work.head = static_cast<int>(blockIdx.x / tiles % p.num_value_heads);
  work.key_head = work.head / p.value_heads_per_key_head;
  work.v_begin = static_cast<int>(blockIdx.x % tiles) * columns;
  work.v_end = min(p.value_head_dim, work.v_begin + columns);
  return work;
}

/// `at`: fused_layout() of the same split, a parameter so that it takes no registers.
/// Block: 32 (value_warps + preparing_warps) threads; kKeyBlocks: blocks of 16 rows of S there are
/// registers for.
template <typename Element, int C, int kKeyBlocks, bool kCheckpoints>
__global__ void __launch_bounds__(32 * (max_value_warps<Element, C>(16 * kKeyBlocks) +
                                        kFewestPreparingWarps),
                                  1)
    fused_kernel(const GatedDeltaParams p, const FusedSplit split, const FusedLayout at) {
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  const int thread = static_cast<int>(threadIdx.x);
  const int num_threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int key_blocks = blocks_of_16(p.key_head_dim);
  // in shared memory rather than in registers, which the state needs
  auto& work = *reinterpret_cast<FusedWork*>(shared_bytes + at.work);
  if (thread == 0) work = fused_work<C>(p, split);
  __syncthreads();
  if constexpr (kCheckpoints) {
    store_absent_checkpoints(p, work.sequence, work.span, work.head, work.v_begin, work.v_end,
                             thread, num_threads);
  }
  if (work.span.length == 0) return;
  if (work.span.is_padding()) {
    store_zero_outputs(p, work.span, work.head, work.v_begin, work.v_end, thread, num_threads);
    return;
  }

  const bool is_value_warp = warp < split.value_warps;
  const auto tile_at = [&](int offset, int bytes, int index) {
    return reinterpret_cast<Element*>(shared_bytes + offset + index * bytes);
  };
  const auto gates_at = [&](int c) -> ChunkGates<C>& {
    return *reinterpret_cast<ChunkGates<C>*>(shared_bytes + at.gates +
                                             c % 3 * sizeof(ChunkGates<C>));
  };
  const auto key_stage = [&](int c) { return split.key_stages == 3 ? c % 3 : c % 2; };
  const auto key_tile = [&](int c) { return tile_at(at.key, at.key_tile, key_stage(c)); };
  const auto query_tile = [&](int c) { return tile_at(at.query, at.key_tile, key_stage(c)); };
  const auto value_tile = [&](int c) { return tile_at(at.value, at.value_tile, c % 2); };
  const auto inverse = [&](int c) { return tile_at(at.inverse, at.triangle_tile, c % 2); };
  const auto scores = [&](int c) { return tile_at(at.scores, at.triangle_tile, c % 2); };
  constexpr int kStride = tile_stride(16 * kKeyBlocks);  // of K, Q and the exchanged state
  const int value_stride = tile_stride(16 * split.value_warps);

  // [16 value_warps][kStride]: S^T between the pool and registers
  float* const exchange = reinterpret_cast<float*>(shared_bytes);
  for (int i = thread; i < 16 * split.value_warps * kStride; i += num_threads) exchange[i] = 0;
  __syncthreads();
  load_state_tile(
      p.pool, work.span.row, work.head, work.v_begin, work.v_end, thread, num_threads,
      [&](int k, int v, float value) { exchange[(v - work.v_begin) * kStride + k] = value; });
  const auto exchanged = [&](int k, int v) { return exchange[(v - work.v_begin) * kStride + k]; };
  auto& checkpoints =
      *reinterpret_cast<FusedCheckpoints*>(shared_bytes + at.work + sizeof(FusedWork));
  if constexpr (kCheckpoints) {
    if (thread == 0) checkpoints.begin<C>(p, work);
  }
  __syncthreads();

  bool more = false;  // tokens behind the checkpoint that the walk has come to
  do {
    // Both roles pass the same block barriers: one before the first step, one after each.
    if (is_value_warp) {
      Accumulator S[kKeyBlocks];  // S^T: rows v, columns k; block kk holds k = 16 kk ..
#pragma unroll
      for (int kk = 0; kk < kKeyBlocks; ++kk) {
        S[kk] = zero_accumulator();
        if (kk < key_blocks) {
          S[kk] = widen(load_fragment(exchange, kStride, 16 * warp, 16 * kk, lane));
        }
      }
      block_barrier();
      block_barrier();  // the first chunk is being prepared
#pragma unroll 1
      for (int c = 0; c < work.num_chunks;
           ++c) {  // also where all 16 dimensions are past Dv: unused
        walk_chunk<Element, C, kKeyBlocks>(S, p, key_tile(c), query_tile(c),
                                           value_tile(c) + 16 * warp_anew(), value_stride,
                                           gates_at(c), inverse(c), scores(c), work, c);
        block_barrier();
      }
      float* const rows = exchange + 16 * warp_anew() * kStride;
      const int lane_now = lane_anew();
#pragma unroll
      for (int kk = 0; kk < kKeyBlocks; ++kk) {
        if (kk < key_blocks) {
#pragma unroll
          for (int e = 0; e < 8; e += 2) {
            *reinterpret_cast<float2*>(rows + fragment_row(lane_now, e) * kStride + 16 * kk +
                                       fragment_column(lane_now, e)) =
                make_float2(S[kk].value[e], S[kk].value[e + 1]);
          }
        }
      }
    } else {
      const int preparing = 32 * split.preparing_warps;
      const int mine = thread - 32 * split.value_warps;
      const RowShare key_share = row_share<Element>(16 * key_blocks, mine, preparing);
      const RowShare value_share =
          row_share<Element>(16 * blocks_of_16(work.v_end - work.v_begin), mine, preparing);
      // In registers, where chunks of 64 and checkpoints leave any.
      constexpr bool kHolds = C < 64 && !kCheckpoints;
      const std::conditional_t<kHolds, FusedWork, const FusedWork&> now = work;
      const Element* next_key = key_at<Element>(p, now.span.first, now.key_head);
      const Element* next_query = query_at<Element>(p, now.span.first, now.key_head);
      const auto fetch_key_query = [&](int c, int slot) {
        const int length = now.template length<C>(c);
        copy_rows_async(tile_at(at.key, at.key_tile, slot), kStride, next_key, p.key_token_stride,
                        C, length, p.key_head_dim, key_share);
        copy_rows_async(tile_at(at.query, at.key_tile, slot), kStride, next_query,
                        p.query_token_stride, C, length, p.key_head_dim, key_share);
        next_key += C * p.key_token_stride;
        next_query += C * p.query_token_stride;
      };
      const auto fetch_value = [&](int c) {
        copy_rows_async(
            value_tile(c), value_stride,
            value_at<Element>(p, now.template first_token<C>(c), now.head) + now.v_begin,
            p.value_token_stride, C, now.template length<C>(c), now.v_end - now.v_begin,
            value_share);
      };
      const auto read_gates = [&](int c) {
        return load_lane_gates<C>(p, now.head, now.template first_token<C>(c),
                                  now.template length<C>(c), lane_anew());
      };
      block_barrier();
      const bool reads_gates = mine >= preparing - 32;
      if (reads_gates) {
        scan_chunk_gates(p.gates, now.head, gates_at(0), read_gates(0), now.template length<C>(0),
                         lane_anew());
      }
      fetch_key_query(0, 0);
      commit_copies();
      wait_copies<0>();
      named_barrier<1>(preparing);
      int slot = 0;  // of K and Q of chunk c
#pragma unroll 1
      for (int c = 0; c <= now.num_chunks; ++c) {  // prepares chunk c; the value warps are at c - 1
        const int next_slot = slot + 1 < split.key_stages ? slot + 1 : 0;
        if (c < now.num_chunks) fetch_value(c);
        if (split.key_stages == 3 && c + 1 < now.num_chunks) fetch_key_query(c + 1, next_slot);
        commit_copies();
        if (c < now.num_chunks) {
          LaneGates<C> next_gates{};
          if (reads_gates && c + 1 < now.num_chunks) next_gates = read_gates(c + 1);
          prepare_chunk<Element, C, kKeyBlocks>(
              p, tile_at(at.key, at.key_tile, slot), tile_at(at.query, at.key_tile, slot), now.head,
              next_gates, max(0, now.template length<C>(c + 1)), gates_at(c + 1),
              now.template length<C>(c), gates_at(c),
              reinterpret_cast<float*>(shared_bytes + at.triangle), inverse(c), scores(c),
              split.value_warps, preparing);
        }
        wait_copies<0>();
        block_barrier();
        // The tiles of chunk c - 1 are free now.
        if (split.key_stages == 2 && c + 1 < now.num_chunks) {
          fetch_key_query(c + 1, next_slot);
          commit_copies();
          wait_copies<0>();
          named_barrier<1>(preparing);
        }
        slot = next_slot;
      }
    }
    __syncthreads();
    if constexpr (kCheckpoints) {
      checkpoints.walk.store(p, [&](const StatePool& states, std::int64_t row) {
        store_state_tile(states, row, work.head, work.v_begin, work.v_end, thread, num_threads,
                         exchanged);
      });
      __syncthreads();
      if (thread == 0) checkpoints.advance<C>(p, work);
      __syncthreads();
      more = !checkpoints.is_done;
    }
  } while (more);
  store_state_tile(p.pool, output_row(p, work.sequence, work.span.row), work.head, work.v_begin,
                   work.v_end, thread, num_threads, exchanged);
}

}  // namespace gdn::GDN_CUDA_TARGET
