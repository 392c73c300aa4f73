// First kernel of cuda/chunkwise_sm90 of gated_delta_backward. One warpgroup per chunk and key head: K K^T and Q K^T
// once, then for each of its value heads the scanned gates, T - I with T = L^-1, and P, left in memory as a record
// (record.h) for the chains and for the gradients. Every chunk is independent. The steps are those of chunk_sm90/.
//
// Bound by: the latency of a block's steps, four blocks on a multiprocessor. Reached, H200, 16/32 heads, 32768 tokens:
// 0.17 ms, 0.14 ms of which would be memory's (log.md).
#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/chunk_sm90/inverse.cuh"
#include "cuda/gated_delta/chunk_sm90/key_tile.cuh"
#include "cuda/gated_delta/chunk_sm90/lengths.cuh"
#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

using namespace hopper;

namespace {

using Token = __nv_bfloat16;

constexpr int kThreads = 128;

/// Shared memory of a block, bytes. Two tiles of T and two of P take the place of K and Q once their products are done.
/// Diagonal blocks of L lie where T is made of them. Where L is in two parts, the second lies where the next head's T and
/// P will.
struct Layout {
  static constexpr uint32_t kKey = 0, kQuery = kTileBytes;
  static constexpr uint32_t kBuffers = 0,
                            kBufferBytes = kTileBytes;  // T and P, of every second head
  static constexpr uint32_t kFactors = 2 * kTileBytes;  // two of
  static constexpr uint32_t kLower = kFactors + 2 * kFactorBytes;
  static constexpr uint32_t kInverseLength = kLower + LowerTile::kBytes;
  static constexpr uint32_t kKeySquares = kInverseLength + 512;  // [4] float32
  static constexpr int kHeads = 4;  // whose gates are scanned at once, by a warp each
  static constexpr uint32_t kGates = kKeySquares + 16;  // GateLayout of each
  static constexpr uint32_t kSmallBetas = kGates + kHeads * GateLayout::kBytes;  // [4] flags
  static constexpr uint32_t kBarriers = kSmallBetas + 4 * kHeads;
  static constexpr uint32_t kBytes = kBarriers + 16;
  static_assert(2 * kTriangleTileBytes == kBufferBytes && kBarriers % 8 == 0);
  static_assert(4 * LowerTile::kDiagonalBytes <= kTriangleTileBytes &&
                LowerTile::kBytes <= kBufferBytes);
};

/// One warp: the gates of a value head, scanned, and whether any of its betas is small.
__device__ __forceinline__ void scan_head(uint32_t gates, uint32_t small_betas,
                                          const GateParams& from, int64_t token0, int head,
                                          int valid, int l) {
  const HeadGates of_head = head_gates(from, head, head);
  uint32_t gate[2], beta[2];
#pragma unroll
  for (int e = 0; e < 2; e++) {  // every load before the first value is used: the longest wait
    const bool there = 2 * l + e < valid;
    const int64_t token = token0 + 2 * l + e;
    gate[e] = there ? load_number_bits(from.gate, token, head) : 0;
    beta[e] = there ? load_number_bits(from.beta, token, head) : 0;
  }
  float x[2], b[2];
  bool small = false;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const bool there = 2 * l + e < valid;
    const float decay = decode_log_decay(from, widen_bits(gate[e], from.gate.type), of_head);
    x[e] = there ? log2_decay(decay) : 0.f;
    b[e] = there ? decode_beta(from, widen_bits(beta[e], from.beta.type)) : 0.f;
    small |= there && !(fabsf(b[e]) >= kLeastBeta);
  }
  const bool any = __ballot_sync(~0u, small) != 0;
  if (l == 0) store_shared(small_betas, any ? 1.f : 0.f);
  scan_gates(gates, x[0], x[1], b[0], b[1], l);
}

/// Thread t < 64: the factors of token t.
__device__ __forceinline__ void store_factors(uint32_t to, uint32_t gates, uint32_t lengths,
                                              uint32_t small_betas, float scale, int t) {
  const uint32_t at = 4 * t;
  if (t == 0) store_shared(to + Factor::any_small_beta, load_shared<float>(small_betas));
  const float decayed = load_shared<float>(gates + GateLayout::kGamma + at),
              remaining = load_shared<float>(gates + GateLayout::kToEnd + at),
              key = load_shared<float>(lengths + at),
              query = load_shared<float>(lengths + 256 + at);
  store_shared(to + Factor::cumulative + at,
               load_shared<float>(gates + GateLayout::kCumulative + at));
  store_shared(to + Factor::gamma + at, decayed);
  store_shared(to + Factor::beta + at, load_shared<float>(gates + GateLayout::kBeta + at));
  store_shared(to + Factor::key_length + at, key);
  store_shared(to + Factor::key_decayed + at, decayed * key);
  store_shared(to + Factor::key_update + at, remaining * key);
  store_shared(to + Factor::query_length + at, query);
  store_shared(to + Factor::query_scale + at, scale * query);
  store_shared(to + Factor::query_decayed + at, scale * decayed * query);
}

/// A lane's address in block (w, 0) of a tile [64][64] for store_matrix_x4; `transposed`: for store_matrix_x4_trans.
/// Block (w, j) is at the address ^ 32 j.
__device__ __forceinline__ uint32_t block_lane(uint32_t tile, int w, int l, bool transposed) {
  const int matrix = l >> 3, rr = l & 7;
  const int row = transposed ? matrix >> 1 : matrix & 1,
            unit = transposed ? matrix & 1 : matrix >> 1;
  return tile + swizzle_128(16 * w + row * 8 + rr, 16 * unit);
}

/// One warp: zeros to the blocks right of the diagonal in its block row.
__device__ __forceinline__ void zero_upper_blocks(uint32_t tile, int w, int l) {
  const uint32_t row = 16 * w + l / 2;
  for (uint32_t j = w + 1; j < 4; j++)
    store_shared(tile + swizzle_128(row, 32 * j + 16 * (l % 2)), make_uint4(0, 0, 0, 0));
}

__global__ void __launch_bounds__(kThreads, 4)
    prepare_kernel(const __grid_constant__ CUtensorMap query_map,
                   const __grid_constant__ CUtensorMap key_map, const KernelParams a) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const GatedDeltaParams& p = a.backward.forward;
  const uint32_t sm = shared_address(shared), key_full = sm + Layout::kBarriers,
                 query_full = key_full + 8;
  launch_dependents();  // the chains' blocks start as these leave, and wait for all of them
  const int t = threadIdx.x, w = __shfl_sync(~0u, t >> 5, 0);
  int l = t & 31;
  const int key_head = static_cast<int>(blockIdx.x) % p.num_key_heads;
  const int64_t slot = static_cast<int>(blockIdx.x) / p.num_key_heads;
  const SlotPlace place = place_of_slot(p, slot, l, first_chunk_slot);
  const int64_t token0 =
      place.begin + (slot - first_chunk_slot(place.begin, place.sequence)) * kChunk;
  if (token0 >= place.end) return;  // a slot past the sequence's last chunk
  if (p.slot_index && __ldg(p.slot_index.word(place.sequence)) < 0) return;
  const int valid = static_cast<int>(place.end - token0 < kChunk ? place.end - token0 : kChunk);

  if (t == 0) {
    mbarrier_init(key_full, 1);
    mbarrier_init(query_full, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(key_full, kTileBytes);
    load_key_tile(sm + Layout::kKey, &key_map, key_full, static_cast<int>(token0), key_head,
                  p.key_head_dim);
    mbarrier_arrive_expect(query_full, kTileBytes);
    load_key_tile(sm + Layout::kQuery, &query_map, query_full, static_cast<int>(token0), key_head,
                  p.key_head_dim);
  }
  __syncthreads();

  const int first_head = key_head * p.value_heads_per_key_head;
  const auto scan_heads = [&](int h) {  // of head h and those behind it, one a warp
    if (h + w < p.value_heads_per_key_head)
      scan_head(sm + Layout::kGates + w * GateLayout::kBytes, sm + Layout::kSmallBetas + 4 * w,
                p.gates, token0, first_head + h + w, valid, l);
  };
  scan_heads(0);

  float kk[32], qk[32];  // K K^T and Q K^T [64 x 64], rows 16w + l/4 (+8)
  const uint64_t key_tile = wgmma::k_major_128(sm + Layout::kKey),
                 query_tile = wgmma::k_major_128(sm + Layout::kQuery);
  mbarrier_wait(key_full, 0);
  multiply_tiles<Token>(kk, key_tile, key_tile);
  mbarrier_wait(query_full, 0);
  multiply_tiles<Token>(qk, query_tile, key_tile);
  const uint32_t lengths = sm + Layout::kInverseLength;
  if (p.normalize_qk) {
    store_inverse_lengths<Token>(sm + Layout::kQuery, lengths + 256, valid, w, l);
  } else {
    store_shared(lengths + 4 * t, 1.f);
  }
  wgmma::wait<0>();
  wgmma::hold(kk);
  wgmma::hold(qk);
  if (p.normalize_qk) store_inverse_key_lengths(kk, lengths, valid, w, l);
  __syncthreads();  // the tiles of K and Q are buffers from here on
  if (p.normalize_qk || valid < kChunk) {
    scale_and_mask_columns(kk, lengths, valid, w, l);
    scale_and_mask_columns(qk, lengths, valid, w, l);
  }
  {
    const uint32_t largest = largest_key_square(kk, w);
    if (l == 0)
      store_shared(sm + Layout::kKeySquares + 4 * w,
                   p.normalize_qk ? 1.f : __uint_as_float(largest));
  }
  const uint32_t lower = sm + Layout::kLower;
#pragma unroll 1
  for (int h = 0; h < p.value_heads_per_key_head; h++) {
    asm volatile("" : "+r"(l));  // lane addresses are made anew for each head: hoisted, they spill
    const uint32_t T = sm + Layout::kBuffers + (h & 1) * Layout::kBufferBytes,
                   P = T + kTriangleTileBytes, diagonal = T + LowerTile::kDiagonalBytes * w,
                   factors = sm + Layout::kFactors + (h & 1) * kFactorBytes;
    if (t == 0) bulk_wait_read<1>();  // the record before the last has left its buffers
    if (h % Layout::kHeads == 0 && h > 0) scan_heads(h);
    __syncthreads();
    const uint32_t gates = sm + Layout::kGates + h % Layout::kHeads * GateLayout::kBytes;
    if (t >= 64)
      store_factors(factors, gates, lengths, sm + Layout::kSmallBetas + 4 * (h % Layout::kHeads),
                    p.scale, t - 64);
    const RowFactors rows = load_row_factors(gates, lengths, p.scale, w, l);
    const RowPair p_rows = rows.from_block * rows.scale;
    const uint32_t p_at = block_lane(P, w, l, false);
    for_lower_blocks(
        gates, w, l,
        [&](int jb, const float2(&f)[2]) {
          store_lower(lower, kk, jb, rows.lower, f, w, l);
          store_p<Token>(p_at ^ (32 * jb), qk, jb, p_rows, f);
        },
        [&](int jb, const float(&m)[2][4]) {
          store_lower_diagonal(diagonal, kk, jb, rows.beta, m, l);
          store_p_diagonal<Token>(p_at ^ (32 * jb), qk, jb, rows.scale, m, l);
        });
    __syncwarp();
    invert_diagonal(lower + LowerTile::block(w, w), diagonal, l);
    zero_upper_blocks(P, w, l);
    __syncthreads();
    const uint32_t t_at = block_lane(T, w, l, true) ^ (32 * w);
    const uint32_t blocks = tile_lane(lower, l) + LowerTile::block(w, w);
    const uint32_t kept = diagonal_kept(true, l);  // T - I
    const float largest = largest_step(gates, largest_key_square(sm + Layout::kKeySquares));
    if (t == 0) store_shared(factors + Factor::largest_key_step, largest);
    if (largest <= kFloat16Limit) {
      zero_upper_blocks(T, w, l);
      merge_column<Token, kTileBlockBytes>(blocks, t_at, kept, w);
    } else {
      const uint32_t other = sm + Layout::kBuffers + (~h & 1) * Layout::kBufferBytes;
      if (t == 0) bulk_wait_read<0>();  // the record before has left its buffers
      __syncthreads();
      for_lower_blocks(
          gates, w, l,
          [&](int jb, const float2(&f)[2]) {
            store_lower_parts(lower, other, kk, jb, rows.lower, f, w, l);
          },
          [](int, const float(&)[2][4]) {});
      invert_diagonal_parts(lower + LowerTile::block(w, w), other + LowerTile::block(w, w),
                            diagonal, l);
      __syncthreads();
      zero_upper_blocks(T, w, l);
      merge_column_parts<Token, kTileBlockBytes>(blocks, blocks - lower + other, t_at, kept, w);
    }
    fence_async_proxy();
    __syncthreads();  // the next head's gates, L and diagonals may come
    if (t == 0) {
      uint8_t* const record =
          a.work.records + (slot * p.num_value_heads + first_head + h) * int64_t{kRecordBytes};
      bulk_store(record + kBelowT, T, 2 * kTriangleTileBytes);
      bulk_store(record + backward_sm90::kFactors, factors, kFactorBytes);
      bulk_commit();
    }
  }
  if (t == 0) bulk_wait<0>();
}

}  // namespace

void enqueue_prepare(const Launch& launch, cudaStream_t stream) {
  allow_shared_memory(prepare_kernel, Layout::kBytes);
  const unsigned int blocks =
      grid_blocks(launch.chunk_slots * launch.params.backward.forward.num_key_heads, launch.name);
  launch_kernel(prepare_kernel, blocks, kThreads, Layout::kBytes, stream, launch.maps.query,
                launch.maps.key, launch.params);
}

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
