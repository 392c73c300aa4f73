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
// Roles: three math warpgroups, the first has dQ, the second what of dK needs D and dP, the third what needs dV; the
// first warp of the fourth loads, its others make <D, S> and the gradients of the gates.
//
// Bound by: memory, S and D above all.
#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/chunk_sm90/gate_factors.cuh"
#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta/chunk_sm90/tile_rows.cuh"
#include "cuda/gated_delta/chunk_sm90/triangles.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/ring.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

using namespace hopper;

namespace {

using Token = __nv_bfloat16;

/// Shared memory of a block, bytes.
struct Layout {
  static constexpr int kStages = 2;
  static constexpr uint32_t kState = 0, kDState = kState + kStateBytes;  // S and D
  static constexpr uint32_t kKey = kDState + kStateBytes, kQuery = kKey + kTileBytes;
  // of a head, by stages
  static constexpr uint32_t kHeads = kQuery + kTileBytes;
  static constexpr uint32_t kDOutput = 0, kUpdate = kTileBytes, kDValue = 2 * kTileBytes,
                            kP = 3 * kTileBytes, kFactorsAt = kP + kTriangleTileBytes;
  static constexpr uint32_t kHeadBytes = (kFactorsAt + kFactorBytes + 1023) / 1024 * 1024;
  // the keys' products with each other, each thread's own 32, of 16 bits
  static constexpr uint32_t kKeyProducts = kHeads + kStages * kHeadBytes;
  // what the gates' gradients of a head are made of, float32
  static constexpr uint32_t kParts = kKeyProducts + 64 * 128;
  static constexpr uint32_t kOfQuery = 0, kOfDecayed = 256, kOfUpdate = 512, kDBeta = 768,
                            kCrossing = 1024;  // [2 warpgroups][4 warps][64]
  static constexpr uint32_t kPartBytes = kCrossing + 2 * 4 * 256;
  static constexpr uint32_t kStateProducts = kParts + kPartBytes;  // [4]: of each warp, <D, S>
  static constexpr uint32_t kBarriers = kStateProducts + 16;
  static constexpr uint32_t kTilesFull = kBarriers, kStateFull = kTilesFull + 8,
                            kStateEmpty = kStateFull + 8, kDStateFull = kStateEmpty + 8,
                            kDStateEmpty = kDStateFull + 8, kHeadFull = kDStateEmpty + 8,
                            kHeadEmpty = kHeadFull + 16, kPartsFull = kHeadEmpty + 16,
                            kPartsEmpty = kPartsFull + 8;
  static constexpr uint32_t kBytes = kPartsEmpty + 8;
  static_assert(kBytes <= 232448 && kBarriers % 8 == 0);
  // when all heads are done: the two parts of dK meet in the place of S, gradients leave from that of D
  static constexpr uint32_t kExchange = kState, kGradients = kDState;
  static_assert(64 * 128 * 4 <= kStateBytes && 2 * kTileBytes <= kStateBytes);

  using Heads = Ring<kStages, kHeads, kHeadBytes, kHeadFull, kHeadEmpty>;
};
constexpr int kMathThreads = 384, kThreads = kMathThreads + 128;
constexpr int kAuxiliaryThreads = 96;
/// Barriers of hardware; 0 is __syncthreads.
enum NamedBarrier : int {
  all_math = 1,
  auxiliary = 2,
  halves_of_key = 3,
  everyone = 4,
  first_math = 5
};

struct Block {
  int64_t slot, token0;
  int key_head, valid;
};

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
/// sums += a tile, tile K or Q [64 tokens x Dk]; waits.
__device__ __forceinline__ void add_product(float (&sums)[64], uint32_t (&a)[16], uint32_t tile) {
  wgmma::hold(a);
  wgmma::hold(sums);
  wgmma::registers_ready();
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n128_trans<Token>(sums, a + 4 * i,
                                         wgmma::mn_major_128(tile, kPanelBytes) + 128 * i);
  wgmma::commit();
  wgmma::wait<0>();
  wgmma::hold(sums);
  wgmma::hold(a);
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

/// Sums over i >= t > j of M_ij, of the warp's rows i, for every t: to the warp's to[64]. M is overwritten, its elements
/// on and above the diagonal are not read.
__device__ __forceinline__ void store_crossing_sums(uint32_t to, float (&M)[32], int w, int l) {
  const int row = 16 * w + (l >> 2), lane_column = 2 * (l & 3);
  RowPair before = {0.f, 0.f};  // of the columns up to this eight
#pragma unroll
  for (int j = 0; j < 8; j++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {  // the thread's two rows
      const int i = row + 8 * e;
      const float m0 = i > 8 * j + lane_column ? M[4 * j + 2 * e] : 0.f,
                  m1 = i > 8 * j + lane_column + 1 ? M[4 * j + 2 * e + 1] : 0.f;
      const float pair = m0 + m1;
      float up_to = pair;
#pragma unroll
      for (int o = 1; o < 4; o <<= 1) {
        const float y = __shfl_up_sync(~0u, up_to, o, 4);
        if ((l & 3) >= o) up_to += y;
      }
      float& sum = e == 0 ? before.x : before.y;
      const float start = sum + (up_to - pair);
      // exclusive, and only where the row is behind the column
      M[4 * j + 2 * e] = i >= 8 * j + lane_column ? start : 0.f;
      M[4 * j + 2 * e + 1] = i >= 8 * j + lane_column + 1 ? start + m0 : 0.f;
      sum += __shfl_sync(~0u, up_to, 3, 4);
    }
  }
#pragma unroll
  for (int j = 0; j < 8; j++) {
    float x = M[4 * j] + M[4 * j + 2], y = M[4 * j + 1] + M[4 * j + 3];
#pragma unroll
    for (int o = 4; o < 32; o <<= 1) {
      x += __shfl_xor_sync(~0u, x, o);
      y += __shfl_xor_sync(~0u, y, o);
    }
    if (l < 4) store_shared(to + 4 * (8 * j + lane_column), make_float2(x, y));
  }
}

/// Decays between the tokens of the thread's rows and of columns 8 j + 2 (l % 4) + e: 2^-|c_i - c_j|.
struct RowDecays {
  RowPair cumulative;
  uint32_t columns;  // the thread's, in shared memory

  __device__ __forceinline__ RowDecays(uint32_t factors, int w, int l)
      : cumulative(load_rows(factors + Factor::cumulative, w, l)),
        columns(factors + Factor::cumulative + 8 * (l & 3)) {}
  /// The four of accumulators 4 j .. 4 j + 3.
  __device__ __forceinline__ float4 of(int j) const {
    const float2 c = load_shared<float2>(columns + 32 * j);
    return {exp2_flush(-fabsf(cumulative.x - c.x)), exp2_flush(-fabsf(cumulative.x - c.y)),
            exp2_flush(-fabsf(cumulative.y - c.x)), exp2_flush(-fabsf(cumulative.y - c.y))};
  }
};

/// What a math warpgroup works with.
struct Math {
  const KernelParams& a;
  const Block& block;
  const uint32_t sm;
  const int wg, t, w, l;
  RingCursor<Layout::Heads> head{};
  uint32_t parity = 0;  // of what there is once: S, D, and the parts of the gates' gradients

  __device__ __forceinline__ uint32_t at(uint32_t what) const { return head.buffer(sm) + what; }
  __device__ __forceinline__ uint32_t factors() const { return at(Layout::kFactorsAt); }
  /// A place of the parts of the gates' gradients.
  __device__ __forceinline__ uint32_t part(uint32_t which) const {
    return sm + Layout::kParts + which;
  }
  /// Until those of the head before have been read.
  __device__ __forceinline__ void await_parts() const {
    mbarrier_wait(sm + Layout::kPartsEmpty, parity ^ 1);
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
    if (first) mbarrier_wait(sm + Layout::kTilesFull, 0);
    if (block.valid == kChunk) return;
    const auto zero_tile = [&](uint32_t tile) {
      zero_rows(tile, block.valid, t);
      zero_rows(tile + kPanelBytes, block.valid, t);
    };
    if (wg == 0) zero_tile(at(Layout::kDOutput));
    if (wg == 1) zero_tile(at(Layout::kDValue));
    if (wg == 2 && first) {
      zero_tile(sm + Layout::kKey);
      zero_tile(sm + Layout::kQuery);
    }
    fence_async_proxy();
    named_barrier_sync(all_math, kMathThreads);
  }
  __device__ __forceinline__ void release(uint32_t barrier) const {
    __syncwarp();
    if (l == 0) mbarrier_arrive(sm + barrier);
  }
  /// The warpgroup has done with the head, and its parts of the gates' gradients are stored.
  __device__ __forceinline__ void finish_head() {
    __syncwarp();
    if (l == 0) {
      mbarrier_arrive(sm + Layout::kPartsFull);
      head.release(sm);
    }
    head.advance();
    parity ^= 1;
  }

  /// sums = dQ / s of all heads, as of normalised queries.
  __device__ __forceinline__ void sum_query(float (&sums)[64]) {
    const uint32_t Q = sm + Layout::kQuery;
#pragma unroll 1
    for (int h = 0; h < a.backward.forward.value_heads_per_key_head; h++) {
      await_head(h);
      const RowPair gamma = load_rows(factors() + Factor::gamma, w, l);
      RowPair of_query = {0.f, 0.f};
      mbarrier_wait(sm + Layout::kStateFull, parity);
#pragma unroll
      for (int panel = 0; panel < 2; panel++) {
        float d[32];
        multiply_by_state(d, at(Layout::kDOutput), sm + Layout::kState + panel * kStatePanelBytes);
        wgmma::wait<0>();
        wgmma::hold(d);
        add_row_products(of_query, d, Q + panel * kPanelBytes, w, l);
#pragma unroll
        for (int i = 0; i < 32; i++)
          sums[32 * panel + i] = fmaf((i & 2) ? gamma.y : gamma.x, d[i], sums[32 * panel + i]);
      }
      release(Layout::kStateEmpty);
      await_parts();
      store_row_sums(part(Layout::kOfQuery),
                     of_query * load_rows(factors() + Factor::query_decayed, w, l), w, l);
      float d[32];
      multiply_rows(d, at(Layout::kDOutput), at(Layout::kUpdate));
      wgmma::wait<0>();
      wgmma::hold(d);
      uint32_t operand[16];
      const RowDecays decays(factors(), w, l);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 g = decays.of(j);
        const float2 f = column_factors(Factor::key_length, j);
        const bool in0 = row() >= column(j), in1 = row() >= column(j) + 1,
                   in2 = row() + 8 >= column(j), in3 = row() + 8 >= column(j) + 1;
        operand[2 * j] =
            pack<Token>(in0 ? g.x * f.x * d[4 * j] : 0.f, in1 ? g.y * f.y * d[4 * j + 1] : 0.f);
        operand[2 * j + 1] =
            pack<Token>(in2 ? g.z * f.x * d[4 * j + 2] : 0.f, in3 ? g.w * f.y * d[4 * j + 3] : 0.f);
      }
      add_product(sums, operand, sm + Layout::kKey);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float2 p = load_pair(at(Layout::kP), row(), j, l),
                     r = load_pair(at(Layout::kP), row() + 8, j, l);
        d[4 * j] *= p.x;
        d[4 * j + 1] *= p.y;
        d[4 * j + 2] *= r.x;
        d[4 * j + 3] *= r.y;
      }
      store_crossing_sums(part(Layout::kCrossing + 256 * w), d, w, l);
      finish_head();
    }
  }

  /// sums = the part of dK that is made of D, and of Q.
  __device__ __forceinline__ void sum_key_of_updates(float (&sums)[64]) {
    const uint32_t K = sm + Layout::kKey;
#pragma unroll 1
    for (int h = 0; h < a.backward.forward.value_heads_per_key_head; h++) {
      await_head(h);
      const RowPair to_end = decays_to_end();
      RowPair of_update = {0.f, 0.f};
      mbarrier_wait(sm + Layout::kDStateFull, parity);
#pragma unroll
      for (int panel = 0; panel < 2; panel++) {
        float d[32];
        multiply_by_state(d, at(Layout::kUpdate), sm + Layout::kDState + panel * kStatePanelBytes);
        wgmma::wait<0>();
        wgmma::hold(d);
        add_row_products(of_update, d, K + panel * kPanelBytes, w, l);
#pragma unroll
        for (int i = 0; i < 32; i++)
          sums[32 * panel + i] = fmaf((i & 2) ? to_end.y : to_end.x, d[i], sums[32 * panel + i]);
      }
      release(Layout::kDStateEmpty);
      await_parts();
      store_row_sums(part(Layout::kOfUpdate),
                     of_update * load_rows(factors() + Factor::key_update, w, l), w, l);
      float d[32];
      multiply_rows(d, at(Layout::kUpdate), at(Layout::kDOutput));
      wgmma::wait<0>();
      wgmma::hold(d);
      uint32_t operand[16];
      const RowDecays decays(factors(), w, l);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 g = decays.of(j);
        const float2 f = column_factors(Factor::query_scale, j);
        const bool in0 = row() <= column(j), in1 = row() <= column(j) + 1,
                   in2 = row() + 8 <= column(j), in3 = row() + 8 <= column(j) + 1;
        operand[2 * j] =
            pack<Token>(in0 ? g.x * f.x * d[4 * j] : 0.f, in1 ? g.y * f.y * d[4 * j + 1] : 0.f);
        operand[2 * j + 1] =
            pack<Token>(in2 ? g.z * f.x * d[4 * j + 2] : 0.f, in3 ? g.w * f.y * d[4 * j + 3] : 0.f);
      }
      add_product(sums, operand, sm + Layout::kQuery);
      finish_head();
    }
  }

  /// sums = the part of dK that is made of dV.
  __device__ __forceinline__ void sum_key_of_values(float (&sums)[64]) {
    const uint32_t K = sm + Layout::kKey, products = sm + Layout::kKeyProducts + 4 * t;
#pragma unroll 1
    for (int h = 0; h < a.backward.forward.value_heads_per_key_head; h++) {
      await_head(h);
      if (h == 0) {
        float kk[32];
        multiply_rows(kk, K, K);
        wgmma::wait<0>();
        wgmma::hold(kk);
#pragma unroll
        for (int i = 0; i < 16; i++)
          store_shared(products + 512 * i, pack<Token>(kk[2 * i], kk[2 * i + 1]));
      }
      float d[32];
      uint32_t operand[16];  // N + N^T times the columns' 1 / |k|
      const RowDecays decays(factors(), w, l);
      multiply_rows(d, at(Layout::kUpdate), at(Layout::kDValue));
      wgmma::wait<0>();
      wgmma::hold(d);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 g = decays.of(j);
        const float2 f = column_factors(Factor::key_length, j);
        operand[2 * j] = pack<Token>(row() < column(j) ? -g.x * f.x * d[4 * j] : 0.f,
                                     row() < column(j) + 1 ? -g.y * f.y * d[4 * j + 1] : 0.f);
        operand[2 * j + 1] =
            pack<Token>(row() + 8 < column(j) ? -g.z * f.x * d[4 * j + 2] : 0.f,
                        row() + 8 < column(j) + 1 ? -g.w * f.y * d[4 * j + 3] : 0.f);
      }
      multiply_rows(d, at(Layout::kDValue), at(Layout::kUpdate));
      wgmma::wait<0>();
      wgmma::hold(d);
      await_parts();
      const RowPair beta = load_rows(factors() + Factor::beta, w, l);
#pragma unroll
      for (int j = 0; j < 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {  // d_beta, of the diagonal
          const int i = row() + 8 * (e >> 1);
          if (i != column(j) + (e & 1)) continue;
          const float b = (e & 2) ? beta.y : beta.x;
          store_shared(part(Layout::kDBeta + 4 * i), d[4 * j + e] / b / b);
        }
      const RowPair key = load_rows(factors() + Factor::key_length, w, l);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 g = decays.of(j);
        const float2 f = column_factors(Factor::key_length, j);
        d[4 * j] = row() > column(j) ? -g.x * f.x * d[4 * j] : 0.f;
        d[4 * j + 1] = row() > column(j) + 1 ? -g.y * f.y * d[4 * j + 1] : 0.f;
        d[4 * j + 2] = row() + 8 > column(j) ? -g.z * f.x * d[4 * j + 2] : 0.f;
        d[4 * j + 3] = row() + 8 > column(j) + 1 ? -g.w * f.y * d[4 * j + 3] : 0.f;
        // the other triangle's are zeros here
        operand[2 * j] |= pack<Token>(d[4 * j], d[4 * j + 1]);
        operand[2 * j + 1] |= pack<Token>(d[4 * j + 2], d[4 * j + 3]);
        const float2 kk0 = unpack<Token>(load_shared<uint32_t>(products + 1024 * j)),
                     kk1 = unpack<Token>(load_shared<uint32_t>(products + 1024 * j + 512));
        d[4 * j] *= key.x * kk0.x;
        d[4 * j + 1] *= key.x * kk0.y;
        d[4 * j + 2] *= key.y * kk1.x;
        d[4 * j + 3] *= key.y * kk1.y;
      }
      store_crossing_sums(part(Layout::kCrossing + 1024 + 256 * w), d, w, l);
      add_product(sums, operand, K);
      const RowPair gamma = load_rows(factors() + Factor::gamma, w, l);
      RowPair of_decayed = {0.f, 0.f};
      mbarrier_wait(sm + Layout::kStateFull, parity);
#pragma unroll
      for (int panel = 0; panel < 2; panel++) {
        float d[32];
        multiply_by_state(d, at(Layout::kDValue), sm + Layout::kState + panel * kStatePanelBytes);
        wgmma::wait<0>();
        wgmma::hold(d);
        add_row_products(of_decayed, d, K + panel * kPanelBytes, w, l);
#pragma unroll
        for (int i = 0; i < 32; i++)
          sums[32 * panel + i] = fmaf((i & 2) ? -gamma.y : -gamma.x, d[i], sums[32 * panel + i]);
      }
      release(Layout::kStateEmpty);
      const RowPair decayed = load_rows(factors() + Factor::key_decayed, w, l);
      store_row_sums(part(Layout::kOfDecayed), of_decayed * RowPair{-decayed.x, -decayed.y}, w, l);
      finish_head();
    }
  }

  /// From the gradient of rows of length one to that of the rows x as they are, where the call normalises; and to
  /// memory. `staged`: the warpgroup's own buffer of kTileBytes.
  __device__ __forceinline__ void store_gradient(float (&sums)[64], float scale, uint32_t tile,
                                                 RowPair inverse, uint32_t staged, void* to) {
    if (a.backward.forward.normalize_qk) {
      RowPair along = {0.f, 0.f};
#pragma unroll
      for (int panel = 0; panel < 2; panel++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
          const float2 x = load_pair(tile + panel * kPanelBytes, row(), j, l),
                       y = load_pair(tile + panel * kPanelBytes, row() + 8, j, l);
          const int i = 32 * panel + 4 * j;
          along.x = fmaf(x.x, sums[i], fmaf(x.y, sums[i + 1], along.x));
          along.y = fmaf(y.x, sums[i + 2], fmaf(y.y, sums[i + 3], along.y));
        }
      along = {quad_sum(along.x), quad_sum(along.y)};
      const RowPair back = along * inverse * inverse;
      constexpr float kOfZeros =
          1000;  // 1 / sqrt(kNormEpsilon): a row of zeros has no length of its own
      inverse = {inverse.x > 0.f ? inverse.x : kOfZeros, inverse.y > 0.f ? inverse.y : kOfZeros};
#pragma unroll
      for (int panel = 0; panel < 2; panel++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
          const float2 x = load_pair(tile + panel * kPanelBytes, row(), j, l),
                       y = load_pair(tile + panel * kPanelBytes, row() + 8, j, l);
          const int i = 32 * panel + 4 * j;
          sums[i] = inverse.x * fmaf(-back.x, x.x, sums[i]);
          sums[i + 1] = inverse.x * fmaf(-back.x, x.y, sums[i + 1]);
          sums[i + 2] = inverse.y * fmaf(-back.y, y.x, sums[i + 2]);
          sums[i + 3] = inverse.y * fmaf(-back.y, y.y, sums[i + 3]);
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
    const int64_t stride = int64_t{a.backward.forward.num_key_heads} * kKeyDim;
    Token* const rows = static_cast<Token*>(to) + block.token0 * stride + block.key_head * kKeyDim;
#pragma unroll 1
    for (int i = l; i < 16 * 16; i += 32) {  // the warp's own rows
      const int r = 16 * w + i / 16, unit = i % 16;
      if (r >= block.valid) break;
      *reinterpret_cast<uint4*>(rows + r * stride + 8 * unit) =
          load_shared<uint4>(staged + unit / 8 * kPanelBytes + swizzle_128(r, unit % 8 * 16));
    }
  }
};

/// One thread: K and Q, and every head's operands.
__device__ __forceinline__ void load_heads(const KernelParams& a, const Block& block, uint32_t sm,
                                           const CUtensorMap* query_map, const CUtensorMap* key_map,
                                           const CUtensorMap* d_output_map,
                                           const CUtensorMap* d_value_map) {
  const GatedDeltaParams& p = a.backward.forward;
  const int token = static_cast<int>(block.token0);
  const uint32_t tiles = sm + Layout::kTilesFull;
  RingCursor<Layout::Heads> head{};
  uint32_t parity = 1;
  for (int h = 0; h < p.value_heads_per_key_head; h++) {
    const int value_head = block.key_head * p.value_heads_per_key_head + h;
    const int64_t index = block.slot * p.num_value_heads + value_head;
    head.await_empty(sm);
    head.expect(sm, 3 * kTileBytes + kTriangleTileBytes + kFactorBytes);
    const uint32_t to = head.buffer(sm), full = head.full(sm);
    const uint8_t* const record = a.work.records + index * kRecordBytes;
    bulk_load(to + Layout::kFactorsAt, record + kFactors, kFactorBytes, full);
    tensor_load(to + Layout::kDOutput, d_output_map, full, 0, token, 0, value_head);
    bulk_load(to + Layout::kUpdate, a.work.updates + index * kTileBytes, kTileBytes, full);
    tensor_load(to + Layout::kDValue, d_value_map, full, 0, token, 0, value_head);
    bulk_load(to + Layout::kP, record + kP, kTriangleTileBytes, full);
    if (h == 0) {
      mbarrier_arrive_expect(tiles, 2 * kTileBytes);
      tensor_load(sm + Layout::kKey, key_map, tiles, 0, token, 0, block.key_head);
      tensor_load(sm + Layout::kQuery, query_map, tiles, 0, token, 0, block.key_head);
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
  }
}

/// 96 threads: of every head <D, S>, and the gradients of its gates and betas.
__device__ __forceinline__ void sum_gates(const KernelParams& a, const Block& block, uint32_t sm,
                                          int t) {
  const GatedDeltaParams& p = a.backward.forward;
  const int warp = t / 32, lane = t % 32;
  RingCursor<Layout::Heads> head{};
  uint32_t parity = 0;
#pragma unroll 1
  for (int h = 0; h < p.value_heads_per_key_head; h++) {
    const int value_head = block.key_head * p.value_heads_per_key_head + h;
    const uint32_t parts = sm + Layout::kParts, factors = head.buffer(sm) + Layout::kFactorsAt,
                   products = sm + Layout::kStateProducts;
    mbarrier_wait(sm + Layout::kStateFull, parity);
    mbarrier_wait(sm + Layout::kDStateFull, parity);
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
    if (lane == 0) {
      mbarrier_arrive(sm + Layout::kStateEmpty);
      mbarrier_arrive(sm + Layout::kDStateEmpty);
      store_shared(products + 4 * warp, sum);
    }
    mbarrier_wait(sm + Layout::kPartsFull, parity);
    head.await_full(sm);
    named_barrier_sync(auxiliary, kAuxiliaryThreads);  // every warp's part of <D, S>
    if (t < block.valid) {
      float d_gate = load_shared<float>(factors + Factor::gamma + kLastToken) *
                     (load_shared<float>(products) + load_shared<float>(products + 4) +
                      load_shared<float>(products + 8));
#pragma unroll 4
      for (int i = 0; i < kChunk; i++) {
        const uint32_t at = parts + 4 * i;
        d_gate += i >= t ? load_shared<float>(at + Layout::kOfQuery) +
                               load_shared<float>(at + Layout::kOfDecayed)
                         : load_shared<float>(at + Layout::kOfUpdate);
      }
#pragma unroll
      for (uint32_t i = 0; i < 8; i++)
        d_gate += load_shared<float>(parts + Layout::kCrossing + 256 * i + 4 * t);
      float* const to = a.work.d_gates + 2 * ((block.token0 + t) * p.num_value_heads + value_head);
      *reinterpret_cast<float2*>(to) =
          make_float2(d_gate, load_shared<float>(parts + Layout::kDBeta + 4 * t));
    }
    named_barrier_sync(auxiliary, kAuxiliaryThreads);  // <D, S> has been read
    if (lane == 0) {
      mbarrier_arrive(sm + Layout::kPartsEmpty);
      head.release(sm);
    }
    head.advance();
    parity ^= 1;
  }
}

/// Zeros, of a padding sequence.
__device__ __forceinline__ void store_zero_gradients(const KernelParams& a, const Block& block) {
  const GatedDeltaParams& p = a.backward.forward;
  const int64_t stride = int64_t{p.num_key_heads} * kKeyDim,
                first = block.token0 * stride + block.key_head * kKeyDim;
  for (int i = threadIdx.x; i < block.valid * (kKeyDim / 8); i += kThreads) {
    const int64_t at = first + i / 16 * stride + i % 16 * 8;
    *reinterpret_cast<uint4*>(static_cast<Token*>(a.backward.d_query) + at) =
        make_uint4(0, 0, 0, 0);
    *reinterpret_cast<uint4*>(static_cast<Token*>(a.backward.d_key) + at) = make_uint4(0, 0, 0, 0);
  }
  const int heads = p.value_heads_per_key_head;
  for (int i = threadIdx.x; i < block.valid * heads; i += kThreads) {
    float* const to = a.work.d_gates + 2 * ((block.token0 + i / heads) * p.num_value_heads +
                                            block.key_head * heads + i % heads);
    *reinterpret_cast<float2*>(to) = make_float2(0.f, 0.f);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    gradients_kernel(const __grid_constant__ CUtensorMap query_map,
                     const __grid_constant__ CUtensorMap key_map,
                     const __grid_constant__ CUtensorMap d_output_map,
                     const __grid_constant__ CUtensorMap d_value_map, const KernelParams a) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const uint32_t sm = shared_address(shared);
  const GatedDeltaParams& p = a.backward.forward;
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), wg = warp / 4, t = threadIdx.x % 128;
  Block block;
  block.key_head = static_cast<int>(blockIdx.x) % p.num_key_heads;
  block.slot = static_cast<int>(blockIdx.x) / p.num_key_heads;
  const SlotPlace place = place_of_slot(p, block.slot, t & 31, first_chunk_slot);
  block.token0 =
      place.begin + (block.slot - first_chunk_slot(place.begin, place.sequence)) * kChunk;
  if (block.token0 >= place.end) return;  // a slot past the sequence's last chunk
  block.valid =
      static_cast<int>(place.end - block.token0 < kChunk ? place.end - block.token0 : kChunk);
  if (p.slot_index && __ldg(p.slot_index.word(place.sequence)) < 0) {
    store_zero_gradients(a, block);
    return;
  }
  if (threadIdx.x == 0) {
    mbarrier_init(sm + Layout::kTilesFull, 1);
    mbarrier_init(sm + Layout::kStateFull, 1);
    mbarrier_init(sm + Layout::kStateEmpty, 4 + 4 + 3);  // warps that read it
    mbarrier_init(sm + Layout::kDStateFull, 1);
    mbarrier_init(sm + Layout::kDStateEmpty, 4 + 3);
    for (int i = 0; i < Layout::kStages; i++) {
      mbarrier_init(sm + Layout::kHeadFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kHeadEmpty + 8 * i, 12 + 3);
    }
    mbarrier_init(sm + Layout::kPartsFull, 12);
    mbarrier_init(sm + Layout::kPartsEmpty, 3);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (wg == 3) {
    registers_decrease<32>();
    if (warp == 12) {
      if (t == 0) load_heads(a, block, sm, &query_map, &key_map, &d_output_map, &d_value_map);
      return;
    }
    sum_gates(a, block, sm, t - 32);
    named_barrier_sync(everyone, kMathThreads + kAuxiliaryThreads);  // S and D have been read
    return;
  }
  registers_increase<160>();
  Math math{a, block, sm, wg, t, t >> 5, t & 31};
  float sums[64];
#pragma unroll
  for (int i = 0; i < 64; i++) sums[i] = 0.f;
  const uint32_t first_factors = sm + Layout::kHeads + Layout::kFactorsAt;
  if (wg == 0) {
    math.sum_query(sums);
  } else if (wg == 1) {
    math.sum_key_of_updates(sums);
  } else {
    math.sum_key_of_values(sums);
  }
  named_barrier_sync(everyone, kMathThreads + kAuxiliaryThreads);
  const uint32_t exchange = sm + Layout::kExchange + 4 * t;
  if (wg == 0) {
    math.store_gradient(sums, p.scale, sm + Layout::kQuery,
                        load_rows(first_factors + Factor::query_length, math.w, math.l),
                        sm + Layout::kGradients, a.backward.d_query);
  } else if (wg == 2) {
#pragma unroll
    for (int i = 0; i < 64; i++) store_shared(exchange + 512 * i, sums[i]);
    named_barrier_sync(halves_of_key, 256);
  } else {
    named_barrier_sync(halves_of_key, 256);
#pragma unroll
    for (int i = 0; i < 64; i++) sums[i] += load_shared<float>(exchange + 512 * i);
    math.store_gradient(sums, 1.f, sm + Layout::kKey,
                        load_rows(first_factors + Factor::key_length, math.w, math.l),
                        sm + Layout::kGradients + kTileBytes, a.backward.d_key);
  }
}

}  // namespace

void enqueue_gradients(const Launch& launch, cudaStream_t stream) {
  allow_shared_memory(gradients_kernel, Layout::kBytes);
  const TensorMaps& maps = launch.maps;
  const unsigned int blocks =
      grid_blocks(launch.chunk_slots * launch.params.backward.forward.num_key_heads, launch.name);
  launch_kernel(gradients_kernel, blocks, kThreads, Layout::kBytes, stream, maps.query, maps.key,
                maps.d_output, maps.d_value, launch.params);
}

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
