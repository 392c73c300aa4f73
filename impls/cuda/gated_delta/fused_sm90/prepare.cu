// First kernel of fused_sm90. One warpgroup per (chunk, key head, group of value heads): K K^T and
// Q K^T once, then for each value head the scanned gates, T = L^-1 and P, left in memory
// as a record for the chain (record.h). Every chunk is independent; four blocks share a
// multiprocessor. Further blocks order the sequences, and save the initial states of those in
// pieces.
//
// Bound by: with one value head a block memory (K and Q in, records out), with more the latency of
// a block's steps one after the other, beside three other blocks. Reached, with records 2.3 %
// smaller: 512 chunks of 16 value heads in 97 us, 3.64 TB/s, with one head a block; 3.05 TB/s with
// two. 4.25 TB/s is what this memory gives. How that was measured: log.md.
#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/check.h"
#include "cuda/gated_delta/chunk_sm90/forgetting.cuh"
#include "cuda/gated_delta/chunk_sm90/inverse.cuh"
#include "cuda/gated_delta/chunk_sm90/lengths.cuh"
#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta/fused_sm90/gate_form.cuh"
#include "cuda/gated_delta/fused_sm90/launches.h"
#include "cuda/gated_delta/fused_sm90/record_factors.cuh"
#include "cuda/gated_delta/fused_sm90/token_tiles.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace hopper;

/// Shared memory of one block, bytes. The K and Q tiles are overlaid by T, P and scratch once their
/// products are done.
struct PrepareLayout {
  static constexpr uint32_t kTileBytes = 2 * kChunk * kKeyDim;  // [2 panels][64 tokens][64]
  static constexpr uint32_t kKey = 0, kQuery = kTileBytes;
  // in the place of the tiles
  static constexpr uint32_t kT = 0;     // packed triangle, as in the record
  static constexpr uint32_t kP = 5120;  // two of: packed triangle + factors, kTail bytes
  static constexpr uint32_t kTail = kTriangleBytes + kFactorBytes;
  static constexpr uint32_t kKeySquares = 17472;  // [4] float32, between P and the L buffer
  static constexpr uint32_t kLower1 = 17536;      // [64][72] 16-bit: L, then inverted diagonals
  static constexpr uint32_t kDiagonal = 26752;    // per warp: 16x16 float32 by columns of 20
  static constexpr uint32_t kLower0 = 32768;      // the other L buffer
  // of its own
  static constexpr uint32_t kInverseLength = 41984;  // [64] of K, [64] of Q, float32
  static constexpr uint32_t kGates = 42496;          // per head: GateLayout
  static_assert(kP + 2 * kTail <= kKeySquares && kLower1 + LowerTile::kBytes <= kDiagonal &&
                kDiagonal + 4 * LowerTile::kDiagonalBytes <= kLower0 &&
                kLower0 + LowerTile::kBytes <= kInverseLength);

  /// The barrier on which K arrives; 8 bytes further on that of Q.
  __host__ __device__ static constexpr uint32_t key_full(int heads) {
    return kGates + heads * GateLayout::kBytes;
  }
  __host__ __device__ static constexpr uint32_t bytes(int heads) { return key_full(heads) + 64; }
};

// ---- blocks without a chunk

/// Sequences by length, longest first (ties in order), and counters and flags back to 0. Thread
/// per sequence; its rank is the number of sequences before it.
__device__ __forceinline__ void rank_sequences(const PrepareParams& a, int block) {
  const int n = block * kPrepareThreads + threadIdx.x;
  if (n == 0) a.work.next_item[chain_counter] = a.work.next_item[pieces_counter] = 0;
  if (n == 0 && a.work.decision != nullptr) *a.work.decision = undecided;
  if (block == 0 && a.work.first_state_ready != nullptr)
    for (int i = n; i < 2 * slices_of(a) * a.p.num_sequences * a.p.num_value_heads;
         i += kPrepareThreads)
      a.work.first_state_ready[i] = 0;
  if (n >= a.p.num_sequences) return;
  const int64_t length = a.p.sequence_offsets[n + 1] - a.p.sequence_offsets[n];
  int rank = 0;
  int64_t begin = __ldg(a.p.sequence_offsets.word(0));
  for (int m = 0; m < a.p.num_sequences; m++) {
    const int64_t end = __ldg(a.p.sequence_offsets.word(m + 1)), other = end - begin;
    rank += other > length || (other == length && m < n);
    begin = end;
  }
  a.work.order[rank] = n;
}

/// A quarter of a sequence's initial state, of one head, to where its pieces find it: the last
/// piece may write the pool row before another has read it. All loads before the first store: the
/// latency of one is what this takes.
template <typename Element>
__device__ __forceinline__ void save_quarter_state(const StatePool& pool, const Element* from,
                                                   float* to, int quarter) {
  const int t = static_cast<int>(threadIdx.x);
  float x[32];
  if (pool.layout == StateLayout::vk) {  // as it is saved: [Dv, Dk]
    from += 32 * kKeyDim * quarter + t;
    to += 32 * kKeyDim * quarter + t;
#pragma unroll
    for (int i = 0; i < 32; i++) x[i] = to_float(from[kKeyDim * i]);
#pragma unroll
    for (int i = 0; i < 32; i++) to[kKeyDim * i] = x[i];
    return;
  }
  const int v = 32 * quarter + t % 32, first_k = t / 32 * 32;
  from += first_k * kValueDim + v;
  to += v * kKeyDim + first_k;
#pragma unroll
  for (int i = 0; i < 32; i++) x[i] = to_float(from[kValueDim * i]);
#pragma unroll
  for (int i = 0; i < 32; i += 4)
    *reinterpret_cast<float4*>(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
}
/// The same of other head dims than 128x128: columns 32 quarter .. +31 of V, with zeros past Dk.
__device__ __forceinline__ void save_quarter_of_any(const StatePool& pool, int64_t row, int head,
                                                    float* to, int quarter) {
  for (int i = threadIdx.x; i < 32 * kKeyDim; i += kPrepareThreads) {
    const int v = 32 * quarter + i / kKeyDim, k = i % kKeyDim;
    if (v < pool.value_head_dim)
      to[v * kKeyDim + k] = k < pool.key_head_dim ? load_state(pool, row, head, k, v) : 0.f;
  }
}
/// Block `number` of those that save the initial states of sequences in pieces.
__device__ __forceinline__ void save_initial_state(const PrepareParams& a, int number) {
  const int quarters = kSavingBlocks * slices_of(a);
  const int quarter = number % quarters, head = number / quarters % a.p.num_value_heads,
            n = number / quarters / a.p.num_value_heads;
  const SequenceSpan span = sequence_span(a.p, n);
  if (span.is_padding() || span.length <= a.saved_chunks * kChunk) return;
  const int64_t from = state_offset(a.p.pool, span.row, head);
  float* to = a.work.saved_states + head_state_offset(a, n, head);
  if (a.p.key_head_dim != kKeyDim || a.p.value_head_dim != kValueDim) {
    save_quarter_of_any(a.p.pool, span.row, head, to, quarter);
  } else if (a.p.pool.dtype == DType::float32) {
    save_quarter_state(a.p.pool, static_cast<const float*>(a.p.pool.data) + from, to, quarter);
  } else if (a.p.pool.dtype == DType::bfloat16) {
    save_quarter_state(a.p.pool, static_cast<const __nv_bfloat16*>(a.p.pool.data) + from, to,
                       quarter);
  } else {
    save_quarter_state(a.p.pool, static_cast<const __half*>(a.p.pool.data) + from, to, quarter);
  }
}

// ---- what a block is to do

/// A chunk and a group of value heads of one key head.
struct ChunkPlace {
  int64_t slot;    // of the chunk
  int64_t token0;  // its first token
  int64_t left;    // tokens from there to the sequence's end
  int64_t end;     // of the sequence
  int sequence, key_head, group;
};
/// Whole warps. Block `number` of those that have a chunk.
__device__ __forceinline__ ChunkPlace place_of_block(const PrepareParams& a, int number, int l) {
  const int groups = (a.p.value_heads_per_key_head + a.heads_per_block - 1) / a.heads_per_block;
  ChunkPlace chunk;
  chunk.group = number % groups;
  number /= groups;
  chunk.key_head = number % a.p.num_key_heads;
  chunk.slot = number / a.p.num_key_heads;
  const SlotPlace place = place_of_slot(a.p, chunk.slot, l, first_chunk_slot);
  chunk.token0 =
      place.begin + (chunk.slot - first_chunk_slot(place.begin, place.sequence)) * kChunk;
  chunk.left = place.end - chunk.token0;
  chunk.end = place.end;
  chunk.sequence = place.sequence;
  return chunk;
}

/// Consecutive value heads.
struct HeadRange {
  int first, count;
};
__device__ __forceinline__ HeadRange heads_of_group(const PrepareParams& a,
                                                    const ChunkPlace& chunk) {
  const int group_size = a.p.value_heads_per_key_head;
  const int first = chunk.group * a.heads_per_block + chunk.key_head * group_size;
  return {first, min(a.heads_per_block, (chunk.key_head + 1) * group_size - first)};
}

// ---- steps of a chunk

/// One thread: asks for K and Q.
__device__ __forceinline__ void load_tiles(uint32_t sm, uint32_t key_full, uint32_t query_full,
                                           const CUtensorMap* query_map, const CUtensorMap* key_map,
                                           const TokenRows& rows, const ChunkPlace& chunk,
                                           int key_head_dim) {
  using Layout = PrepareLayout;
  prefetch_tensor_map(query_map);
  mbarrier_init(key_full, 1);
  mbarrier_init(query_full, 1);
  fence_mbarrier_init();
  mbarrier_arrive_expect(key_full, Layout::kTileBytes);
  load_key_tile(sm + Layout::kKey, key_map, key_full, rows, static_cast<int>(chunk.token0),
                chunk.key_head, key_head_dim);
  mbarrier_arrive_expect(query_full, Layout::kTileBytes);
  load_query_tile(sm + Layout::kQuery, query_map, query_full, rows, static_cast<int>(chunk.token0),
                  chunk.key_head, key_head_dim);
}

/// One warp: the gates of the chunk that takes this one's place come to the cache, if its sequence
/// goes on so far, and tokens lie one behind the other. Not K and Q: records on their way out push
/// them out again. A chunk's gates are two lines a value head; each block asks for those of its
/// heads.
__device__ __forceinline__ void prefetch_gates(const PrepareParams& a, int64_t token0, int64_t end,
                                               HeadRange heads, int l) {
  if (l >= 4 * heads.count) return;
  const bool of_beta = l >= 2 * heads.count;
  const int line = 2 * heads.first + (of_beta ? l - 2 * heads.count : l);
  const NumberArray& from = of_beta ? a.p.gates.beta : a.p.gates.gate;
  // half as many lines, or every line twice, where they are of 16 bits
  const int64_t values = a.p.num_value_heads,
                at = (token0 + int64_t{a.prefetch_chunks} * kChunk) * values + 32 * line;
  if (at < end * values && from.lies_densely(values))
    prefetch_line(static_cast<const char*>(from.data) + at * from.element_bytes());
}

/// Every warp: the gates of the value heads, scanned, a head at a time.
template <typename Token, GateForm Form>
__device__ __forceinline__ void scan_heads(uint32_t sm, const PrepareParams& a, int64_t token0,
                                           HeadRange heads, int valid, int w, int l) {
  for (int h = (w + 3) % 4; h < heads.count; h += 4) {  // warp 0, busy with tiles, comes last
    const GateParams from = known_gates<Form, Token>(a.p.gates);
    const int head = heads.first + h;
    float x[2], b[2];
    HeadGates of_head;
    if constexpr (Form != GateForm::as_they_are) of_head = head_gates(from, head, head);
    uint32_t gates[2], betas[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {  // every load before the first value is used: the longest wait
      const int64_t token = token0 + 2 * l + e;
      gates[e] = 2 * l + e < valid ? load_number_bits(from.gate, token, head) : 0;
      betas[e] = 2 * l + e < valid ? load_number_bits(from.beta, token, head) : 0;
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
      x[e] = widen_bits(gates[e], from.gate.type);
      b[e] = widen_bits(betas[e], from.beta.type);
      if constexpr (Form != GateForm::as_they_are) {
        x[e] = decode_log_decay(from, x[e], of_head);
        b[e] = decode_beta(from, b[e]);
      }
      x[e] = 2 * l + e < valid ? log2_decay(x[e]) : 0.f;
      b[e] = 2 * l + e < valid ? b[e] : 0.f;
    }
    scan_gates(sm + PrepareLayout::kGates + h * GateLayout::kBytes, x[0], x[1], b[0], b[1], l);
  }
}

/// L to its tile, the diagonal blocks apart, and P to its triangle in `tail`.
template <typename Token>
__device__ __forceinline__ void store_triangles(uint32_t lower, uint32_t diagonal, uint32_t tail,
                                                uint32_t gates, const float (&kk)[32],
                                                const float (&qk)[32], const RowFactors& rows,
                                                const int& w, const int& l) {
  const RowPair p_rows = rows.from_block * rows.scale;
  const uint32_t p_at = slice_lane(tail, w, l, false);
  for_lower_blocks(
      gates, w, l,
      [&](int jb, const float2(&f)[2]) {
        store_lower(lower, kk, jb, rows.lower, f, w, l);
        store_p<Token>(p_at + triangle_slice(jb), qk, jb, p_rows, f);
      },
      [&](int jb, const float(&m)[2][4]) {
        store_lower_diagonal(diagonal, kk, jb, rows.beta, m, l);
        store_p_diagonal<Token>(p_at + triangle_slice(jb), qk, jb, rows.scale, m, l);
      });
}

/// The same values in two bfloat16 parts: L, inverted diagonal blocks, and T merged of them.
template <typename Token>
__device__ __forceinline__ void merge_in_parts(uint32_t lower, uint32_t other, uint32_t diagonal,
                                               uint32_t gates, const float (&kk)[32],
                                               RowPair l_rows, uint32_t blocks, uint32_t t_at,
                                               uint32_t kept, int w, int l) {
  // high parts in `lower`, low ones in `other`, whose readers are past the barrier before this
  for_lower_blocks(
      gates, w, l,
      [&](int jb, const float2(&f)[2]) {
        store_lower_parts(lower, other, kk, jb, l_rows, f, w, l);
      },
      [](int, const float(&)[2][4]) {});
  invert_diagonal_parts(lower + LowerTile::block(w, w), other + LowerTile::block(w, w), diagonal,
                        l);
  __syncthreads();
  merge_column_parts<Token>(blocks, blocks - lower + other, t_at, kept, w);
  __syncthreads();  // `other` is the next head's L
}

template <typename Token, GateForm Form>
__global__ void __launch_bounds__(kPrepareThreads, kPrepareBlocksPerMultiprocessor)
    prepare_kernel(const __grid_constant__ CUtensorMap query_map,
                   const __grid_constant__ CUtensorMap key_map, const PrepareParams a) {
  using Layout = PrepareLayout;
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const uint32_t sm = shared_address(shared), key_full = sm + Layout::key_full(a.heads_per_block),
                 query_full = key_full + 8;
  const int t = threadIdx.x, w = __shfl_sync(~0u, t >> 5, 0);
  int l = t & 31;

  launch_dependents();  // their blocks start as these leave, and wait for all of them
  const int ranking_blocks = (a.p.num_sequences + kPrepareThreads - 1) / kPrepareThreads;
  int rest = static_cast<int>(blockIdx.x) - ranking_blocks;
  if (rest < 0) {
    rank_sequences(a, blockIdx.x);
    return;
  }
  if (rest < a.saving_blocks) {
    save_initial_state(a, rest);
    return;
  }
  rest -= a.saving_blocks;
  const ChunkPlace chunk = place_of_block(a, rest, l);
  // slots past a sequence's last chunk have no tokens, and padding has no records
  if (chunk.left <= 0 || (a.p.slot_index && __ldg(a.p.slot_index.word(chunk.sequence)) < 0)) return;
  const int valid = chunk.left < kChunk ? static_cast<int>(chunk.left) : kChunk;
  const HeadRange heads = heads_of_group(a, chunk);

  if (t == 0)
    load_tiles(sm, key_full, query_full, &query_map, &key_map, a.rows, chunk, a.p.key_head_dim);
  __syncwarp();
  if (w == 3) prefetch_gates(a, chunk.token0, chunk.end, heads, l);
  scan_heads<Token, Form>(sm, a, chunk.token0, heads, valid, w, l);
  __syncthreads();

  float kk[32], qk[32];  // K K^T and Q K^T [64 x 64], rows 16w + l/4 (+8)
  const uint64_t key_tile = wgmma::k_major_128(sm + Layout::kKey),
                 query_tile = wgmma::k_major_128(sm + Layout::kQuery);
  mbarrier_wait(key_full, 0);
  multiply_tiles<Token>(kk, key_tile, key_tile);
  mbarrier_wait(query_full, 0);
  multiply_tiles<Token>(qk, query_tile, key_tile);
  const uint32_t lengths = sm + Layout::kInverseLength;
  if (a.p.normalize_qk) {
    store_inverse_lengths<Token>(sm + Layout::kQuery, lengths + 256, valid, w, l);
  } else {
    store_shared(lengths + 4 * t, 1.f);
  }
  wgmma::wait<0>();
  wgmma::hold(kk);
  wgmma::hold(qk);
  if (a.p.normalize_qk) store_inverse_key_lengths(kk, lengths, valid, w, l);
  __syncthreads();  // the K and Q tiles are scratch from here on

  if (a.p.normalize_qk || valid < kChunk) {
    scale_and_mask_columns(kk, lengths, valid, w, l);
    scale_and_mask_columns(qk, lengths, valid, w, l);
  }
  {
    const uint32_t largest = largest_key_square(kk, w);
    if (l == 0)
      store_shared(sm + Layout::kKeySquares + 4 * w,
                   a.p.normalize_qk ? 1.f : __uint_as_float(largest));
  }

  uint8_t* record = a.work.records + (chunk.slot * a.p.num_value_heads + heads.first) *
                                         static_cast<int64_t>(kRecordBytes);
#pragma unroll 1
  for (int h = 0; h < heads.count; h++, record += kRecordBytes) {
    asm volatile("" : "+r"(l));  // lane addresses are made anew for each head: hoisted, they spill
    const uint32_t lower = sm + (h & 1 ? Layout::kLower1 : Layout::kLower0);
    const uint32_t other = sm + (h & 1 ? Layout::kLower0 : Layout::kLower1);
    const uint32_t diagonal = sm + Layout::kDiagonal + LowerTile::kDiagonalBytes * w;
    const uint32_t gates = sm + Layout::kGates + h * GateLayout::kBytes;
    const uint32_t tail = sm + Layout::kP + (h & 1) * Layout::kTail;
    store_factors<true>(tail + kTriangleBytes, gates, lengths, a.p.scale, t);
    const RowFactors rows = load_row_factors(gates, lengths, a.p.scale, w, l);
    store_triangles<Token>(lower, diagonal, tail, gates, kk, qk, rows, w, l);
    __syncwarp();
    invert_diagonal(lower + LowerTile::block(w, w), diagonal, l);
    fence_async_proxy();
    if (l == 0) bulk_wait_read<0>();  // the previous head's T and P have left their buffers
    __syncthreads();
    const float largest = largest_step(gates, largest_key_square(sm + Layout::kKeySquares));
    if (t == 0) {
      bulk_store(record + kTriangleBytes, tail, Layout::kTail);
      bulk_commit();
      if (a.work.transition_bound != nullptr)
        a.work.transition_bound[chunk.slot * a.p.num_value_heads + heads.first + h] =
            transition_bound(load_shared<float>(gates + GateLayout::kCumulative + kLastToken),
                             largest);
    }
    __syncwarp();
    const uint32_t t_at = slice_lane(sm + Layout::kT + triangle_slice(w), w, l, true);
    const uint32_t blocks = tile_lane(lower, l) + LowerTile::block(w, w);
    const uint32_t kept = diagonal_kept(forgets(gamma_end(gates)), l);
    if (largest <= kFloat16Limit) {
      merge_column<Token>(blocks, t_at, kept, w);
    } else {
      merge_in_parts<Token>(lower, other, diagonal, gates, kk, rows.lower, blocks, t_at, kept, w,
                            l);
    }
    fence_async_proxy();
    __syncwarp();
    if (l == 0) {
      bulk_store(record + triangle_slice(w) + 512 * w,
                 sm + Layout::kT + triangle_slice(w) + 512 * w, 2048 - 512 * w);
      bulk_commit();
    }
    __syncwarp();
  }
  if (l == 0) bulk_wait<0>();
}

namespace {

template <typename Token, GateForm Form>
void enqueue_prepare(const PrepareLaunch& launch, cudaStream_t stream) {
  const auto kernel = prepare_kernel<Token, Form>;
  const std::size_t bytes = PrepareLayout::bytes(launch.params.heads_per_block);
  allow_shared_memory(kernel, bytes);
  GDN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
  launch_kernel(kernel, launch.blocks, kPrepareThreads, bytes, stream, launch.query, launch.key,
                launch.params);
}

}  // namespace

PrepareLaunch prepare_launch(const LaunchArgs& args) {
  const PrepareGrid grid = prepare_grid(args.shape, args.choice, args.multiprocessors);
  PrepareLaunch launch{.params = {}, .query = args.maps.query, .key = args.maps.key, .blocks = 0};
  PrepareParams& params = launch.params;
  params.p = args.operands;
  params.rows = args.rows;
  params.heads_per_block = args.choice.heads_per_block;
  params.prefetch_chunks = grid.prefetch_chunks;
  params.saving_blocks = static_cast<int>(grid.saving_blocks);
  params.saved_chunks = grid.saved_chunks;
  params.work = args.work;
  launch.blocks = grid_blocks(grid.blocks(), args.name);
  return launch;
}

void enqueue(const PrepareLaunch& launch, DType token_dtype, cudaStream_t stream) {
  const auto enqueue_with = [&](auto token) {
    with_gate_form(gate_form(launch.params.p.gates, token_dtype), [&](auto form) {
      enqueue_prepare<decltype(token), decltype(form)::value>(launch, stream);
    });
  };
  token_dtype == DType::bfloat16 ? enqueue_with(__nv_bfloat16{}) : enqueue_with(__half{});
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
