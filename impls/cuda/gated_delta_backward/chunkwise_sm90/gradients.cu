// Third kernel of cuda/chunkwise_sm90 of gated_delta_backward: all gradients of a chunk but dV. A block has a chunk and
// a key head, and takes the value heads one after the other, so that dQ and dK are summed over them in registers. With
// Gam_ij = gamma_i / gamma_j for i >= j, else 0, and s the scale:
//
//     dP  = dO V'^T                    N  = -Gam * (dV V'^T) below the diagonal
//     dQ  = s gamma (dO S^T) + s (Gam * dP) K
//     dK  = (gamma_C / gamma) (V' D^T) - gamma (dV S^T) + s (Gam * dP)^T Q + (N + N^T) K
//     dbeta_i = dV_i . V'_i / beta_i^2              where beta_i is not too small (small_betas.cu)
//
// and the gradient of a log decay in the form in which every term carries the decay itself. With the rows' products
// a_i = q_i . s gamma_i (dO S^T)_i, z_i = -k_i . gamma_i (dV S^T)_i and e_i = k_i . (gamma_C / gamma_i) (V' D^T)_i, and
// M = P * dP + (K K^T) * N:
//
//     dg_t = gamma_C <D, S> + sum_{i >= t} (a_i + z_i) + sum_{j < t} e_j + sum_{i >= t > j} M_ij
//
// Blocks are persistent. Roles: of three math warpgroups the first has dQ, the second of dK what needs D, dP and N^T, the
// third what needs S and N; the first and the third make the sums over M, by products of tf32. The first warp of the
// fourth finds the items and loads, its others make <D, S> and the gradients of the gates. What needs S and D comes last
// of a head, so that those of the next arrive meanwhile.
//
// Bound by: the latency of a warpgroup's steps, of which masks and decays are the longest, beside 12 other warps.
// Reached, H200, 16/32 heads, 32768 tokens: 0.81 ms, where S, D, V', dV and dO alone are 0.44 ms of memory (log.md).
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/approximate.cuh"
#include "cuda/gated_delta/chunk_sm90/gate_factors.cuh"
#include "cuda/gated_delta/chunk_sm90/key_tile.cuh"
#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta/chunk_sm90/tile_rows.cuh"
#include "cuda/gated_delta/chunk_sm90/triangles.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/hopper/ring.cuh"
#include "cuda/hopper/work_items.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

using namespace hopper;

namespace {

using Token = __nv_bfloat16;

/// A chunk and key head, which a block takes at a time.
struct ChunkItem {
  int slot;    // of the chunk; negative: no more
  int token0;  // its first token
  int valid;   // its tokens; less than 0: so many, of a padding sequence
  int key_head;

  static constexpr uint32_t kBytes = 16;
  /// Whole warps.
  static __device__ __forceinline__ ChunkItem load_uniform(uint32_t address) {
    const int4 x = load_shared<int4>(address);
    const auto uniform = [](int value) { return __shfl_sync(~0u, value, 0); };
    return {uniform(x.x), uniform(x.y), uniform(x.z), uniform(x.w)};
  }
  __device__ __forceinline__ void store(uint32_t address) const {
    store_shared(address, make_int4(slot, token0, valid, key_head));
  }
};

/// What M is multiplied by for its sums along rows, in shared memory: E_jt = 1 where j < t, else 0, of which 8 rows j are
/// those before them, eight columns t further on. So there is one such row of blocks, of 15, and the product's step over
/// columns 8 k .. 8 k + 7 of M begins at block 7 - k. Within a step column 2 x is k x, and column 2 x + 1 is k 4 + x:
/// where accumulators lie as operands of tf32.
struct ColumnsBefore {
  static constexpr uint32_t kHalfBytes = 8 * 16, kBlockBytes = 2 * kHalfBytes;
  static constexpr uint32_t kBytes = 15 * kBlockBytes;

  /// Threads t of `threads`.
  static __device__ __forceinline__ void store(uint32_t to, int t, int threads) {
    for (int i = t; i < static_cast<int>(kBytes / 4); i += threads) {
      const int block = i / 64, half = i / 32 % 2, column = 8 * (block - 7) + i / 4 % 8,
                row = 2 * (i % 4) + half;
      store_shared(to + 4 * i, row < column ? 1.f : 0.f);
    }
  }
  static __device__ __forceinline__ uint64_t operand(uint32_t blocks, int k) {
    return wgmma::k_major_plain(blocks + (7 - k) * kBlockBytes, kHalfBytes, kBlockBytes);
  }
};

/// Shared memory of a block, bytes.
struct Layout {
  static constexpr int kStages = 2, kItemSlots = 2;
  static constexpr uint32_t kState = 0, kDState = kState + kStateBytes;  // S and D
  static constexpr uint32_t kKey = kDState + kStateBytes, kQuery = kKey + kTileBytes;
  // of a head, by stages. Behind an item's last head a stage stays empty: there the parts of dK meet, and gradients are
  // on their way to memory
  static constexpr uint32_t kHeads = kQuery + kTileBytes;
  static constexpr uint32_t kDOutput = 0, kUpdate = kTileBytes, kDValue = 2 * kTileBytes,
                            kFactorsAt = 3 * kTileBytes;
  static constexpr uint32_t kHeadBytes = (kFactorsAt + kFactorBytes + 1023) / 1024 * 1024;
  static constexpr uint32_t kExchange = 0, kOfQueries = 2 * kTileBytes;
  // K K^T and Q K^T, each thread's own 32 of either, of 16 bits
  static constexpr uint32_t kKeyProducts = kHeads + kStages * kHeadBytes,
                            kQueryProducts = kKeyProducts + 64 * 128;
  // what the gates' gradients of a head are made of, float32; of two heads
  static constexpr uint32_t kParts = kQueryProducts + 64 * 128;
  static constexpr uint32_t kOfQuery = 0, kOfDecayed = 256, kOfUpdate = 512, kDBeta = 768,
                            kCrossing = 1024;  // [2 warpgroups][4 warps][64]
  static constexpr uint32_t kStateProducts = kCrossing + 2 * 4 * 256;  // [4]: of each warp, <D, S>
  static constexpr uint32_t kPartBytes = kStateProducts + 16;
  static constexpr uint32_t kColumnsBefore = kParts + kStages * kPartBytes;
  static constexpr uint32_t kItems = kColumnsBefore + ColumnsBefore::kBytes;
  static constexpr uint32_t kBarriers = kItems + kItemSlots * ChunkItem::kBytes;
  static constexpr uint32_t kTilesFull = kBarriers, kTilesEmpty = kTilesFull + 8,
                            kStateFull = kTilesEmpty + 8, kStateEmpty = kStateFull + 8,
                            kDStateFull = kStateEmpty + 8, kDStateEmpty = kDStateFull + 8,
                            kPartsFull = kDStateEmpty + 8, kPartsEmpty = kPartsFull + 16,
                            kHeadFull = kPartsEmpty + 16, kHeadEmpty = kHeadFull + 16,
                            kItemFull = kHeadEmpty + 16, kItemEmpty = kItemFull + 16,
                            kRowsZeroed = kItemEmpty + 16, kExchangeFull = kRowsZeroed + 8;
  static constexpr uint32_t kBytes = kExchangeFull + 8;
  static_assert(kBytes <= 232448 && kBarriers % 8 == 0);
  static_assert(kOfQueries + kTileBytes <= kFactorsAt && 64 * 128 * 4 <= kOfQueries);

  using Item = ChunkItem;
  using Items = Ring<kItemSlots, kItems, ChunkItem::kBytes, kItemFull, kItemEmpty>;
  using Heads = Ring<kStages, kHeads, kHeadBytes, kHeadFull, kHeadEmpty>;
  using Parts = Ring<kStages, kParts, kPartBytes, kPartsFull, kPartsEmpty>;
};
constexpr int kMathThreads = 384, kThreads = kMathThreads + 128;
constexpr int kAuxiliaryThreads = 96;
/// Barriers of hardware; 0 is __syncthreads.
enum NamedBarrier : int { auxiliary = 1, second_math };

/// d = a b^T, [64 x 64], of tiles [2 panels][64 tokens][64].
__device__ __forceinline__ void multiply_rows(float (&d)[32], uint32_t a, uint32_t b) {
  multiply_tiles<Token>(d, wgmma::k_major_128(a), wgmma::k_major_128(b));
}
/// d = a s, of a tile [2 panels][64 tokens][64] and of 64 columns of Dk of a state [Dv][64].
__device__ __forceinline__ void multiply_by_state(float (&d)[32], uint32_t a,
                                                  uint32_t state_panel) {
  wgmma::hold(d);
  wgmma::registers_ready();
#pragma unroll
  for (int i = 0; i < 8; i++)
    wgmma::multiply_ss_n64_trans<Token>(
        d, wgmma::k_major_128(a) + 2 * (i & 3) + 512 * (i >> 2),
        wgmma::mn_major_128(state_panel, kStatePanelBytes) + 128 * i, i > 0);
  wgmma::commit();
}
/// sums += a tile, tile K or Q [64 tokens x Dk]; committed, the caller waits.
__device__ __forceinline__ void add_product(float (&sums)[64], uint32_t (&a)[16], uint32_t tile) {
  wgmma::hold(a);
  wgmma::hold(sums);
  wgmma::registers_ready();
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n128_trans<Token>(sums, a + 4 * i,
                                         wgmma::mn_major_128(tile, kPanelBytes) + 128 * i);
  wgmma::commit();
}
/// A thread's two numbers of a row of a panel [64 tokens][64]: columns 8 j + 2 (l % 4) and the next.
__device__ __forceinline__ float2 load_pair(uint32_t panel, int row, int j, int l) {
  return unpack<Token>(load_shared<uint32_t>(panel + swizzle_128(row, 16 * j + 4 * (l & 3))));
}
/// Products of the rows of a panel with those of d [64 x 64]: to the thread's two rows, of its columns.
__device__ __forceinline__ void add_row_products(RowPair& sums, const float (&d)[32],
                                                 uint32_t panel, int w, int l) {
  const int row = 16 * w + (l >> 2);
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 x = load_pair(panel, row, j, l), y = load_pair(panel, row + 8, j, l);
    sums.x = fmaf(x.x, d[4 * j], fmaf(x.y, d[4 * j + 1], sums.x));
    sums.y = fmaf(y.x, d[4 * j + 2], fmaf(y.y, d[4 * j + 3], sums.y));
  }
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
/// A row's number, of which each of its four lanes has a part.
__device__ __forceinline__ void store_row_sums(uint32_t to, RowPair parts, int w, int l) {
  const float x = quad_sum(parts.x), y = quad_sum(parts.y);
  if ((l & 3) == 0) {
    store_shared(to + 4 * (16 * w + (l >> 2)), x);
    store_shared(to + 4 * (16 * w + (l >> 2) + 8), y);
  }
}

/// A lane and that 2 Half further: the sums of both of their numbers, of which the one keeps the first Half, the other the
/// second, as its first.
template <int Half>
__device__ __forceinline__ void sum_halves(float (&x)[16], int l) {
  const bool second = (l & 2 * Half) != 0;
#pragma unroll
  for (int i = 0; i < Half; i++) {
    const float given = second ? x[i] : x[i + Half], kept = second ? x[i + Half] : x[i];
    x[i] = kept + __shfl_xor_sync(~0u, given, 2 * Half);
  }
}
/// Sums over i >= t > j of M_ij, of the warp's rows i, for every t: to the warp's to[64]. M is zero on and above the
/// diagonal; as an operand it keeps 11 bits. `columns`: ColumnsBefore.
__device__ __forceinline__ void store_crossing_sums(uint32_t to, const float (&M)[32],
                                                    uint32_t columns, int w, int l) {
  uint32_t m[32];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    m[4 * j] = wgmma::tf32_of(M[4 * j]);
    m[4 * j + 1] = wgmma::tf32_of(M[4 * j + 2]);
    m[4 * j + 2] = wgmma::tf32_of(M[4 * j + 1]);
    m[4 * j + 3] = wgmma::tf32_of(M[4 * j + 3]);
  }
  float before[32];  // of row i and t: the sum over j < t
  wgmma::hold(m);
  wgmma::hold(before);
  wgmma::registers_ready();
#pragma unroll
  for (int k = 0; k < 8; k++)
    wgmma::multiply_rs_n64_tf32(before, m + 4 * k, ColumnsBefore::operand(columns, k), k > 0);
  wgmma::commit();
  wgmma::wait<0>();
  wgmma::hold(before);
  wgmma::hold(m);
  // over the rows: first the thread's two, where they are not before t
  const int behind = 16 * w + (l >> 2) - 2 * (l & 3);
  float sums[16];
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++)
      sums[2 * j + e] = (behind >= 8 * j + e ? before[4 * j + e] : 0.f) +
                        (behind + 8 >= 8 * j + e ? before[4 * j + 2 + e] : 0.f);
  // then the eight lanes' that have the same columns
  sum_halves<8>(sums, l);
  sum_halves<4>(sums, l);
  sum_halves<2>(sums, l);
  store_shared(to + 8 * l, make_float2(sums[0], sums[1]));  // of t 8 (l / 4) + 2 (l % 4)
}

/// Decays between the tokens of the thread's rows and of its columns 8 j + 2 (l % 4) + e. Each is asked for on one side
/// of the diagonal, and is any number, infinity included, on the other.
struct RowDecays {
  RowPair cumulative;
  uint32_t columns;  // the thread's, in shared memory

  __device__ __forceinline__ RowDecays(uint32_t factors, int w, int l)
      : cumulative(load_rows(factors + Factor::cumulative, w, l)),
        columns(factors + Factor::cumulative + 8 * (l & 3)) {}
  /// The four of accumulators 4 j .. 4 j + 3, where rows are behind columns.
  __device__ __forceinline__ float4 of_later_rows(int j) const {
    const float2 c = load_shared<float2>(columns + 32 * j);
    return {exp2_flush(cumulative.x - c.x), exp2_flush(cumulative.x - c.y),
            exp2_flush(cumulative.y - c.x), exp2_flush(cumulative.y - c.y)};
  }
  /// Where columns are behind rows.
  __device__ __forceinline__ float4 of_later_columns(int j) const {
    const float2 c = load_shared<float2>(columns + 32 * j);
    return {exp2_flush(c.x - cumulative.x), exp2_flush(c.y - cumulative.x),
            exp2_flush(c.x - cumulative.y), exp2_flush(c.y - cumulative.y)};
  }
};

/// What a math warpgroup works with.
struct Math {
  const KernelParams& a;
  const uint32_t sm;
  const int wg, t, w, l;
  ChunkItem item{};
  RingCursor<Layout::Heads> head{};
  RingCursor<Layout::Parts> parts{};
  /// Bit 0 is the parity of what there is once of a head: S and D; bit 1 that of K and Q, and of what is exchanged; bit 2
  /// that of the zeroing of rows.
  uint32_t rounds = 0;

  __device__ __forceinline__ uint32_t parity() const { return rounds & 1; }
  __device__ __forceinline__ uint32_t tiles_parity() const { return rounds >> 1 & 1; }
  __device__ __forceinline__ uint32_t rows_parity() const { return rounds >> 2; }

  __device__ __forceinline__ uint32_t at(uint32_t what) const { return head.buffer(sm) + what; }
  __device__ __forceinline__ uint32_t factors() const { return at(Layout::kFactorsAt); }
  /// A place of the parts of the gates' gradients.
  __device__ __forceinline__ uint32_t part(uint32_t which) const {
    return parts.buffer(sm) + which;
  }
  __device__ __forceinline__ float2 column_factors(Factor which, int j) const {
    return load_shared<float2>(factors() + which + 32 * j + 8 * (l & 3));
  }
  __device__ __forceinline__ int row() const { return 16 * w + (l >> 2); }
  __device__ __forceinline__ int column(int j) const { return 8 * j + 2 * (l & 3); }

  /// gamma_C / gamma of the thread's two rows.
  __device__ __forceinline__ RowPair decays_to_end() const {
    const float end = load_shared<float>(factors() + Factor::cumulative + kLastToken);
    const RowPair c = load_rows(factors() + Factor::cumulative, w, l);
    return {exp2_flush(fminf(end - c.x, 0.f)), exp2_flush(fminf(end - c.y, 0.f))};
  }
  /// Until head h's operands are there, with zeros in rows past the sequence's end. V' and P have them already.
  __device__ __forceinline__ void await_head(int h) {
    const bool first = h == 0;
    head.await_full(sm);
    if (first) mbarrier_wait(sm + Layout::kTilesFull, tiles_parity());
    if (item.valid == kChunk) return;
    const auto zero_tile = [&](uint32_t tile) {
      zero_rows(tile, item.valid, t);
      zero_rows(tile + kPanelBytes, item.valid, t);
    };
    if (wg == 0) zero_tile(at(Layout::kDOutput));
    if (wg == 1) zero_tile(at(Layout::kDValue));
    if (wg == 2 && first) {
      zero_tile(sm + Layout::kKey);
      zero_tile(sm + Layout::kQuery);
    }
    fence_async_proxy();
    mbarrier_arrive(sm + Layout::kRowsZeroed);
    mbarrier_wait(sm + Layout::kRowsZeroed, rows_parity());
    rounds ^= 4;
  }
  /// Every thread arrives: that one does so for its warp is a step that racecheck does not follow.
  __device__ __forceinline__ void release(uint32_t barrier) const { mbarrier_arrive(sm + barrier); }
  /// The warpgroup has done with the head, and its parts of the gates' gradients are stored.
  __device__ __forceinline__ void finish_head() {
    mbarrier_arrive(parts.full(sm));
    parts.advance();
    head.release(sm);
    head.advance();
    rounds ^= 1;
  }

  /// The products of the rows of K or Q with the keys before them, zeros elsewhere, kept for all heads of the item.
  __device__ __forceinline__ void keep_products(uint32_t to, uint32_t rows) const {
    float d[32];
    multiply_rows(d, rows, sm + Layout::kKey);
    wgmma::wait<0>();
    wgmma::hold(d);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int i = row() + 8 * e;
        store_shared(to + 1024 * j + 512 * e + 4 * t,
                     pack<Token>(i > column(j) ? d[4 * j + 2 * e] : 0.f,
                                 i > column(j) + 1 ? d[4 * j + 2 * e + 1] : 0.f));
      }
  }
  /// Accumulators 4 j .. 4 j + 3 of d times those products and `rows`.
  __device__ __forceinline__ void times_products(float (&d)[32], int j, uint32_t products,
                                                 RowPair rows) const {
    const float2 x = unpack<Token>(load_shared<uint32_t>(products + 1024 * j + 4 * t)),
                 y = unpack<Token>(load_shared<uint32_t>(products + 1024 * j + 512 + 4 * t));
    d[4 * j] *= rows.x * x.x;
    d[4 * j + 1] *= rows.x * x.y;
    d[4 * j + 2] *= rows.y * y.x;
    d[4 * j + 3] *= rows.y * y.y;
  }

  /// sums += a K; and the crossing sums of M to the part `to` of the gates' gradients.
  __device__ __forceinline__ void add_with_crossing(float (&sums)[64], uint32_t (&a)[16],
                                                    const float (&M)[32], uint32_t to) const {
    add_product(sums, a, sm + Layout::kKey);
    wgmma::wait<0>();
    wgmma::hold(sums);
    wgmma::hold(a);
    store_crossing_sums(part(to), M, sm + Layout::kColumnsBefore, w, l);
  }

  /// sums += scale (rows S), of a tile of rows and of S or D; and the products of these rows with those of K or Q, times
  /// `product_scale`, as the part `to` of the gates' gradients. What needs S or D comes last of a head: those of the next
  /// arrive meanwhile.
  __device__ __forceinline__ void add_state_product(float (&sums)[64], uint32_t rows,
                                                    uint32_t state, RowPair scale, uint32_t tile,
                                                    RowPair product_scale, uint32_t to) const {
    float first[32], second[32];
    multiply_by_state(first, rows, state);
    multiply_by_state(second, rows, state + kStatePanelBytes);
    RowPair products = {0.f, 0.f};
    const auto take = [&](const float(&d)[32], int panel) {
      add_row_products(products, d, tile + panel * kPanelBytes, w, l);
#pragma unroll
      for (int i = 0; i < 32; i++)
        sums[32 * panel + i] = fmaf((i & 2) ? scale.y : scale.x, d[i], sums[32 * panel + i]);
    };
    wgmma::wait<1>();
    wgmma::hold(first);
    take(first, 0);
    wgmma::wait<0>();
    wgmma::hold(second);
    take(second, 1);
    store_row_sums(part(to), products * product_scale, w, l);
  }

  /// sums = dQ / s of all heads, as of normalised queries.
  __device__ __forceinline__ void sum_query(float (&sums)[64], RowPair& inverse) {
    const uint32_t Q = sm + Layout::kQuery;
#pragma unroll 1
    for (int h = 0; h < a.head_slices; h++) {
      await_head(h);
      if (h == 0) keep_products(sm + Layout::kQueryProducts, Q);
      parts.await_empty(sm);
      float d[32];
      multiply_rows(d, at(Layout::kDOutput), at(Layout::kUpdate));
      wgmma::wait<0>();
      wgmma::hold(d);
      uint32_t operand[16];
      const RowDecays decays(factors(), w, l);
      const RowPair scale = load_rows(factors() + Factor::query_scale, w, l);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 g = decays.of_later_rows(j);
        const float2 f = column_factors(Factor::key_length, j);
        d[4 * j] = row() >= column(j) ? g.x * f.x * d[4 * j] : 0.f;
        d[4 * j + 1] = row() >= column(j) + 1 ? g.y * f.y * d[4 * j + 1] : 0.f;
        d[4 * j + 2] = row() + 8 >= column(j) ? g.z * f.x * d[4 * j + 2] : 0.f;
        d[4 * j + 3] = row() + 8 >= column(j) + 1 ? g.w * f.y * d[4 * j + 3] : 0.f;
        operand[2 * j] = pack<Token>(d[4 * j], d[4 * j + 1]);
        operand[2 * j + 1] = pack<Token>(d[4 * j + 2], d[4 * j + 3]);
        times_products(d, j, sm + Layout::kQueryProducts, scale);  // P * dP
      }
      add_with_crossing(sums, operand, d, Layout::kCrossing + 256 * w);
      mbarrier_wait(sm + Layout::kStateFull, parity());
      add_state_product(sums, at(Layout::kDOutput), sm + Layout::kState,
                        load_rows(factors() + Factor::gamma, w, l), Q,
                        load_rows(factors() + Factor::query_decayed, w, l), Layout::kOfQuery);
      release(Layout::kStateEmpty);
      inverse = load_rows(factors() + Factor::query_length, w, l);
      finish_head();
    }
  }

  /// sums = the part of dK that is made of D, of Q, and of N^T.
  __device__ __forceinline__ void sum_key_of_updates(float (&sums)[64], RowPair& inverse) {
    const uint32_t K = sm + Layout::kKey;
#pragma unroll 1
    for (int h = 0; h < a.head_slices; h++) {
      await_head(h);
      float d[32], e[32];
      multiply_rows(d, at(Layout::kUpdate), at(Layout::kDOutput));
      multiply_rows(e, at(Layout::kUpdate), at(Layout::kDValue));
      wgmma::wait<0>();
      wgmma::hold(d);
      wgmma::hold(e);
      uint32_t of_queries[16], of_keys[16];
      const RowDecays decays(factors(), w, l);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 g = decays.of_later_columns(j);
        const float2 q = column_factors(Factor::query_scale, j),
                     k = column_factors(Factor::key_length, j);
        of_queries[2 * j] = pack<Token>(row() <= column(j) ? g.x * q.x * d[4 * j] : 0.f,
                                        row() <= column(j) + 1 ? g.y * q.y * d[4 * j + 1] : 0.f);
        of_queries[2 * j + 1] =
            pack<Token>(row() + 8 <= column(j) ? g.z * q.x * d[4 * j + 2] : 0.f,
                        row() + 8 <= column(j) + 1 ? g.w * q.y * d[4 * j + 3] : 0.f);
        of_keys[2 * j] = pack<Token>(row() < column(j) ? -g.x * k.x * e[4 * j] : 0.f,
                                     row() < column(j) + 1 ? -g.y * k.y * e[4 * j + 1] : 0.f);
        of_keys[2 * j + 1] =
            pack<Token>(row() + 8 < column(j) ? -g.z * k.x * e[4 * j + 2] : 0.f,
                        row() + 8 < column(j) + 1 ? -g.w * k.y * e[4 * j + 3] : 0.f);
      }
      wgmma::hold(of_keys);
      add_product(sums, of_queries, sm + Layout::kQuery);
      add_product(sums, of_keys, K);
      wgmma::wait<0>();
      wgmma::hold(sums);
      wgmma::hold(of_queries);
      wgmma::hold(of_keys);
      parts.await_empty(sm);
      mbarrier_wait(sm + Layout::kDStateFull, parity());
      add_state_product(sums, at(Layout::kUpdate), sm + Layout::kDState, decays_to_end(), K,
                        load_rows(factors() + Factor::key_update, w, l), Layout::kOfUpdate);
      release(Layout::kDStateEmpty);
      inverse = load_rows(factors() + Factor::key_length, w, l);
      finish_head();
    }
  }

  /// d_beta, of the diagonal of dV V'^T. Each row's element is its one lane's: of block w, where only lanes differ.
  __device__ __forceinline__ void store_beta_gradients(const float (&d)[32]) const {
    float x[4] = {};  // of the thread's two columns in either row
#pragma unroll
    for (int block = 0; block < 4; block++) {
      if (w != block) continue;
      x[0] = d[8 * block];
      x[1] = d[8 * block + 1];
      x[2] = d[8 * block + 6];
      x[3] = d[8 * block + 7];
    }
    const int within = l >> 2;  // of 8 rows, and of the 8 columns
    const RowPair beta = load_rows(factors() + Factor::beta, w, l),
                  inverse = {reciprocal_approximately(beta.x), reciprocal_approximately(beta.y)};
    if (within / 2 == (l & 3)) {
      const uint32_t to = part(Layout::kDBeta) + 4 * row();
      store_shared(to, (within & 1 ? x[1] : x[0]) * inverse.x * inverse.x);
      store_shared(to + 32, (within & 1 ? x[3] : x[2]) * inverse.y * inverse.y);
    }
  }

  /// sums = the part of dK that is made of dV and S, and of N.
  __device__ __forceinline__ void sum_key_of_values(float (&sums)[64]) {
    const uint32_t K = sm + Layout::kKey;
#pragma unroll 1
    for (int h = 0; h < a.head_slices; h++) {
      await_head(h);
      if (h == 0) keep_products(sm + Layout::kKeyProducts, K);
      float d[32];
      uint32_t operand[16];  // N times the columns' 1 / |k|
      const RowDecays decays(factors(), w, l);
      multiply_rows(d, at(Layout::kDValue), at(Layout::kUpdate));
      wgmma::wait<0>();
      wgmma::hold(d);
      parts.await_empty(sm);
      store_beta_gradients(d);
      const RowPair key = load_rows(factors() + Factor::key_length, w, l);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 g = decays.of_later_rows(j);
        const float2 f = column_factors(Factor::key_length, j);
        d[4 * j] = row() > column(j) ? -g.x * f.x * d[4 * j] : 0.f;
        d[4 * j + 1] = row() > column(j) + 1 ? -g.y * f.y * d[4 * j + 1] : 0.f;
        d[4 * j + 2] = row() + 8 > column(j) ? -g.z * f.x * d[4 * j + 2] : 0.f;
        d[4 * j + 3] = row() + 8 > column(j) + 1 ? -g.w * f.y * d[4 * j + 3] : 0.f;
        operand[2 * j] = pack<Token>(d[4 * j], d[4 * j + 1]);
        operand[2 * j + 1] = pack<Token>(d[4 * j + 2], d[4 * j + 3]);
        times_products(d, j, sm + Layout::kKeyProducts, key);
      }
      add_with_crossing(sums, operand, d, Layout::kCrossing + 1024 + 256 * w);
      const RowPair gamma = load_rows(factors() + Factor::gamma, w, l),
                    decayed = load_rows(factors() + Factor::key_decayed, w, l);
      mbarrier_wait(sm + Layout::kStateFull, parity());
      add_state_product(sums, at(Layout::kDValue), sm + Layout::kState, {-gamma.x, -gamma.y}, K,
                        {-decayed.x, -decayed.y}, Layout::kOfDecayed);
      release(Layout::kStateEmpty);
      finish_head();
    }
  }

  /// What store_gradient() wants of a tile, where the call normalises: of the thread's rows, pairs of columns, as sums have
  /// them.
  __device__ __forceinline__ void load_rows_of(uint32_t (&x)[32], uint32_t tile) const {
    if (!a.backward.forward.normalize_qk) return;
#pragma unroll
    for (int i = 0; i < 32; i++)
      x[i] =
          load_shared<uint32_t>(tile + i / 16 * kPanelBytes +
                                swizzle_128(row() + 8 * (i & 1), 16 * (i / 2 % 8) + 4 * (l & 3)));
  }
  /// From the gradient of rows of length one to that of the rows x as they are, where the call normalises; and to
  /// memory. `staged`: the warpgroup's own buffer of kTileBytes.
  __device__ __forceinline__ void store_gradient(float (&sums)[64], float scale,
                                                 const uint32_t (&rows)[32], RowPair inverse,
                                                 uint32_t staged, void* to) {
    if (a.backward.forward.normalize_qk) {
      RowPair along = {0.f, 0.f};
#pragma unroll
      for (int i = 0; i < 16; i++) {
        const float2 x = unpack<Token>(rows[2 * i]), y = unpack<Token>(rows[2 * i + 1]);
        along.x = fmaf(x.x, sums[4 * i], fmaf(x.y, sums[4 * i + 1], along.x));
        along.y = fmaf(y.x, sums[4 * i + 2], fmaf(y.y, sums[4 * i + 3], along.y));
      }
      along = {quad_sum(along.x), quad_sum(along.y)};
      const RowPair back = along * inverse * inverse;
      constexpr float kOfZeros =
          1000;  // 1 / sqrt(kNormEpsilon): a row of zeros has no length of its own
      inverse = {inverse.x > 0.f ? inverse.x : kOfZeros, inverse.y > 0.f ? inverse.y : kOfZeros};
#pragma unroll
      for (int i = 0; i < 16; i++) {
        const float2 x = unpack<Token>(rows[2 * i]), y = unpack<Token>(rows[2 * i + 1]);
        sums[4 * i] = inverse.x * fmaf(-back.x, x.x, sums[4 * i]);
        sums[4 * i + 1] = inverse.x * fmaf(-back.x, x.y, sums[4 * i + 1]);
        sums[4 * i + 2] = inverse.y * fmaf(-back.y, y.x, sums[4 * i + 2]);
        sums[4 * i + 3] = inverse.y * fmaf(-back.y, y.y, sums[4 * i + 3]);
      }
    }
    const int matrix = l >> 3, matrix_row = 16 * w + (matrix & 1) * 8 + (l & 7);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      uint32_t x[4];
#pragma unroll
      for (int e = 0; e < 4; e++)
        x[e] = pack<Token>(scale * sums[8 * i + 2 * e], scale * sums[8 * i + 2 * e + 1]);
      store_matrix_x4(staged + (i >> 2) * kPanelBytes +
                          swizzle_128(matrix_row, 32 * (i & 3) + 16 * (matrix >> 1)),
                      x[0], x[1], x[2], x[3]);
    }
    __syncwarp();
    const GatedDeltaParams& p = a.backward.forward;
    const int64_t stride = int64_t{p.num_key_heads} * p.key_head_dim;
    Token* const memory =
        static_cast<Token*>(to) + item.token0 * stride + item.key_head * p.key_head_dim;
#pragma unroll 1
    for (int i = l; i < 16 * 16; i += 32) {  // the warp's own rows
      const int r = 16 * w + i / 16, unit = i % 16;
      if (r >= item.valid) break;
      if (8 * unit >= p.key_head_dim) continue;
      *reinterpret_cast<uint4*>(memory + r * stride + 8 * unit) =
          load_shared<uint4>(staged + unit / 8 * kPanelBytes + swizzle_128(r, unit % 8 * 16));
    }
  }
};

/// One warp: finds the block's items, hands them on, and asks for their operands.
struct Loader {
  const KernelParams& a;
  const CUtensorMap *query_map, *key_map, *d_output_map, *d_value_map;
  const uint32_t sm;
  const int l;
  RingCursor<Layout::Items> slot{};
  RingCursor<Layout::Heads> head{};
  uint32_t parity = 1, tiles_parity = 1;  // of what the roles give back

  __device__ __forceinline__ void hand_on(const ChunkItem& item) {
    slot.await_empty(sm);
    if (l == 0) {
      item.store(slot.buffer(sm));
      mbarrier_arrive(slot.full(sm));
    }
    __syncwarp();
    slot.advance();
  }
  /// K and Q, and every head's operands.
  __device__ __forceinline__ void load(const ChunkItem& item) {
    const GatedDeltaParams& p = a.backward.forward;
    int value_head = item.key_head * p.value_heads_per_key_head, slice = 0;
    int64_t index = a.slice_index(item.slot, value_head, 0);
#pragma unroll 1
    for (int h = 0; h < a.head_slices; h++, index++) {
      head.await_empty(sm);
      head.expect(sm, 3 * kTileBytes + kFactorBytes);
      const uint32_t to = head.buffer(sm), full = head.full(sm);
      bulk_load(to + Layout::kFactorsAt,
                a.work.records + a.record_index(item.slot, value_head) * kRecordBytes + kFactors,
                kFactorBytes, full);
      tensor_load(to + Layout::kDOutput, d_output_map, full, 0, item.token0, 2 * slice, value_head);
      bulk_load(to + Layout::kUpdate, a.work.updates + index * kTileBytes, kTileBytes, full);
      tensor_load(to + Layout::kDValue, d_value_map, full, 0, item.token0, 2 * slice, value_head);
      if (h == 0) {
        mbarrier_wait(sm + Layout::kTilesEmpty, tiles_parity);
        mbarrier_arrive_expect(sm + Layout::kTilesFull, 2 * kTileBytes);
        load_key_tile(sm + Layout::kKey, key_map, sm + Layout::kTilesFull, item.token0,
                      item.key_head, p.key_head_dim);
        load_key_tile(sm + Layout::kQuery, query_map, sm + Layout::kTilesFull, item.token0,
                      item.key_head, p.key_head_dim);
      }
      mbarrier_wait(sm + Layout::kStateEmpty, parity);
      mbarrier_arrive_expect(sm + Layout::kStateFull, kStateBytes);
      bulk_load(sm + Layout::kState, a.work.states + index * kStateBytes, kStateBytes,
                sm + Layout::kStateFull);
      mbarrier_wait(sm + Layout::kDStateEmpty, parity);
      mbarrier_arrive_expect(sm + Layout::kDStateFull, kStateBytes);
      bulk_load(sm + Layout::kDState, a.work.d_states + index * kStateBytes, kStateBytes,
                sm + Layout::kDStateFull);
      head.advance();
      parity ^= 1;
      if (++slice == a.slices) {
        slice = 0;
        value_head++;
      }
    }
    head.await_empty(sm);  // the stage that stays empty
    mbarrier_arrive(head.full(sm));
    head.advance();
    tiles_parity ^= 1;
  }
  __device__ __forceinline__ void run(int items) {
    const GatedDeltaParams& p = a.backward.forward;
#pragma unroll 1
    for (int number = blockIdx.x; number < items; number += gridDim.x) {
      ChunkItem item;
      item.key_head = number % p.num_key_heads;
      item.slot = number / p.num_key_heads;
      const SlotPlace place = place_of_slot(p, item.slot, l, first_chunk_slot);
      const int64_t token0 =
          place.begin + (item.slot - first_chunk_slot(place.begin, place.sequence)) * kChunk;
      if (token0 >= place.end) continue;  // a slot past the sequence's last chunk
      item.token0 = static_cast<int>(token0);
      item.valid = static_cast<int>(place.end - token0 < kChunk ? place.end - token0 : kChunk);
      const bool padding = p.slot_index && __ldg(p.slot_index.word(place.sequence)) < 0;
      if (padding) item.valid = -item.valid;
      hand_on(item);
      if (!padding && l == 0) load(item);
      __syncwarp();
    }
    hand_on({-1, 0, 0, 0});
  }
};

/// A warp's share of <D, S>, to every lane.
__device__ __forceinline__ float state_product(uint32_t sm, int t) {
  float sum = 0.f;
#pragma unroll 2
  for (uint32_t i = t; i < kStateBytes / 16; i += kAuxiliaryThreads) {
    const uint4 x = load_shared<uint4>(sm + Layout::kState + 16 * i),
                y = load_shared<uint4>(sm + Layout::kDState + 16 * i);
    const auto add = [&](uint32_t s, uint32_t d) {
      const float2 u = unpack<Token>(s), v = unpack<Token>(d);
      sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
    };
    add(x.x, y.x);
    add(x.y, y.y);
    add(x.z, y.z);
    add(x.w, y.w);
  }
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  return sum;
}

/// One of two warps: the gradient of the log decay of token 32 half + lane, but for gamma_C <D, S>.
__device__ __forceinline__ float sum_over_tokens(uint32_t parts, int half, int lane) {
  const auto load = [&](uint32_t which, int h) {
    return load_shared<float>(parts + which + 4 * (32 * h + lane));
  };
  float behind = load(Layout::kOfQuery, half) + load(Layout::kOfDecayed, half);  // itself too
  float before = load(Layout::kOfUpdate, half);
  // of the other half's tokens all are behind, or all before
  float other = half == 0 ? load(Layout::kOfQuery, 1) + load(Layout::kOfDecayed, 1)
                          : load(Layout::kOfUpdate, 0);
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    const float x = __shfl_sync(~0u, behind, (lane + o) & 31), y = __shfl_up_sync(~0u, before, o);
    behind += lane + o < 32 ? x : 0.f;
    before += lane >= o ? y : 0.f;
    other += __shfl_xor_sync(~0u, other, o);
  }
  before = __shfl_up_sync(~0u, before, 1);
  float sum = behind + (lane > 0 ? before : 0.f) + other;
#pragma unroll
  for (uint32_t i = 0; i < 8; i++)
    sum += load_shared<float>(parts + Layout::kCrossing + 256 * i + 4 * (32 * half + lane));
  return sum;
}

/// 96 threads: of every head <D, S>, and the gradients of its gates and betas.
__device__ __forceinline__ void sum_gates(const KernelParams& a, const ChunkItem& item, uint32_t sm,
                                          int t, RingCursor<Layout::Heads>& head,
                                          RingCursor<Layout::Parts>& part, uint32_t& parity) {
  const GatedDeltaParams& p = a.backward.forward;
  const int warp = t / 32, lane = t % 32;
#pragma unroll 1
  for (int h = 0; h < a.head_slices; h++) {
    const int value_head = item.key_head * p.value_heads_per_key_head + h / a.slices;
    const uint32_t parts = part.buffer(sm), products = parts + Layout::kStateProducts;
    head.await_full(sm);
    const float decay =
        load_shared<float>(head.buffer(sm) + Layout::kFactorsAt + Factor::gamma + kLastToken);
    head.release(sm);
    head.advance();
    mbarrier_wait(sm + Layout::kStateFull, parity);
    mbarrier_wait(sm + Layout::kDStateFull, parity);
    const float product = state_product(sm, t);
    mbarrier_arrive(sm + Layout::kStateEmpty);
    mbarrier_arrive(sm + Layout::kDStateEmpty);
    if (lane == 0) store_shared(products + 4 * warp, product);
    part.await_full(sm);
    named_barrier_sync(auxiliary, kAuxiliaryThreads);  // every warp's part of <D, S>
    if (warp < 2) {
      const float sum = sum_over_tokens(parts, warp, lane);
      const float d_gate = fmaf(decay,
                                load_shared<float>(products) + load_shared<float>(products + 4) +
                                    load_shared<float>(products + 8),
                                sum);
      if (t < item.valid)
        *reinterpret_cast<float2*>(a.gate_gradients(item.token0 + t, value_head, h % a.slices)) =
            make_float2(d_gate, load_shared<float>(parts + Layout::kDBeta + 4 * t));
    }
    part.release(sm);
    part.advance();
    parity ^= 1;
  }
  head.await_full(sm);
  head.release(sm);  // the stage that stays empty
  head.advance();
}

/// 96 threads: zeros, of a padding sequence.
__device__ __forceinline__ void store_zero_gradients(const KernelParams& a, const ChunkItem& item,
                                                     int t) {
  const GatedDeltaParams& p = a.backward.forward;
  const int64_t stride = int64_t{p.num_key_heads} * p.key_head_dim,
                first = item.token0 * stride + item.key_head * p.key_head_dim;
  const int tokens = -item.valid, heads = p.value_heads_per_key_head, units = p.key_head_dim / 8;
  for (int i = t; i < tokens * units; i += kAuxiliaryThreads) {
    const int64_t at = first + i / units * stride + i % units * 8;
    *reinterpret_cast<uint4*>(static_cast<Token*>(a.backward.d_query) + at) =
        make_uint4(0, 0, 0, 0);
    *reinterpret_cast<uint4*>(static_cast<Token*>(a.backward.d_key) + at) = make_uint4(0, 0, 0, 0);
  }
  for (int i = t; i < tokens * heads; i += kAuxiliaryThreads)
    for (int slice = 0; slice < a.slices; slice++)
      *reinterpret_cast<float2*>(
          a.gate_gradients(item.token0 + i / heads, item.key_head * heads + i % heads, slice)) =
          make_float2(0.f, 0.f);
}

__device__ __forceinline__ void auxiliary_role(const KernelParams& a, uint32_t sm, int t) {
  RingCursor<Layout::Heads> head{};
  RingCursor<Layout::Parts> part{};
  uint32_t parity = 0;
#pragma unroll 1
  for (int number = 0;; number++) {
    const ChunkItem item = follow_item<Layout>(sm, number);
    if (item.slot < 0) return;
    if (item.valid < 0) {
      store_zero_gradients(a, item, t);
    } else {
      sum_gates(a, item, sm, t, head, part, parity);
    }
    __syncwarp();
  }
}

__device__ __forceinline__ void math_role(const KernelParams& a, uint32_t sm, int wg, int t) {
  Math math{a, sm, wg, t, t >> 5, t & 31};
  const GatedDeltaParams& p = a.backward.forward;
#pragma unroll 1
  for (int number = 0;; number++) {
    math.item = follow_item<Layout>(sm, number);
    if (math.item.slot < 0) return;
    if (math.item.valid < 0) continue;
    float sums[64];
#pragma unroll
    for (int i = 0; i < 64; i++) sums[i] = 0.f;
    RowPair inverse = {1.f, 1.f};  // lengths of the rows that the sums are the gradients of
    if (wg == 0) {
      math.sum_query(sums, inverse);
    } else if (wg == 1) {
      math.sum_key_of_updates(sums, inverse);
    } else {
      math.sum_key_of_values(sums);
    }
    // K and Q are asked for again as soon as every warpgroup has what it wants of them
    uint32_t rows[32] = {};
    if (wg < 2) math.load_rows_of(rows, sm + (wg == 0 ? Layout::kQuery : Layout::kKey));
    math.release(Layout::kTilesEmpty);
    math.head.await_full(sm);  // the stage that stays empty
    const uint32_t exchange = math.at(Layout::kExchange);
    if (wg == 0) {
      math.store_gradient(sums, p.scale, rows, inverse, math.at(Layout::kOfQueries),
                          a.backward.d_query);
    } else if (wg == 2) {
#pragma unroll
      for (int i = 0; i < 64; i++) store_shared(exchange + 512 * i + 4 * t, sums[i]);
      mbarrier_arrive(sm + Layout::kExchangeFull);
    } else {
      mbarrier_wait(sm + Layout::kExchangeFull, math.tiles_parity());
#pragma unroll
      for (int i = 0; i < 64; i++) sums[i] += load_shared<float>(exchange + 512 * i + 4 * t);
      named_barrier_sync(second_math, 128);
      math.store_gradient(sums, 1.f, rows, inverse, exchange, a.backward.d_key);
    }
    math.head.release(sm);
    math.head.advance();
    math.rounds ^= 2;
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    gradients_kernel(const __grid_constant__ CUtensorMap query_map,
                     const __grid_constant__ CUtensorMap key_map,
                     const __grid_constant__ CUtensorMap d_output_map,
                     const __grid_constant__ CUtensorMap d_value_map, const KernelParams a,
                     const int items) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const uint32_t sm = shared_address(shared);
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), wg = warp / 4, t = threadIdx.x % 128;
  if (threadIdx.x == 0) {
    mbarrier_init(sm + Layout::kTilesFull, 1);
    mbarrier_init(sm + Layout::kTilesEmpty, kMathThreads);  // those that read it
    mbarrier_init(sm + Layout::kStateFull, 1);
    mbarrier_init(sm + Layout::kStateEmpty, 128 + 128 + kAuxiliaryThreads);
    mbarrier_init(sm + Layout::kDStateFull, 1);
    mbarrier_init(sm + Layout::kDStateEmpty, 128 + kAuxiliaryThreads);
    mbarrier_init(sm + Layout::kRowsZeroed, kMathThreads);
    mbarrier_init(sm + Layout::kExchangeFull, 128);
    for (int i = 0; i < Layout::kStages; i++) {
      mbarrier_init(sm + Layout::kHeadFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kHeadEmpty + 8 * i, kMathThreads + kAuxiliaryThreads);
      mbarrier_init(sm + Layout::kPartsFull + 8 * i, kMathThreads);
      mbarrier_init(sm + Layout::kPartsEmpty + 8 * i, kAuxiliaryThreads);
    }
    for (int i = 0; i < Layout::kItemSlots; i++) {
      mbarrier_init(sm + Layout::kItemFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kItemEmpty + 8 * i, kMathThreads + kAuxiliaryThreads);
    }
    fence_mbarrier_init();
  }
  ColumnsBefore::store(sm + Layout::kColumnsBefore, threadIdx.x, kThreads);
  fence_async_proxy();
  __syncthreads();
  wait_for_prerequisites();
  launch_dependents();
  if (wg == 3) {
    registers_decrease<32>();
    if (warp == 12) {
      Loader{a, &query_map, &key_map, &d_output_map, &d_value_map, sm, t}.run(items);
    } else {
      auxiliary_role(a, sm, t - 32);
    }
  } else {
    registers_increase<160>();
    math_role(a, sm, wg, t);
  }
}

}  // namespace

void enqueue_gradients(const Launch& launch, cudaStream_t stream) {
  const TensorMaps& maps = launch.maps;
  const auto items = static_cast<int>(
      grid_blocks(launch.chunk_slots * launch.params.backward.forward.num_key_heads, launch.name));
  const auto blocks = static_cast<unsigned int>(std::min(items, launch.multiprocessors));
  launch_overlapping(gradients_kernel, blocks, kThreads, Layout::kBytes, stream, maps.query,
                     maps.key, maps.d_output, maps.d_value, launch.params, items);
}

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
