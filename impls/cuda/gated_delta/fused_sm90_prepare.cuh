// First kernel of fused_sm90. One warpgroup per (chunk, key head, group of value heads): K K^T and
// Q K^T once, then for each value head the scanned gates, T = (I + L)^-1 diag(beta) and P, left in
// memory as a record for the chain. Every chunk is independent; four blocks share a multiprocessor.
//
// The inverse runs 8 -> 16 -> 64: 8x8 diagonal blocks by substitution in float32, merged by float16
// products with float32 sums. Float16 serves while |L| stays near what unit keys give; a chunk with
// larger entries (keys longer than one and beta not small) is redone with operands split into two
// bfloat16 parts, which have float32's range and 16 bits. The choice is made per chunk on the
// device and depends on that chunk alone.
//
// Tokens past the end of a sequence are another sequence's, or whatever lies in memory. Their rows
// and columns of K K^T and Q K^T are replaced by zeros (selected, never multiplied), their beta is
// 0 and their decay 1.
#pragma once

#include "cuda/gated_delta/fused_sm90_common.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/shared_memory.cuh"

namespace gdn::cuda::fused_sm90 {

using namespace hopper;

inline constexpr float kLog2E = 1.4426950408889634f;
/// Log decay (base 2) at or below which the decay is exactly 0 in float32 with subnormals flushed.
/// Clamping -inf to it keeps every difference of cumulative sums finite.
inline constexpr float kFullReset = -130.f;
/// Largest beta |k|^2 for which merges are in float16. Unit keys rounded to 16 bits with beta <= 2
/// stay below it, and (1 + 0.0625)^64 bounds the growth of the inverse.
inline constexpr float kFloat16Limit = 2.0625f;

/// Shared memory of one block, bytes. The K and Q tiles [2 panels][64][64] at 0 and 16384 are
/// overlaid by T, P and scratch once their products are done.
struct PrepareLayout {
  static constexpr uint32_t kT = 0;     // packed triangle, as in the record
  static constexpr uint32_t kP = 5120;  // two of: packed triangle + factors, 5904
  static constexpr uint32_t kTail = kTriangleBytes + kFactorBytes;
  static constexpr uint32_t kLower1 = 17408;         // [64][72] 16-bit: L, then inverted diagonals
  static constexpr uint32_t kDiagonal = 26624;       // per warp: 16x16 float32 by columns of 20
  static constexpr uint32_t kLower0 = 32768;         // the other L buffer
  static constexpr uint32_t kInverseLength = 41984;  // [64] of K, [64] of Q, float32
  static constexpr uint32_t kKeySquares = 16960;     // [4] float32, between P and the L buffer
  static constexpr uint32_t kGates = 42496;          // per head: GateLayout
  static constexpr uint32_t kGateBytes = 2064;
  __host__ __device__ static constexpr uint32_t barriers(int heads) {
    return kGates + heads * kGateBytes;
  }
  __host__ __device__ static constexpr uint32_t bytes(int heads) { return barriers(heads) + 64; }
};

/// Gate factors of one chunk and head, 64 floats each, byte offsets. No exponent is ever positive.
struct GateLayout {
  static constexpr uint32_t kCumulative = 0;  // c_i: cumulative log2 decay
  static constexpr uint32_t kGamma = 256;     // 2^c_i
  static constexpr uint32_t kToEnd = 512;     // 2^(c_63 - c_i)
  static constexpr uint32_t kBeta = 768;
  static constexpr uint32_t kFromBlock = 1024;  // 2^(c_i - c at the end of the 16-block before i's)
  static constexpr uint32_t kToBlock = 1280;    // [b-1], b = 1..3: 2^(c_{16b-1} - c_j), j < 16b
  static constexpr uint32_t kLargestBeta = 2048;  // one float
};

/// log2 of the decay of one token and value head, at least kFullReset.
__device__ __forceinline__ float log2_decay(const GateParams& gates, int64_t token, int head) {
  return fmaxf(log_decay_of(gates, token, head) * kLog2E, kFullReset);
}

/// One warp: GateLayout of one head; lane l brings tokens 2l and 2l+1 of the chunk.
__device__ __forceinline__ void scan_gates(uint32_t gates, float x0, float x1, float beta0,
                                           float beta1, int lane) {
  float sum = x0 + x1;
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    const float y = __shfl_up_sync(~0u, sum, o);
    if (lane >= o) sum += y;
  }
  const float c0 = sum - x1, c1 = sum, end = __shfl_sync(~0u, sum, 31);
  const uint32_t p = gates + 8 * lane;
  store_shared(p + GateLayout::kCumulative, make_float2(c0, c1));
  store_shared(p + GateLayout::kGamma, make_float2(exp2_flush(c0), exp2_flush(c1)));
  store_shared(p + GateLayout::kToEnd,
               make_float2(exp2_flush(fminf(end - c0, 0.f)), exp2_flush(fminf(end - c1, 0.f))));
  store_shared(p + GateLayout::kBeta, make_float2(beta0, beta1));
  const uint32_t largest = __reduce_max_sync(~0u, __float_as_uint(fmaxf(fmaxf(beta0, beta1), 0.f)));
  if (lane == 0) store_shared(gates + GateLayout::kLargestBeta, largest);
  float before = __shfl_sync(~0u, sum, (lane & 24) ? (lane & 24) - 1 : 0);
  if (lane < 8) before = 0.f;
  store_shared(p + GateLayout::kFromBlock, make_float2(exp2_flush(fminf(c0 - before, 0.f)),
                                                       exp2_flush(fminf(c1 - before, 0.f))));
#pragma unroll
  for (int b = 1; b < 4; b++) {
    const float at = __shfl_sync(~0u, sum, 8 * b - 1);
    store_shared(p + GateLayout::kToBlock + 256 * (b - 1),
                 make_float2(exp2_flush(fminf(at - c0, 0.f)), exp2_flush(fminf(at - c1, 0.f))));
  }
}

/// Where a chunk slot lies. The whole warp searches, the last 31 candidates in one load.
struct SlotPlace {
  int sequence;   // the last one whose first chunk slot is <= the slot
  int64_t begin;  // its first token
  int64_t end;
};
__device__ __forceinline__ SlotPlace place_of_slot(const GatedDeltaParams& p, int64_t slot,
                                                   int lane) {
  int low = 0, high = p.num_sequences;  // the answer is in [low, high)
  while (high - low > 31) {
    const int step = (high - low + 31) / 32, n = low + (lane + 1) * step;
    const bool at_or_before =
        n < high && first_chunk_slot(__ldg(p.sequence_offsets + n), n) <= slot;
    const int passed = __popc(__ballot_sync(~0u, at_or_before));
    low += passed * step;
    high = min(high, low + step);
  }
  const int n = min(low + lane, p.num_sequences);
  const int64_t offset = __ldg(p.sequence_offsets + n);
  const bool at_or_before = low + lane < high && first_chunk_slot(offset, n) <= slot;
  const int last = __popc(__ballot_sync(~0u, at_or_before)) - 1;
  return {low + last, __shfl_sync(~0u, offset, last), __shfl_sync(~0u, offset, last + 1)};
}

/// Sequences by length, longest first (ties in order), and the work counters back to 0. Thread
/// per sequence; its rank is the number of sequences before it.
__device__ __forceinline__ void rank_sequences(const KernelArguments& a, int block) {
  const int n = block * 128 + threadIdx.x;
  if (n == 0) a.next_unit[0] = a.next_unit[1] = 0;
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

template <typename Token>
__global__ void __launch_bounds__(128, 4)
    prepare_kernel(const __grid_constant__ CUtensorMap query_map,
                   const __grid_constant__ CUtensorMap key_map, const KernelArguments a) {
  using Layout = PrepareLayout;
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const uint32_t sm = shared_address(shared), bar = sm + Layout::barriers(a.heads_per_block);
  const int t = threadIdx.x, w = __shfl_sync(~0u, t >> 5, 0);
  int l = t & 31;

  const int rank_blocks = (a.p.num_sequences + 127) / 128;
  if (blockIdx.x < rank_blocks) {
    rank_sequences(a, blockIdx.x);
    return;
  }
  // block -> (chunk slot, key head, group of value heads)
  const int group_size = a.p.value_heads_per_key_head;
  const int groups = (group_size + a.heads_per_block - 1) / a.heads_per_block;
  int rest = blockIdx.x - rank_blocks;
  const int group = rest % groups;
  rest /= groups;
  const int key_head = rest % a.p.num_key_heads;
  const int64_t slot = rest / a.p.num_key_heads;
  const SlotPlace place = place_of_slot(a.p, slot, l);
  const int64_t token0 =
      place.begin + (slot - first_chunk_slot(place.begin, place.sequence)) * kChunk;
  const int64_t left = place.end - token0;
  if (left <= 0 || (a.p.slot_index != nullptr && __ldg(a.p.slot_index + place.sequence) < 0))
    return;
  const int valid = left < kChunk ? static_cast<int>(left) : kChunk;
  const int first_head = key_head * group_size + group * a.heads_per_block;
  const int heads = min(a.heads_per_block, (key_head + 1) * group_size - first_head);

  if (t == 0) {
    mbarrier_init(bar, 1);
    mbarrier_init(bar + 8, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(bar, 16384);
    tensor_load(sm, &key_map, bar, 0, static_cast<int>(token0), 0, key_head);
    mbarrier_arrive_expect(bar + 8, 16384);
    tensor_load(sm + 16384, &query_map, bar + 8, 0, static_cast<int>(token0), 0, key_head);
  }
  __syncwarp();
  for (int h = w; h < heads; h += 4) {
    float x[2] = {0.f, 0.f}, b[2] = {0.f, 0.f};
#pragma unroll
    for (int e = 0; e < 2; e++)
      if (2 * l + e < valid) {
        x[e] = log2_decay(a.p.gates, token0 + 2 * l + e, first_head + h);
        b[e] = beta_of(a.p.gates, token0 + 2 * l + e, first_head + h);
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
  {  // inverse lengths: threads 0..63 rows of K, 64..127 rows of Q
    float inverse = 1.f;
    if (a.p.normalize_qk) {
      const int row = t & 63;
      float sum = 0.f;
#pragma unroll 4
      for (int i = 0; i < 16; i++) {
        const uint4 x = load_shared<uint4>(sm + (t >> 6) * 16384 + (i >> 3) * 8192 +
                                           swizzle_128(row, (i & 7) * 16));
        for (const uint32_t pair : {x.x, x.y, x.z, x.w}) {
          const float2 f = unpack<Token>(pair);
          sum += f.x * f.x + f.y * f.y;
        }
      }
      inverse = row < valid ? 1.f / sqrtf(sum + kNormEpsilon) : 0.f;
    }
    store_shared(sm + Layout::kInverseLength + 4 * t, inverse);
  }
  wgmma::wait<0>();
  wgmma::hold(kk);
  wgmma::hold(qk);
  __syncthreads();  // the K and Q tiles are scratch from here on

  if (a.p.normalize_qk || valid < kChunk) {
    const int row = 16 * w + (l >> 2);
    const uint32_t lengths = sm + Layout::kInverseLength;
    const float k0 = load_shared<float>(lengths + 4 * row),
                k1 = load_shared<float>(lengths + 4 * row + 32),
                q0 = load_shared<float>(lengths + 256 + 4 * row),
                q1 = load_shared<float>(lengths + 256 + 4 * row + 32);
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int column = 8 * j + 2 * (l & 3) + e;
        const float c = load_shared<float>(lengths + 4 * column);
        const bool in0 = row < valid && column < valid, in1 = row + 8 < valid && column < valid;
        kk[4 * j + e] = in0 ? kk[4 * j + e] * (k0 * c) : 0.f;
        kk[4 * j + 2 + e] = in1 ? kk[4 * j + 2 + e] * (k1 * c) : 0.f;
        qk[4 * j + e] = in0 ? qk[4 * j + e] * (q0 * c) : 0.f;
        qk[4 * j + 2 + e] = in1 ? qk[4 * j + 2 + e] * (q1 * c) : 0.f;
      }
  }

  {  // largest squared key length: the diagonal of K K^T, with some |k_i k_j| that cannot exceed it
    float square = 0.f;
#pragma unroll
    for (int jb = 0; jb < 4; jb++)
      if (jb == w)
#pragma unroll
        for (int e = 0; e < 8; e++) square = fmaxf(square, fabsf(kk[8 * jb + e]));
    const uint32_t largest = __reduce_max_sync(~0u, __float_as_uint(square));
    if (l == 0) store_shared(sm + Layout::kKeySquares + 4 * w, largest);
  }

  constexpr int kRow = 72;  // elements a row of the 16-bit tile: ldmatrix without bank conflicts
  uint8_t* record =
      a.records + (slot * a.p.num_value_heads + first_head) * static_cast<int64_t>(kRecordBytes);
#pragma unroll 1
  for (int h = 0; h < heads; h++, record += kRecordBytes) {
    asm volatile("" : "+r"(l));  // lane addresses are made anew for each head: hoisted, they spill
    const int gq = l >> 2, q = l & 3, matrix = l >> 3, rr = l & 7, r0 = 16 * w + gq;
    const uint32_t lower = sm + (h & 1 ? Layout::kLower1 : Layout::kLower0);
    const uint32_t other = sm + (h & 1 ? Layout::kLower0 : Layout::kLower1);
    const uint32_t diagonal = sm + Layout::kDiagonal + 1280 * w;  // (i, j) at 80 j + 4 i
    const uint32_t mine = (r0 * kRow + 2 * q) * 2;  // this thread's corner of block row w
    const uint32_t block = 32 * w * (kRow + 1);     // block (w, w)
    const uint32_t G = sm + Layout::kGates + h * Layout::kGateBytes, Gr = G + r0 * 4,
                   Gc = G + 8 * q, tail = sm + Layout::kP + (h & 1) * Layout::kTail;
    {  // factors of the record
      const int e = t & 63;
      const float k_inverse = load_shared<float>(sm + Layout::kInverseLength + 4 * e);
      const uint32_t factors = tail + kTriangleBytes + 4 * e;
      if (w < 2) {
        const float gamma = load_shared<float>(G + GateLayout::kGamma + 4 * e);
        store_shared(factors, gamma * k_inverse);
        store_shared(
            factors + 256,
            gamma * a.p.scale * load_shared<float>(sm + Layout::kInverseLength + 256 + 4 * e));
        if (e >= 56)
          store_shared(factors + 768 - 224, load_shared<float>(G + GateLayout::kGamma + 252));
      } else {
        store_shared(factors + 512, load_shared<float>(G + GateLayout::kToEnd + 4 * e) * k_inverse);
      }
    }
    const float b0 = load_shared<float>(Gr + GateLayout::kBeta),
                b1 = load_shared<float>(Gr + GateLayout::kBeta + 32);
    const float from0 = load_shared<float>(Gr + GateLayout::kFromBlock),
                from1 = load_shared<float>(Gr + GateLayout::kFromBlock + 32);
    const uint32_t Gf = Gc + GateLayout::kFromBlock + 256 * w;  // kToBlock of block w (w > 0)
    {
      const float c0 = load_shared<float>(Gr), c1 = load_shared<float>(Gr + 32);
      const float l0 = from0 * b0, l1 = from1 * b1, p0 = from0 * a.p.scale, p1 = from1 * a.p.scale;
      const uint32_t p_address =
          tail + (16 * w + (matrix & 1) * 8 + rr) * 32 + (((matrix >> 1) ^ (rr >> 2)) * 16);
#pragma unroll
      for (int jb = 0; jb < 4; jb++)
        if (jb < w) {
          uint32_t p[4];
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const int n = 4 * (2 * jb + e);
            const float2 f = load_shared<float2>(Gf + 32 * (2 * jb + e));
            const float x0 = kk[n] * l0 * f.x, x1 = kk[n + 1] * l0 * f.y, x2 = kk[n + 2] * l1 * f.x,
                        x3 = kk[n + 3] * l1 * f.y;
            store_shared(lower + mine + 32 * jb + 16 * e, pack<__half>(x0, x1));
            store_shared(lower + mine + 16 * kRow + 32 * jb + 16 * e, pack<__half>(x2, x3));
            p[2 * e] = pack<Token>(qk[n] * p0 * f.x, qk[n + 1] * p0 * f.y);
            p[2 * e + 1] = pack<Token>(qk[n + 2] * p1 * f.x, qk[n + 3] * p1 * f.y);
          }
          store_matrix_x4(p_address + triangle_slice(jb), p[0], p[1], p[2], p[3]);
        } else if (jb == w) {
          uint32_t p[4];
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const int n = 4 * (2 * jb + e), column = 8 * e + 2 * q;
            const float2 c = load_shared<float2>(Gc + 64 * jb + 32 * e);
            const float m0 = exp2_flush(c0 - c.x), m1 = exp2_flush(c0 - c.y),
                        m2 = exp2_flush(c1 - c.x), m3 = exp2_flush(c1 - c.y);
            const float x0 = kk[n] * b0, x1 = kk[n + 1] * b0, x2 = kk[n + 2] * b1,
                        x3 = kk[n + 3] * b1;
            const uint32_t d =
                diagonal + 80 * column + 4 * gq;  // on and above the diagonal: unused, may be inf
            store_shared(d, x0 * m0);
            store_shared(d + 80, x1 * m1);
            store_shared(d + 32, x2 * m2);
            store_shared(d + 112, x3 * m3);
            p[2 * e] = pack<Token>(column > gq ? 0.f : qk[n] * a.p.scale * m0,
                                   column + 1 > gq ? 0.f : qk[n + 1] * a.p.scale * m1);
            p[2 * e + 1] = pack<Token>(column > gq + 8 ? 0.f : qk[n + 2] * a.p.scale * m2,
                                       column + 1 > gq + 8 ? 0.f : qk[n + 3] * a.p.scale * m3);
          }
          store_matrix_x4(p_address + triangle_slice(jb), p[0], p[1], p[2], p[3]);
        }
    }
    __syncwarp();
    {  // two 8x8 diagonal blocks at once in float32 (8 lanes each), then the 8x8 below by a product
      float x[8];
      int column = l & 7;
      asm volatile("" : "+r"(column));  // or the start values are hoisted and spilled
      const uint32_t half = (l >> 3) & 1, D = diagonal + half * 672;
#pragma unroll
      for (int i = 0; i < 8; i++) x[i] = column == i ? 1.f : 0.f;
      const float e0 = load_shared<float>(diagonal + 160 * q + 32 + 4 * gq),
                  e1 = load_shared<float>(diagonal + 160 * q + 80 + 32 + 4 * gq);
#pragma unroll
      for (int j = 0; j < 7; j++)
#pragma unroll
        for (int i4 = 0; i4 < 2; i4++)
          if (i4 >= (j + 1) / 4) {
            const float4 e = load_shared<float4>(D + j * 80 + 16 * i4);
            if (4 * i4 + 0 > j) x[4 * i4 + 0] -= e.x * x[j];
            if (4 * i4 + 1 > j) x[4 * i4 + 1] -= e.y * x[j];
            if (4 * i4 + 2 > j) x[4 * i4 + 2] -= e.z * x[j];
            if (4 * i4 + 3 > j) x[4 * i4 + 3] -= e.w * x[j];
          }
      const uint32_t X = lower + block;
      if (l < 16) {
#pragma unroll
        for (int i = 0; i < 8; i++)
          store_shared(X + ((8 * half + i) * kRow + 8 * half + column) * 2, __float2half_rn(x[i]));
      } else if (l < 24) {
        store_shared(X + (column * kRow + 8) * 2, make_uint4(0, 0, 0, 0));
      }
      __syncwarp();
      const uint32_t upper_left = load_matrix_trans(X + column * kRow * 2),
                     lower_right = load_matrix(X + ((8 + column) * kRow + 8) * 2);
      float z[4] = {}, v[4] = {};
      mma_m8n8k8_f16(z, upper_left, pack<__half>(e0, e1));
      mma_m8n8k8_f16(v, pack<__half>(-z[0], -z[1]), lower_right);
      store_matrix_trans(X + (8 + column) * kRow * 2, pack<__half>(v[0], v[1]));
    }
    fence_async_proxy();
    if (l == 0) bulk_wait_read<0>();  // the previous head's T and P have left their buffers
    __syncthreads();
    // bounds |L| and, less 1, the norm of I - beta k k^T
    const float4 squares = load_shared<float4>(sm + Layout::kKeySquares);
    const float largest = load_shared<float>(G + GateLayout::kLargestBeta) *
                          fmaxf(fmaxf(squares.x, squares.y), fmaxf(squares.z, squares.w));
    const bool wide = !(largest <= kFloat16Limit);
    if (t == 0) {
      bulk_store(record + kTriangleBytes, tail, Layout::kTail);
      bulk_commit();
      if (a.transition_bound != nullptr)
        a.transition_bound[slot * a.p.num_value_heads + first_head + h] =
            load_shared<float>(G + GateLayout::kCumulative + 252) +
            kChunk * log2f(fmaxf(1.f, largest - 1.f));
    }
    __syncwarp();
    // Block column w of X = (I + L)^-1, transposed, so that accumulators are the next operands:
    // Y_m = (X_{w+m,w})^T = -(X_{w+m,w+m} sum_k L_{w+m,w+k} Y_k^T)^T. T = X diag(beta).
    const uint32_t t_address = sm + Layout::kT + triangle_slice(w) +
                               (16 * w + (matrix >> 1) * 8 + rr) * 32 +
                               (((matrix & 1) ^ (rr >> 2)) * 16);
    const uint32_t lane_block = block + (((matrix >> 1) * 8 + rr) * kRow + (matrix & 1) * 8) * 2;
    auto put_t = [&](int m, const float(&v)[2][4]) {
      store_matrix_x4_trans(t_address + 512 * m, pack<Token>(v[0][0] * b0, v[0][1] * b0),
                            pack<Token>(v[0][2] * b1, v[0][3] * b1),
                            pack<Token>(v[1][0] * b0, v[1][1] * b0),
                            pack<Token>(v[1][2] * b1, v[1][3] * b1));
    };
    if (!wide) {
      uint32_t y[4][4];
      load_matrix_x4_trans(lower + lane_block, y[0][0], y[0][1], y[0][2], y[0][3]);
      {
        float v[2][4];
#pragma unroll
        for (int n = 0; n < 4; n++) {
          const float2 f = unpack<__half>(y[0][n]);
          v[n >> 1][2 * (n & 1)] = f.x;
          v[n >> 1][2 * (n & 1) + 1] = f.y;
        }
        put_t(0, v);
      }
#pragma unroll
      for (int m = 1; m < 4; m++)
        if (w + m < 4) {
          float z[2][4] = {}, v[2][4] = {};
          uint32_t b[4][4], za[4];
#pragma unroll
          for (int k = 0; k <= m; k++)
            load_matrix_x4(lower + lane_block + (16 * m * kRow + 16 * k) * 2, b[k][0], b[k][1],
                           b[k][2], b[k][3]);
#pragma unroll
          for (int k = 0; k < m; k++) {
            mma_m16n8k16<__half>(z[0], y[k], b[k][0], b[k][1]);
            mma_m16n8k16<__half>(z[1], y[k], b[k][2], b[k][3]);
          }
#pragma unroll
          for (int n = 0; n < 4; n++)
            za[n] = pack<__half>(-z[n >> 1][2 * (n & 1)], -z[n >> 1][2 * (n & 1) + 1]);
          mma_m16n8k16<__half>(v[0], za, b[m][0], b[m][1]);
          mma_m16n8k16<__half>(v[1], za, b[m][2], b[m][3]);
#pragma unroll
          for (int n = 0; n < 4; n++)
            y[m][n] = pack<__half>(v[n >> 1][2 * (n & 1)], v[n >> 1][2 * (n & 1) + 1]);
          put_t(m, v);
        }
    } else {
      // The same with every operand in two bfloat16 parts: high in `lower`, low in `other`.
      // (The previous head's readers of `other` are past the barrier above.)
#pragma unroll
      for (int jb = 0; jb < 3; jb++)
        if (jb < w) {
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const int n = 4 * (2 * jb + e);
            const float2 f = load_shared<float2>(Gf + 32 * (2 * jb + e));
            uint32_t high, low;
            split_bfloat16(kk[n] * (from0 * b0) * f.x, kk[n + 1] * (from0 * b0) * f.y, high, low);
            store_shared(lower + mine + 32 * jb + 16 * e, high);
            store_shared(other + mine + 32 * jb + 16 * e, low);
            split_bfloat16(kk[n + 2] * (from1 * b1) * f.x, kk[n + 3] * (from1 * b1) * f.y, high,
                           low);
            store_shared(lower + mine + 16 * kRow + 32 * jb + 16 * e, high);
            store_shared(other + mine + 16 * kRow + 32 * jb + 16 * e, low);
          }
        }
      {  // 16x16 diagonal block by substitution, lane = column
        float x[16];
        int column = l & 15;
        asm volatile("" : "+r"(column));
#pragma unroll
        for (int i = 0; i < 16; i++) x[i] = column == i ? 1.f : 0.f;
#pragma unroll
        for (int j = 0; j < 15; j++)
#pragma unroll
          for (int i = j + 1; i < 16; i++)
            x[i] -= load_shared<float>(diagonal + 80 * j + 4 * i) * x[j];
        if (l < 16) {
#pragma unroll
          for (int i = 0; i < 16; i++) {
            const __nv_bfloat16 high = __float2bfloat16_rn(x[i]);
            store_shared(lower + block + (i * kRow + column) * 2, high);
            store_shared(other + block + (i * kRow + column) * 2,
                         __float2bfloat16_rn(x[i] - __bfloat162float(high)));
          }
        }
      }
      __syncthreads();
      auto product = [&](float(&d)[2][4], const uint32_t(&high)[4], const uint32_t(&low)[4],
                         uint32_t offset) {
        uint32_t bh[4], bl[4];
        load_matrix_x4(lower + offset, bh[0], bh[1], bh[2], bh[3]);
        load_matrix_x4(other + offset, bl[0], bl[1], bl[2], bl[3]);
#pragma unroll
        for (int n = 0; n < 2; n++) {
          mma_m16n8k16<__nv_bfloat16>(d[n], low, bh[2 * n], bh[2 * n + 1]);
          mma_m16n8k16<__nv_bfloat16>(d[n], high, bl[2 * n], bl[2 * n + 1]);
          mma_m16n8k16<__nv_bfloat16>(d[n], high, bh[2 * n], bh[2 * n + 1]);
        }
      };
      float z[4][2][4] = {};  // z_m = sum of L Y so far: each Y_k is used as soon as it is known
      uint32_t yh[4], yl[4];
      load_matrix_x4_trans(lower + lane_block, yh[0], yh[1], yh[2], yh[3]);
      load_matrix_x4_trans(other + lane_block, yl[0], yl[1], yl[2], yl[3]);
      {
        float v[2][4];
#pragma unroll
        for (int n = 0; n < 4; n++) {
          const float2 f = unpack<__nv_bfloat16>(yh[n]), g = unpack<__nv_bfloat16>(yl[n]);
          v[n >> 1][2 * (n & 1)] = f.x + g.x;
          v[n >> 1][2 * (n & 1) + 1] = f.y + g.y;
        }
        put_t(0, v);
      }
#pragma unroll
      for (int m = 1; m < 4; m++)
        if (w + m < 4) {
#pragma unroll
          for (int later = m; later < 4; later++)
            if (w + later < 4)
              product(z[later], yh, yl, lane_block + (16 * later * kRow + 16 * (m - 1)) * 2);
          float v[2][4] = {};
#pragma unroll
          for (int n = 0; n < 4; n++)
            split_bfloat16(-z[m][n >> 1][2 * (n & 1)], -z[m][n >> 1][2 * (n & 1) + 1], yh[n],
                           yl[n]);
          product(v, yh, yl, lane_block + (16 * m * kRow + 16 * m) * 2);
#pragma unroll
          for (int n = 0; n < 4; n++)
            split_bfloat16(v[n >> 1][2 * (n & 1)], v[n >> 1][2 * (n & 1) + 1], yh[n], yl[n]);
          put_t(m, v);
        }
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
  launch_dependents();
  if (l == 0) bulk_wait<0>();
}

}  // namespace gdn::cuda::fused_sm90
