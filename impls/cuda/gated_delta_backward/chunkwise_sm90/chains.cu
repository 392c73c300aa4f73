// Second kernel of cuda/chunkwise_sm90 of gated_delta_backward: the two chains over the chunks of a sequence and value
// head. They are mirrors of each other, and neither needs the other:
//
//     forwards    V' = T (beta (V - gamma K S));              S <- gamma_C S + K^T (gamma_C / gamma) V'
//     backwards   dV' = (gamma_C / gamma) K D + P^T dO;       Y = T^T dV';  dV = beta Y
//                 D <- gamma_C D + Q^T (scale gamma dO) - K^T (gamma beta Y)
//
// A block is one chain, or the half of one for 64 columns of V. One or two math warpgroups own 64 columns each and hold
// the state in registers, transposed [64 columns of V x Dk]; a further warp loads. For the gradients every chunk leaves
// S at its start or D at its end, and V', in bfloat16 and as products read them (record.h); dV goes where the caller
// wants it.
//
// Tokens past the end of a sequence: rows of K, Q, V and dO are zeroed in shared memory before their first use, T, P and
// factors carry zeros there, and rows of dV are not stored.
//
// Bound by: memory where there are many heads, 165 KB a chunk and value head, of which S, D, V' and dV are 96; else the
// dependent products of a chunk. Reached, H200, 16/32 heads: 0.82 ms of 4x8192 tokens, 1.02 of 1x32768 (log.md).
#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/chunk_sm90/panel_math.cuh"
#include "cuda/gated_delta/chunk_sm90/pool_state.cuh"
#include "cuda/gated_delta/chunk_sm90/tile_rows.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
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

/// MathWarpgroups 2: a block does all of V; 1: 64 columns of it.
template <int MathWarpgroups>
struct ChainLayout {
  static constexpr int kThreads = 128 * (MathWarpgroups + 1);
  static constexpr int kTileStages = 3, kValueStages = 2;
  static constexpr uint32_t kRecord = 2 * kTileBytes;  // behind K and Q
  static constexpr uint32_t kTilesBytes = (kRecord + kRecordBytes + 1023) / 1024 * 1024;
  static constexpr uint32_t kValueBytes =
      MathWarpgroups * kPanelBytes;  // V or dO; V' or dV in place
  static constexpr uint32_t kTiles = 0, kValues = kTiles + kTileStages * kTilesBytes,
                            kStates = kValues + kValueStages * kValueBytes,
                            kBarriers = kStates + MathWarpgroups * kTileBytes;
  static constexpr uint32_t kTilesFull = kBarriers, kTilesEmpty = kTilesFull + 32,
                            kValuesFull = kTilesEmpty + 32, kValuesEmpty = kValuesFull + 32;
  static constexpr uint32_t kBytes = kValuesEmpty + 32 + 1024;  // 1024: to align tiles
  static_assert(kBytes <= 232448);

  using Tiles = Ring<kTileStages, kTiles, kTilesBytes, kTilesFull, kTilesEmpty>;
  using Values = Ring<kValueStages, kValues, kValueBytes, kValuesFull, kValuesEmpty>;
};
/// Barriers of hardware; 0 is __syncthreads.
enum NamedBarrier : int { all_math = 1, first_math };

/// A chain, or the half of one.
struct Chain {
  bool backwards;
  int head, panel;  // first 64-column panel of V
  int sequence;
  int64_t row;
  int64_t first_token, tokens, first_slot;
  int chunks;
};

/// Where this lane's rows lie in a state's image [2 panels of Dk][64 rows][64] for k16 step i of the operand.
__device__ __forceinline__ uint32_t image_lane(uint32_t image, int w, int l, int i) {
  const int matrix = l >> 3, row = 16 * w + (matrix & 1) * 8 + (l & 7);
  return image + (i >> 2) * kPanelBytes + swizzle_128(row, 32 * (i & 3) + 16 * (matrix >> 1));
}
__device__ __forceinline__ void store_image(uint32_t image, const uint32_t (&s)[32], int w, int l) {
#pragma unroll
  for (int i = 0; i < 8; i++)
    store_matrix_x4(image_lane(image, w, l, i), s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
}

/// d = (d +) a tile, tile [64][64] with the reduction by rows.
__device__ __forceinline__ void multiply_by_rows(float (&d)[32], const uint32_t (&a)[16],
                                                 uint32_t tile) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n64_trans<Token>(d, a + 4 * i,
                                        wgmma::mn_major_128(tile, kPanelBytes) + 128 * i, i > 0);
  wgmma::commit();
}
/// d = a tile^T.
__device__ __forceinline__ void multiply_by_columns(float (&d)[32], const uint32_t (&a)[16],
                                                    uint32_t tile) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n64<Token>(d, a + 4 * i, wgmma::k_major_128(tile) + 2 * i, i > 0);
  wgmma::commit();
}

/// a = factors a, of an operand [64 columns of V x 64 tokens].
__device__ __forceinline__ void scale_operand(uint32_t (&to)[16], const uint32_t (&a)[16],
                                              FactorsInMemory factors) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 f = factors[j], x = unpack<Token>(a[2 * j]), y = unpack<Token>(a[2 * j + 1]);
    to[2 * j] = pack<Token>(f.x * x.x, f.y * x.y);
    to[2 * j + 1] = pack<Token>(f.x * y.x, f.y * y.y);
  }
}

/// What a math warpgroup of a chain works with.
template <int MathWarpgroups>
struct ChainMath {
  using Layout = ChainLayout<MathWarpgroups>;

  const KernelParams& a;
  const Chain& chain;
  const uint32_t sm;
  const int wg, t, w, l;
  const bool leader;
  RingCursor<typename Layout::Tiles> tiles{};
  RingCursor<typename Layout::Values> values{};

  __device__ ChainMath(const KernelParams& a, const Chain& chain, uint32_t sm, int wg, int t)
      : a(a), chain(chain), sm(sm), wg(wg), t(t), w(t >> 5), l(t & 31), leader(t == 0) {}

  __device__ __forceinline__ int panel() const { return chain.panel + wg; }
  __device__ __forceinline__ uint32_t key() const { return tiles.buffer(sm); }
  __device__ __forceinline__ uint32_t query() const { return tiles.buffer(sm) + kTileBytes; }
  __device__ __forceinline__ uint32_t record() const { return tiles.buffer(sm) + Layout::kRecord; }
  __device__ __forceinline__ uint32_t rows() const { return values.buffer(sm) + wg * kPanelBytes; }
  __device__ __forceinline__ uint32_t image() const {
    return sm + Layout::kStates + wg * kTileBytes;
  }
  __device__ __forceinline__ FactorsInMemory factors(Factor which) const {
    return {record() + kFactors + which + 8 * (l & 3)};
  }
  __device__ __forceinline__ void meet() const { named_barrier_sync(first_math + wg, 128); }
  __device__ __forceinline__ int64_t chunk_head(int chunk) const {
    return (chain.first_slot + chunk) * a.backward.forward.num_value_heads + chain.head;
  }

  /// Until the chunk's operands are there, with zeros in rows past the sequence's end.
  __device__ __forceinline__ void await_chunk(int valid) {
    tiles.await_full(sm);
    values.await_full(sm);
    if (valid < kChunk) [[unlikely]] {
      zero_own_columns(rows(), valid, t);
      for (int panel = wg; panel < 4; panel += MathWarpgroups)  // of K, then of Q
        if (panel < 2 || chain.backwards) zero_rows(key() + panel * kPanelBytes, valid, t);
      fence_async_proxy();
      named_barrier_sync(all_math, 128 * MathWarpgroups);
    }
  }
  /// The state's operand copy to memory, [2 panels of Dk][Dv][64]. Its buffer is free: the copy of the chunk before was
  /// waited for in keep_values(). The buffer of that chunk's values is given back here, whose copy has had time.
  __device__ __forceinline__ void keep_state(const uint32_t (&operand)[32], uint8_t* states,
                                             int chunk, bool first) {
    store_image(image(), operand, w, l);
    fence_async_proxy();
    meet();
    if (leader) {
      uint8_t* const to = states + chunk_head(chunk) * kStateBytes + panel() * kPanelBytes;
      bulk_store(to, image(), kPanelBytes);
      bulk_store(to + kStatePanelBytes, image() + kPanelBytes, kPanelBytes);
      bulk_commit();
      if (!first) {
        bulk_wait_read<1>();
        auto before = values;
        before.index = (values.index + Layout::kValueStages - 1) % Layout::kValueStages;
        before.release(sm);
      }
    }
    __syncwarp();
  }
  /// What has taken the place of the values goes to memory by `copy`, of the leader.
  template <typename Copy>
  __device__ __forceinline__ void keep_values(const Copy& copy) {
    fence_async_proxy();
    if (leader) bulk_wait_read<0>();
    meet();
    if (leader) {
      copy();
      bulk_commit();
    }
    __syncwarp();
  }
  __device__ __forceinline__ void release_tiles() {
    __syncwarp();
    if (l == 0) tiles.release(sm);
    tiles.advance();
    values.advance();
  }
  __device__ __forceinline__ void scale_state(float (&S)[64]) const {
    const float end = load_shared<float>(record() + kFactors + Factor::gamma + kLastToken);
#pragma unroll
    for (int i = 0; i < 64; i++) S[i] *= end;
    wgmma::hold(S);
  }
  __device__ __forceinline__ int valid_of(int chunk) const {
    const int64_t left = chain.tokens - int64_t{chunk} * kChunk;
    return left < kChunk ? static_cast<int>(left) : kChunk;
  }

  __device__ void run_forwards();
  __device__ void run_backwards(const CUtensorMap* d_value_map);
};

template <int MathWarpgroups>
__device__ __forceinline__ void ChainMath<MathWarpgroups>::run_forwards() {
  float S[64], d[32], x[32];
  uint32_t operand[32], v[16], u[16];
#pragma unroll
  for (int i = 0; i < 64; i++) S[i] = 0.f;
#pragma unroll
  for (int i = 0; i < 32; i++) d[i] = 0.f;
  const StatePool& pool = a.backward.forward.pool;
  if (pool.read) load_pool_state(S, pool, chain.row, chain.head, panel() * kPanel, w, l);
#pragma unroll 1
  for (int chunk = 0; chunk < chain.chunks; chunk++) {
    await_chunk(valid_of(chunk));
    pack_state<Token>(operand, S);
    wgmma::hold(operand);
    wgmma::registers_ready();
    multiply_state<Token>(d, operand, key());
    keep_state(operand, a.work.states, chunk, chunk == 0);
    load_values(v, rows(), w, l);
    scale_values<Token>(x, v, factors(Factor::beta));
    wgmma::wait<0>();
    wgmma::hold(d);
    wgmma::hold(operand);
    // beta (V - gamma K S)
    scale(d, factors(Factor::beta));
    subtract_from(x, d, factors(Factor::key_decayed));
    pack_operand<Token>(v, d);
    wgmma::hold(v);
    wgmma::hold(d);
    wgmma::registers_ready();
    multiply_by_columns(d, v, record() + kT);
    scale_state(S);
    wgmma::wait<0>();
    wgmma::hold(d);
    wgmma::hold(v);
    // V' in the place of V, and to memory
    pack_scaled<Token>(u, d, factors(Factor::key_update));
    wgmma::hold(u);
    wgmma::registers_ready();
    update_state<Token>(S, u, key());
    store_outputs<Token>(rows(), d, w, l);
    keep_values([&] {
      bulk_store(a.work.updates + chunk_head(chunk) * kTileBytes + panel() * kPanelBytes, rows(),
                 kPanelBytes);
    });
    wgmma::wait<0>();
    wgmma::hold(S);
    wgmma::hold(u);
    release_tiles();
  }
  if (leader) bulk_wait<0>();
}

template <int MathWarpgroups>
__device__ __forceinline__ void ChainMath<MathWarpgroups>::run_backwards(
    const CUtensorMap* d_value_map) {
  float D[64], e[32], f[32];
  uint32_t operand[32], v[16], u[16];
#pragma unroll
  for (int i = 0; i < 64; i++) D[i] = 0.f;
#pragma unroll
  for (int i = 0; i < 32; i++) e[i] = f[i] = 0.f;
  const BackwardParams& b = a.backward;
  if (b.d_final.read) load_pool_state(D, b.d_final, chain.row, chain.head, panel() * kPanel, w, l);
#pragma unroll 1
  for (int chunk = chain.chunks - 1; chunk >= 0; chunk--) {
    const int valid = valid_of(chunk);
    const int64_t token = chain.first_token + int64_t{chunk} * kChunk;
    await_chunk(valid);
    pack_state<Token>(operand, D);
    load_values(v, rows(), w, l);
    wgmma::hold(operand);
    wgmma::hold(v);
    wgmma::registers_ready();
    multiply_state<Token>(e, operand, key());
    multiply_by_rows(f, v, record() + kP);
    keep_state(operand, a.work.d_states, chunk, chunk == chain.chunks - 1);
    scale_operand(u, v, factors(Factor::query_decayed));
    scale_state(D);
    wgmma::wait<0>();
    wgmma::hold(e);
    wgmma::hold(f);
    wgmma::hold(v);
    wgmma::hold(operand);
    // dV' = (gamma_C / gamma) K D + P^T dO
    const FactorsInMemory remaining = factors(Factor::key_update);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const float2 r = remaining[j];
      e[4 * j] = fmaf(r.x, e[4 * j], f[4 * j]);
      e[4 * j + 1] = fmaf(r.y, e[4 * j + 1], f[4 * j + 1]);
      e[4 * j + 2] = fmaf(r.x, e[4 * j + 2], f[4 * j + 2]);
      e[4 * j + 3] = fmaf(r.y, e[4 * j + 3], f[4 * j + 3]);
    }
    pack_operand<Token>(v, e);
    wgmma::hold(v);
    wgmma::hold(e);
    wgmma::hold(u);
    wgmma::registers_ready();
    multiply_by_rows(e, v, record() + kT);
    update_state<Token>(D, u, query());
    wgmma::wait<1>();
    wgmma::hold(e);
    wgmma::hold(v);
    scale(e, factors(Factor::beta));  // dV
    const FactorsInMemory decayed = factors(Factor::key_decayed);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const float2 r = decayed[j];
      v[2 * j] = pack<Token>(-r.x * e[4 * j], -r.y * e[4 * j + 1]);
      v[2 * j + 1] = pack<Token>(-r.x * e[4 * j + 2], -r.y * e[4 * j + 3]);
    }
    wgmma::hold(v);
    wgmma::registers_ready();
    update_state<Token>(D, v, key());
    store_outputs<Token>(rows(), e, w, l);
    if (valid == kChunk) {
      keep_values([&] {
        tensor_store(d_value_map, rows(), 0, static_cast<int>(token), panel(), chain.head);
      });
    } else {
      __syncwarp();
      const int64_t stride = int64_t{b.forward.num_value_heads} * kValueDim;
      store_last_rows(rows(),
                      static_cast<Token*>(b.forward.output) + token * stride +
                          chain.head * kValueDim + panel() * kPanel,
                      stride, valid, t);
      keep_values([] {});
    }
    wgmma::wait<0>();
    wgmma::hold(D);
    wgmma::hold(u);
    wgmma::hold(v);
    release_tiles();
  }
  store_pool_state(D, b.d_initial, chain.row, chain.head, panel() * kPanel, w, l);
  if (leader) bulk_wait<0>();
}

/// One thread: every chunk's operands, in the chain's order.
template <int MathWarpgroups>
__device__ __forceinline__ void load_chain(const KernelParams& a, const Chain& chain, uint32_t sm,
                                           const CUtensorMap* query_map, const CUtensorMap* key_map,
                                           const CUtensorMap* rows_map) {
  using Layout = ChainLayout<MathWarpgroups>;
  const GatedDeltaParams& p = a.backward.forward;
  const int key_head = chain.head / p.value_heads_per_key_head;
  RingCursor<typename Layout::Tiles> tiles{};
  RingCursor<typename Layout::Values> values{};
  for (int i = 0; i < chain.chunks; i++) {
    const int chunk = chain.backwards ? chain.chunks - 1 - i : i;
    const int token = static_cast<int>(chain.first_token) + chunk * kChunk;
    tiles.await_empty(sm);
    const uint32_t full = tiles.full(sm), to = tiles.buffer(sm);
    // T and P, or T alone, and the factors
    const uint32_t triangles = chain.backwards ? 2 * kTriangleTileBytes : kTriangleTileBytes;
    tiles.expect(sm, (chain.backwards ? 2 : 1) * kTileBytes + triangles + kFactorBytes);
    tensor_load(to, key_map, full, 0, token, 0, key_head);
    if (chain.backwards) tensor_load(to + kTileBytes, query_map, full, 0, token, 0, key_head);
    const uint8_t* const record =
        a.work.records +
        ((chain.first_slot + chunk) * p.num_value_heads + chain.head) * int64_t{kRecordBytes};
    bulk_load(to + Layout::kRecord, record, triangles, full);
    bulk_load(to + Layout::kRecord + kFactors, record + kFactors, kFactorBytes, full);
    values.await_empty(sm);
    values.expect(sm, Layout::kValueBytes);
    tensor_load(values.buffer(sm), rows_map, values.full(sm), 0, token, chain.panel, chain.head);
    tiles.advance();
    values.advance();
  }
}

template <int MathWarpgroups>
__global__ void __launch_bounds__(ChainLayout<MathWarpgroups>::kThreads, 1)
    chains_kernel(const __grid_constant__ CUtensorMap query_map,
                  const __grid_constant__ CUtensorMap key_map,
                  const __grid_constant__ CUtensorMap value_map,
                  const __grid_constant__ CUtensorMap d_output_map,
                  const __grid_constant__ CUtensorMap d_value_map, const KernelParams a) {
  using Layout = ChainLayout<MathWarpgroups>;
  constexpr int kHalves = 2 / MathWarpgroups;
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  const uint32_t sm = aligned_shared_address(raw);
  const GatedDeltaParams& p = a.backward.forward;
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);

  Chain chain;
  int item = blockIdx.x;  // those backwards, which take longer, come first
  chain.panel = item % kHalves;
  item /= kHalves;
  chain.head = item % p.num_value_heads;
  item /= p.num_value_heads;
  chain.backwards = item < p.num_sequences;
  chain.sequence = chain.backwards ? item : item - p.num_sequences;
  const SequenceSpan span = sequence_span(p, chain.sequence);
  chain.row = span.row;
  chain.first_token = span.first;
  chain.tokens = span.length;
  chain.first_slot = first_chunk_slot(span.first, chain.sequence);
  chain.chunks = static_cast<int>(chunks_of(span.length));
  const int wg = warp / 4, t = threadIdx.x % 128;
  if (span.is_padding()) {
    if (chain.backwards && wg < MathWarpgroups) {
      const int64_t stride = int64_t{p.num_value_heads} * kValueDim;
      store_padding(static_cast<Token*>(p.output) + span.first * stride + chain.head * kValueDim +
                        (chain.panel + wg) * kPanel,
                    stride, static_cast<int>(span.length), t);
    }
    return;
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < Layout::kTileStages; i++) {
      mbarrier_init(sm + Layout::kTilesFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kTilesEmpty + 8 * i, 4 * MathWarpgroups);
    }
    for (int i = 0; i < Layout::kValueStages; i++) {
      mbarrier_init(sm + Layout::kValuesFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kValuesEmpty + 8 * i, MathWarpgroups);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (wg == MathWarpgroups) {
    if constexpr (MathWarpgroups == 2) registers_decrease<40>();
    if (t == 0)
      load_chain<MathWarpgroups>(a, chain, sm, &query_map, &key_map,
                                 chain.backwards ? &d_output_map : &value_map);
    return;
  }
  if constexpr (MathWarpgroups == 2) registers_increase<232>();
  ChainMath<MathWarpgroups> math(a, chain, sm, wg, t);
  if (chain.backwards) {
    math.run_backwards(&d_value_map);
  } else {
    math.run_forwards();
  }
}

template <int MathWarpgroups>
void enqueue(const Launch& launch, const CUtensorMap& value, const CUtensorMap& d_output,
             cudaStream_t stream) {
  using Layout = ChainLayout<MathWarpgroups>;
  const GatedDeltaParams& p = launch.params.backward.forward;
  const auto kernel = chains_kernel<MathWarpgroups>;
  allow_shared_memory(kernel, Layout::kBytes);
  const unsigned int blocks = grid_blocks(
      2 * int64_t{p.num_sequences} * p.num_value_heads * (2 / MathWarpgroups), launch.name);
  launch_kernel(kernel, blocks, Layout::kThreads, Layout::kBytes, stream, launch.maps.query,
                launch.maps.key, value, d_output, launch.maps.d_value_panel, launch.params);
}

}  // namespace

void enqueue_chains(const Launch& launch, cudaStream_t stream) {
  const TensorMaps& maps = launch.maps;
  launch.halves == 1 ? enqueue<2>(launch, maps.value, maps.d_output, stream)
                     : enqueue<1>(launch, maps.value_panel, maps.d_output_panel, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
