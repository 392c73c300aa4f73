// First kernel of fused_sm90. One warpgroup per (chunk, key head, group of value heads): K K^T and
// Q K^T once, then for each value head the scanned gates, T = (I + L)^-1 and P, left in memory
// as a record for the chain. Every chunk is independent; four blocks share a multiprocessor.
// Further blocks order the sequences, and save the initial states of those in pieces.
//
// Bound by: with one value head a block memory (K and Q in, records out), with more the latency of
// a block's steps one after the other, beside three other blocks. Reached, with records 2.3 %
// smaller: 512 chunks of 16 value heads in 97 us, 3.64 TB/s, with one head a block; 3.05 TB/s with
// two. 4.25 TB/s is what this memory gives. fused_sm90.md.
#pragma once

#include "cuda/gated_delta/fused_sm90_triangles.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/shared_memory.cuh"

namespace gdn::cuda::fused_sm90 {

using namespace hopper;

/// Shared memory of one block, bytes. The K and Q tiles [2 panels][64][64] at 0 and 16384 are
/// overlaid by T, P and scratch once their products are done.
struct PrepareLayout {
  static constexpr int kThreads = 128;
  static constexpr int kBlocksPerMultiprocessor = 4;  // up to four heads a block
  static constexpr uint32_t kT = 0;                   // packed triangle, as in the record
  static constexpr uint32_t kP = 5120;                // two of: packed triangle + factors, 6176
  static constexpr uint32_t kTail = kTriangleBytes + kFactorBytes;
  static constexpr uint32_t kLower1 = 17536;         // [64][72] 16-bit: L, then inverted diagonals
  static constexpr uint32_t kDiagonal = 26752;       // per warp: 16x16 float32 by columns of 20
  static constexpr uint32_t kLower0 = 32768;         // the other L buffer
  static constexpr uint32_t kInverseLength = 41984;  // [64] of K, [64] of Q, float32
  static constexpr uint32_t kKeySquares = 17472;     // [4] float32, between P and the L buffer
  static constexpr uint32_t kGates = 42496;          // per head: GateLayout
  static constexpr uint32_t kGateBytes = 2064;
  __host__ __device__ static constexpr uint32_t barriers(int heads) {
    return kGates + heads * kGateBytes;
  }
  __host__ __device__ static constexpr uint32_t bytes(int heads) { return barriers(heads) + 64; }
};

/// Sequences by length, longest first (ties in order), and the work counters back to 0. Thread
/// per sequence; its rank is the number of sequences before it.
__device__ __forceinline__ void rank_sequences(const KernelArguments& a, int block) {
  const int n = block * PrepareLayout::kThreads + threadIdx.x;
  if (n == 0) a.next_unit[0] = a.next_unit[1] = 0;
  if (n == 0 && a.decision != nullptr) *a.decision = undecided;
  if (block == 0 && a.first_state_ready != nullptr)
    for (int i = n; i < 2 * a.p.num_sequences * a.p.num_value_heads; i += PrepareLayout::kThreads)
      a.first_state_ready[i] = 0;
  if (n >= a.p.num_sequences) return;
  const int64_t length = a.p.sequence_offsets[n + 1] - a.p.sequence_offsets[n];
  int rank = 0;
  int64_t begin = __ldg(a.p.sequence_offsets);
  for (int m = 0; m < a.p.num_sequences; m++) {
    const int64_t end = __ldg(a.p.sequence_offsets + m + 1), other = end - begin;
    rank += other > length || (other == length && m < n);
    begin = end;
  }
  a.order[rank] = n;
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
    from += 32 * kDim * quarter + t;
    to += 32 * kDim * quarter + t;
#pragma unroll
    for (int i = 0; i < 32; i++) x[i] = to_float(from[kDim * i]);
#pragma unroll
    for (int i = 0; i < 32; i++) to[kDim * i] = x[i];
    return;
  }
  const int v = 32 * quarter + t % 32, first_k = t / 32 * 32;
  from += first_k * kDim + v;
  to += v * kDim + first_k;
#pragma unroll
  for (int i = 0; i < 32; i++) x[i] = to_float(from[kDim * i]);
#pragma unroll
  for (int i = 0; i < 32; i += 4)
    *reinterpret_cast<float4*>(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
}
/// Block `number` of those that save the initial states of sequences in pieces.
__device__ __forceinline__ void save_initial_state(const KernelArguments& a, int number) {
  const int quarter = number % 4, head = number / 4 % a.p.num_value_heads,
            n = number / 4 / a.p.num_value_heads;
  const SequenceSpan span = sequence_span(a.p, n);
  if (span.is_padding() || span.length <= a.saved_chunks * kChunk) return;
  const int64_t from = state_offset(a.p.pool, span.row, head);
  float* to = a.saved_states + head_state_offset(a, n, head);
  if (a.p.pool.dtype == DType::float32) {
    save_quarter_state(a.p.pool, static_cast<const float*>(a.p.pool.data) + from, to, quarter);
  } else if (a.p.pool.dtype == DType::bfloat16) {
    save_quarter_state(a.p.pool, static_cast<const __nv_bfloat16*>(a.p.pool.data) + from, to,
                       quarter);
  } else {
    save_quarter_state(a.p.pool, static_cast<const __half*>(a.p.pool.data) + from, to, quarter);
  }
}

/// One warp: the gates of the chunk that takes this one's place come to the cache, if its sequence
/// goes on so far. Not K and Q: records on their way out push them out again. A chunk's gates are
/// two lines a value head; each block asks for those of its heads.
__device__ __forceinline__ void prefetch_gates(const KernelArguments& a, int64_t token0,
                                               int64_t end, int first_head, int heads, int l) {
  if (l >= 4 * heads) return;
  const bool of_beta = l >= 2 * heads;
  const int line = 2 * first_head + (of_beta ? l - 2 * heads : l);
  const int64_t values = a.p.num_value_heads,
                at = (token0 + int64_t{a.prefetch_chunks} * kChunk) * values + 32 * line;
  if (at < end * values) prefetch_line((of_beta ? a.p.gates.beta : a.p.gates.gate) + at);
}

template <typename Token>
__global__ void __launch_bounds__(PrepareLayout::kThreads, PrepareLayout::kBlocksPerMultiprocessor)
    prepare_kernel(const __grid_constant__ CUtensorMap query_map,
                   const __grid_constant__ CUtensorMap key_map, const KernelArguments a) {
  using Layout = PrepareLayout;
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const uint32_t sm = shared_address(shared), bar = sm + Layout::barriers(a.heads_per_block);
  const int t = threadIdx.x, w = __shfl_sync(~0u, t >> 5, 0);
  int l = t & 31;

  launch_dependents();  // their blocks start as these leave, and wait for all of them
  const int rank_blocks =
      (a.p.num_sequences + PrepareLayout::kThreads - 1) / PrepareLayout::kThreads;
  int rest = static_cast<int>(blockIdx.x) - rank_blocks;
  if (rest < 0) {
    rank_sequences(a, blockIdx.x);
    return;
  }
  if (rest < a.saved_quarters) {
    save_initial_state(a, rest);
    return;
  }
  rest -= a.saved_quarters;
  // block -> (chunk slot, key head, group of value heads)
  const int group_size = a.p.value_heads_per_key_head;
  const int groups = (group_size + a.heads_per_block - 1) / a.heads_per_block;
  const int group = rest % groups;
  rest /= groups;
  const int key_head = rest % a.p.num_key_heads;
  const int64_t slot = rest / a.p.num_key_heads;
  const SlotPlace place = place_of_slot(a.p, slot, l, first_chunk_slot);
  const int64_t token0 =
      place.begin + (slot - first_chunk_slot(place.begin, place.sequence)) * kChunk;
  const int64_t left = place.end - token0;
  if (left <= 0 || (a.p.slot_index != nullptr && __ldg(a.p.slot_index + place.sequence) < 0))
    return;
  const int valid = left < kChunk ? static_cast<int>(left) : kChunk;
  const int first_head = key_head * group_size + group * a.heads_per_block;
  const int heads = min(a.heads_per_block, (key_head + 1) * group_size - first_head);

  if (t == 0) {
    prefetch_tensor_map(&query_map);
    mbarrier_init(bar, 1);
    mbarrier_init(bar + 8, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(bar, 16384);
    tensor_load(sm, &key_map, bar, 0, static_cast<int>(token0), 0, key_head);
    mbarrier_arrive_expect(bar + 8, 16384);
    tensor_load(sm + 16384, &query_map, bar + 8, 0, static_cast<int>(token0), 0, key_head);
  }
  __syncwarp();
  if (w == 3) prefetch_gates(a, token0, place.end, first_head, heads, l);
  for (int h = (w + 3) % 4; h < heads; h += 4) {  // warp 0, busy above, comes last
    const GateParams& from = a.p.gates;
    const int head = first_head + h;
    float x[2], b[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {  // every load before the first value is used: the longest wait
      const int64_t at = (token0 + 2 * l + e) * from.num_value_heads + head;
      x[e] = 2 * l + e < valid ? from.gate[at] : 0.f;
      b[e] = 2 * l + e < valid ? from.beta[at] : 0.f;
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
      x[e] = 2 * l + e < valid ? log2_decay(from, x[e], head) : 0.f;
      b[e] = 2 * l + e < valid ? decode_beta(from, b[e]) : 0.f;
    }
    scan_gates(sm + Layout::kGates + h * Layout::kGateBytes, x[0], x[1], b[0], b[1], l);
  }
  __syncthreads();

  float kk[32], qk[32];  // K K^T and Q K^T [64 x 64], rows 16w + l/4 (+8)
  const uint64_t key_tile = wgmma::k_major_128(sm), query_tile = wgmma::k_major_128(sm + 16384);
  mbarrier_wait(bar, 0);
  wgmma::hold(kk);
  wgmma::registers_ready();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int step = 2 * (i & 3) + 512 * (i >> 2);
    wgmma::multiply_ss_n64<Token>(kk, key_tile + step, key_tile + step, i > 0);
  }
  wgmma::commit();
  mbarrier_wait(bar + 8, 0);
  wgmma::hold(qk);
  wgmma::registers_ready();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int step = 2 * (i & 3) + 512 * (i >> 2);
    wgmma::multiply_ss_n64<Token>(qk, query_tile + step, key_tile + step, i > 0);
  }
  wgmma::commit();
  const uint32_t lengths = sm + Layout::kInverseLength;
  if (a.p.normalize_qk) {
    store_inverse_lengths<Token>(sm, lengths, valid, t);
    store_inverse_lengths<Token>(sm + 16384, lengths + 256, valid, t);
  } else {
    store_shared(lengths + 4 * t, 1.f);
  }
  wgmma::wait<0>();
  wgmma::hold(kk);
  wgmma::hold(qk);
  __syncthreads();  // the K and Q tiles are scratch from here on

  if (a.p.normalize_qk || valid < kChunk) {
    scale_and_mask(kk, lengths, lengths, valid, w, l);
    scale_and_mask(qk, lengths + 256, lengths, valid, w, l);
  }
  {
    const uint32_t largest = largest_key_square(kk, w);
    if (l == 0)
      store_shared(sm + Layout::kKeySquares + 4 * w,
                   a.p.normalize_qk ? 1.f : __uint_as_float(largest));
  }

  uint8_t* record =
      a.records + (slot * a.p.num_value_heads + first_head) * static_cast<int64_t>(kRecordBytes);
#pragma unroll 1
  for (int h = 0; h < heads; h++, record += kRecordBytes) {
    asm volatile("" : "+r"(l));  // lane addresses are made anew for each head: hoisted, they spill
    const uint32_t lower = sm + (h & 1 ? Layout::kLower1 : Layout::kLower0);
    const uint32_t other = sm + (h & 1 ? Layout::kLower0 : Layout::kLower1);
    const uint32_t diagonal = sm + Layout::kDiagonal + LowerTile::kDiagonalBytes * w;
    const uint32_t gates = sm + Layout::kGates + h * Layout::kGateBytes;
    const uint32_t tail = sm + Layout::kP + (h & 1) * Layout::kTail;
    store_factors<true>(tail + kTriangleBytes, gates, lengths, a.p.scale, t);
    const RowPair beta = load_rows(gates + GateLayout::kBeta, w, l),
                  from = load_rows(gates + GateLayout::kFromBlock, w, l);
    const RowPair l_rows{from.x * beta.x, from.y * beta.y};
    {
      const RowPair p_rows{from.x * a.p.scale, from.y * a.p.scale};
      const uint32_t p_at = slice_lane(tail, w, l, false);
      for_lower_blocks(
          gates, w, l,
          [&](int jb, const float2(&f)[2]) {
            store_lower(lower, kk, jb, l_rows, f, w, l);
            store_p<Token>(p_at + triangle_slice(jb), qk, jb, p_rows, f);
          },
          [&](int jb, const float(&m)[2][4]) {
            store_lower_diagonal(diagonal, kk, jb, beta, m, l);
            store_p_diagonal<Token>(p_at + triangle_slice(jb), qk, jb, a.p.scale, m, l);
          });
    }
    __syncwarp();
    invert_diagonal(lower + LowerTile::block(w, w), diagonal, l);
    fence_async_proxy();
    if (l == 0) bulk_wait_read<0>();  // the previous head's T and P have left their buffers
    __syncthreads();
    const float largest = largest_step(gates, largest_key_square(sm + Layout::kKeySquares));
    if (t == 0) {
      bulk_store(record + kTriangleBytes, tail, Layout::kTail);
      bulk_commit();
      if (a.transition_bound != nullptr)
        a.transition_bound[slot * a.p.num_value_heads + first_head + h] =
            load_shared<float>(gates + GateLayout::kCumulative + 252) +
            kChunk * log2f(fmaxf(1.f, largest - 1.f));
    }
    __syncwarp();
    const uint32_t t_at = slice_lane(sm + Layout::kT + triangle_slice(w), w, l, true);
    const uint32_t blocks = tile_lane(lower, l) + LowerTile::block(w, w);
    const uint32_t kept =
        diagonal_kept(forgets(load_shared<float>(gates + GateLayout::kGamma + 252)), l);
    if (largest <= kFloat16Limit) {
      merge_column<Token>(blocks, t_at, kept, w);
    } else {
      // high parts in `lower`, low ones in `other`, whose readers are past the barrier above
      for_lower_blocks(
          gates, w, l,
          [&](int jb, const float2(&f)[2]) {
            store_lower_parts(lower, other, kk, jb, l_rows, f, w, l);
          },
          [](int, const float(&)[2][4]) {});
      invert_diagonal_parts(lower + LowerTile::block(w, w), other + LowerTile::block(w, w),
                            diagonal, l);
      __syncthreads();
      merge_column_parts<Token>(blocks, blocks - lower + other, t_at, kept, w);
      __syncthreads();  // `other` is the next head's L
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

}  // namespace gdn::cuda::fused_sm90
