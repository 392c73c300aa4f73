// Second kernel of cuda/chunkwise_sm90 of gated_delta_backward: the two chains over the chunks of a sequence and value
// head. They are mirrors of each other, and neither needs the other:
//
//     forwards    V' = T (beta (V - gamma K S));              S <- gamma_C S + K^T (gamma_C / gamma) V'
//     backwards   dV' = (gamma_C / gamma) K D + P^T dO;       Y = T^T dV';  dV = beta Y
//                 D <- gamma_C D + Q^T (scale gamma dO) - K^T (gamma beta Y)
//
// T is I and what is below the diagonal, which alone is multiplied by: an update's own part of V' or Y stays in float32,
// and what is rounded to bfloat16 are the other tokens' parts.
//
// A block is one chain, or a piece of one, of 128 columns of V or of 64. One or two math warpgroups own 64 columns each
// and hold the state in registers, transposed [64 columns of V x Dk]; a further warp loads. For the gradients every chunk
// leaves S at its start or D at its end, and V', in bfloat16 and as products read them (record.h); dV goes where the
// caller wants it.
//
// A piece begins as many chunks early as forget the state beyond them (chunk_sm90/forgetting.cuh), from zeros, and these
// leave nothing behind. Where gates do not forget it begins where the sequence does (backwards: where it ends): the
// longest piece then takes as long as the whole chain would.
//
// Of a training step the chains forwards are the forward call: a launch of their own before the others, which makes
//
//     O = scale gamma (Q S) + P V'
//
// and the final states besides. O leaves from the place of the chunk's Q, which is given back a chunk later.
//
// Tokens past the end of a sequence: rows of K, Q, V and dO are zeroed in shared memory before their first use, T, P and
// factors carry zeros there, and rows of dV are not stored.
//
// Bound by: memory, 165 KB a chunk and value head of both directions, of which S, D, V' and dV are 96; a forward call
// moves 27 KB more. Where there are few blocks, by the dependent products of a chunk. Reached, H200: 3.2 to 3.7 TB/s,
// 0.82 ms for 16/32 heads of 4x8192 tokens, 0.14 for 2/4 heads of 1x32768 in pieces (log.md).
#include <cuda_runtime.h>

#include "cuda/gated_delta/chunk_sm90/forgetting.cuh"
#include "cuda/gated_delta/chunk_sm90/key_tile.cuh"
#include "cuda/gated_delta/chunk_sm90/panel_math.cuh"
#include "cuda/gated_delta/chunk_sm90/pool_state.cuh"
#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta/chunk_sm90/tile_rows.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/hopper/ring.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

using namespace hopper;

namespace {

using Token = __nv_bfloat16;

/// What a launch does.
enum class Part {
  both,      ///< the chains of either direction
  forward,   ///< those forwards, as the forward call of a training step
  backward,  ///< those backwards
};

/// MathWarpgroups 2: a block does a slice of V, 128 columns; 1: 64 columns.
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

/// What a block walks: a piece of a chain, and the chunks before it in the chain's direction that it takes to forget.
struct Chain {
  bool backwards;
  int head, panel;  // first 64-column panel of V, of all slices
  int64_t row;
  int64_t first_token, tokens, first_slot;  // of the sequence
  int first_chunk;                          // of the walk
  int steps, early_steps;                   // all, and the first of them, which leave nothing
  bool from_state;                          // else from zeros
  bool to_sequence_end;                     // of the chain's direction

  __device__ __forceinline__ int chunk(int step) const {
    return backwards ? first_chunk - step : first_chunk + step;
  }
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
template <bool Adds>
__device__ __forceinline__ void multiply_by_rows(float (&d)[32], const uint32_t (&a)[16],
                                                 uint32_t tile) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n64_trans<Token>(
        d, a + 4 * i, wgmma::mn_major_128(tile, kPanelBytes) + 128 * i, Adds || i > 0);
  wgmma::commit();
}
/// d += a tile^T.
__device__ __forceinline__ void add_by_columns(float (&d)[32], const uint32_t (&a)[16],
                                               uint32_t tile) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n64<Token>(d, a + 4 * i, wgmma::k_major_128(tile) + 2 * i, true);
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

/// What a math warpgroup of a chain works with. MakesOutput: of a forward call.
template <int MathWarpgroups, bool MakesOutput>
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
  /// In the arrays that a chunk and slice have, and the panel in it.
  __device__ __forceinline__ int64_t slice_index(int chunk) const {
    return a.slice_index(chain.first_slot + chunk, chain.head, panel() / 2);
  }
  __device__ __forceinline__ int panel_of_slice() const { return panel() % 2; }
  /// Of Dv: else its columns are zeros, and stored nowhere but for the gradients.
  __device__ __forceinline__ bool is_panel_there() const {
    return panel() * kPanel < a.backward.forward.value_head_dim;
  }

  /// Until the chunk's operands are there, with zeros in rows past the sequence's end.
  __device__ __forceinline__ void await_chunk(int valid) {
    tiles.await_full(sm);
    values.await_full(sm);
    if (valid < kChunk) [[unlikely]] {
      zero_own_columns(rows(), valid, t);
      for (int panel = wg; panel < 4; panel += MathWarpgroups)  // of K, then of Q
        if (panel < 2 || chain.backwards || MakesOutput)
          zero_rows(key() + panel * kPanelBytes, valid, t);
      fence_async_proxy();
      named_barrier_sync(all_math, 128 * MathWarpgroups);
    }
  }
  /// The state's operand copy to memory, [2 panels of Dk][Dv][64]. Its buffer is free: the copy of the chunk before was
  /// waited for in await_image(). The buffer of that chunk's values is given back here, whose copy has had time. An early
  /// step only gives back.
  __device__ __forceinline__ void keep_state(const uint32_t (&operand)[32], uint8_t* states,
                                             int step) {
    const bool kept = step >= chain.early_steps;
    if (kept) {
      store_image(image(), operand, w, l);
      fence_async_proxy();
    }
    meet();
    if (leader) {
      if (kept) {
        uint8_t* const to =
            states + slice_index(chain.chunk(step)) * kStateBytes + panel_of_slice() * kPanelBytes;
        bulk_store(to, image(), kPanelBytes);
        bulk_store(to + kStatePanelBytes, image() + kPanelBytes, kPanelBytes);
      }
      bulk_commit();
      if (step > 0) {
        bulk_wait_read<1>();
        auto before = values;
        before.index = (values.index + Layout::kValueStages - 1) % Layout::kValueStages;
        before.release(sm);
        if constexpr (MakesOutput) {
          auto tiles_before = tiles;
          tiles_before.index = (tiles.index + Layout::kTileStages - 1) % Layout::kTileStages;
          tiles_before.release(sm);
        }
      }
    }
    __syncwarp();
  }
  /// What all threads have stored in shared memory goes to memory by `copy`, of the leader.
  template <typename Copy>
  __device__ __forceinline__ void send(const Copy& copy) {
    fence_async_proxy();
    meet();
    if (leader) {
      copy();
      bulk_commit();
    }
    __syncwarp();
  }
  /// Behind the next send() the state's image may be overwritten.
  __device__ __forceinline__ void await_image() const {
    if (leader) bulk_wait_read<0>();
  }
  /// The chunk's buffers are read. Every thread arrives: that one does so for its warp is a step that racecheck does not
  /// follow. From Q's place an output may be on its way: then the leader arrives in the next keep_state().
  __device__ __forceinline__ void release_tiles() {
    __syncwarp();
    if (!(MakesOutput && leader)) tiles.release(sm);
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

  /// A chunk's 64 columns of outputs or gradients of values from `panel_rows` to memory, by `map` or where fewer rows are
  /// valid to `array`. The copy is committed.
  __device__ __forceinline__ void store_rows(uint32_t panel_rows, const CUtensorMap* map,
                                             void* array, int64_t token, int valid) {
    if (valid == kChunk) {
      send([&] { tensor_store(map, panel_rows, 0, static_cast<int>(token), panel(), chain.head); });
    } else {
      __syncwarp();
      const int value_dim = a.backward.forward.value_head_dim;
      const int64_t stride = int64_t{a.backward.forward.num_value_heads} * value_dim;
      store_last_rows(
          panel_rows,
          static_cast<Token*>(array) + token * stride + chain.head * value_dim + panel() * kPanel,
          stride, is_panel_there() ? valid : 0, t);
      send([] {});
    }
  }

  __device__ void run_forwards(const CUtensorMap* output_map);
  __device__ void run_backwards(const CUtensorMap* d_value_map);
};

template <int MathWarpgroups, bool MakesOutput>
__device__ __forceinline__ void ChainMath<MathWarpgroups, MakesOutput>::run_forwards(
    const CUtensorMap* output_map) {
  float S[64], d[32], x[32];
  [[maybe_unused]] float o[32];
  uint32_t operand[32], v[16], u[16];
#pragma unroll
  for (int i = 0; i < 64; i++) S[i] = 0.f;
#pragma unroll
  for (int i = 0; i < 32; i++) d[i] = 0.f;
  if constexpr (MakesOutput) {
#pragma unroll
    for (int i = 0; i < 32; i++) o[i] = 0.f;
  }
  const StatePool& pool = a.backward.forward.pool;
  if (pool.read && chain.from_state)
    load_pool_state<StateDims::any>(S, pool, chain.row, chain.head, panel() * kPanel, w, l);
#pragma unroll 1
  for (int step = 0; step < chain.steps; step++) {
    const int chunk = chain.chunk(step);
    await_chunk(valid_of(chunk));
    pack_state<Token>(operand, S);
    wgmma::hold(operand);
    wgmma::registers_ready();
    multiply_state<Token>(d, operand, key());
    if constexpr (MakesOutput) multiply_state<Token>(o, operand, query());
    keep_state(operand, a.work.states, step);
    load_values(v, rows(), w, l);
    scale_values<Token>(x, v, factors(Factor::beta));
    wgmma::wait<0>();
    wgmma::hold(d);
    wgmma::hold(operand);
    if constexpr (MakesOutput) wgmma::hold(o);
    // beta (V - gamma K S)
    scale(d, factors(Factor::beta));
    subtract_from(x, d, factors(Factor::key_decayed));
    pack_operand<Token>(v, d);
    wgmma::hold(v);
    wgmma::hold(d);
    wgmma::registers_ready();
    add_by_columns(d, v, record() + kBelowT);
    scale_state(S);
    if constexpr (MakesOutput) {
      scale(o, factors(Factor::query_decayed));
      wgmma::hold(o);
    }
    wgmma::wait<0>();
    wgmma::hold(d);
    wgmma::hold(v);
    // V' in the place of V, and to memory
    pack_scaled<Token>(u, d, factors(Factor::key_update));
    if constexpr (MakesOutput) {
      pack_operand<Token>(v, d);
      wgmma::hold(v);
    }
    wgmma::hold(u);
    wgmma::registers_ready();
    if constexpr (MakesOutput) add_by_columns(o, v, record() + kP);
    update_state<Token>(S, u, key());
    if (step >= chain.early_steps) {
      store_outputs<Token>(rows(), d, w, l);
      await_image();
      send([&] {
        bulk_store(
            a.work.updates + slice_index(chunk) * kTileBytes + panel_of_slice() * kPanelBytes,
            rows(), kPanelBytes);
      });
    }
    if constexpr (MakesOutput) {
      wgmma::wait<1>();
      wgmma::hold(o);
      wgmma::hold(v);
      if (step >= chain.early_steps) {
        if constexpr (MathWarpgroups == 2)  // neither warpgroup reads Q any more
          named_barrier_sync(all_math, 128 * MathWarpgroups);
        const uint32_t outputs = query() + wg * kPanelBytes;
        store_outputs<Token>(outputs, o, w, l);
        store_rows(outputs, output_map, a.forward.output,
                   chain.first_token + int64_t{chunk} * kChunk, valid_of(chunk));
      }
    }
    wgmma::wait<0>();
    wgmma::hold(S);
    wgmma::hold(u);
    release_tiles();
  }
  if constexpr (MakesOutput) {
    if (chain.to_sequence_end && a.forward.final_states.write)
      store_pool_state<StateDims::any>(S, a.forward.final_states, chain.row, chain.head,
                                       panel() * kPanel, w, l);
  }
  if (leader) bulk_wait<0>();
}

template <int MathWarpgroups, bool MakesOutput>
__device__ __forceinline__ void ChainMath<MathWarpgroups, MakesOutput>::run_backwards(
    const CUtensorMap* d_value_map) {
  float D[64], e[32], f[32];
  uint32_t operand[32], v[16], u[16];
#pragma unroll
  for (int i = 0; i < 64; i++) D[i] = 0.f;
#pragma unroll
  for (int i = 0; i < 32; i++) e[i] = f[i] = 0.f;
  const BackwardParams& b = a.backward;
  if (b.d_final.read && chain.from_state)
    load_pool_state<StateDims::any>(D, b.d_final, chain.row, chain.head, panel() * kPanel, w, l);
#pragma unroll 1
  for (int step = 0; step < chain.steps; step++) {
    const int chunk = chain.chunk(step), valid = valid_of(chunk);
    const int64_t token = chain.first_token + int64_t{chunk} * kChunk;
    await_chunk(valid);
    pack_state<Token>(operand, D);
    load_values(v, rows(), w, l);
    wgmma::hold(operand);
    wgmma::hold(v);
    wgmma::registers_ready();
    multiply_state<Token>(e, operand, key());
    multiply_by_rows<false>(f, v, record() + kP);
    keep_state(operand, a.work.d_states, step);
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
    multiply_by_rows<true>(e, v, record() + kBelowT);
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
    if (step >= chain.early_steps) {
      store_outputs<Token>(rows(), e, w, l);
      await_image();
      store_rows(rows(), d_value_map, b.forward.output, token, valid);
    }
    wgmma::wait<0>();
    wgmma::hold(D);
    wgmma::hold(u);
    wgmma::hold(v);
    release_tiles();
  }
  if (chain.to_sequence_end)
    store_pool_state<StateDims::any>(D, b.d_initial, chain.row, chain.head, panel() * kPanel, w, l);
  if (leader) bulk_wait<0>();
}

/// One thread: every chunk's operands, in the chain's order.
template <int MathWarpgroups, Part part>
__device__ __forceinline__ void load_chain(const KernelParams& a, const Chain& chain, uint32_t sm,
                                           const CUtensorMap* query_map, const CUtensorMap* key_map,
                                           const CUtensorMap* rows_map) {
  using Layout = ChainLayout<MathWarpgroups>;
  const GatedDeltaParams& p = a.backward.forward;
  const int key_head = chain.head / p.value_heads_per_key_head;
  RingCursor<typename Layout::Tiles> tiles{};
  RingCursor<typename Layout::Values> values{};
  const bool needs_query = part != Part::both || chain.backwards;  // and P
  for (int step = 0; step < chain.steps; step++) {
    const int chunk = chain.chunk(step);
    const int token = static_cast<int>(chain.first_token) + chunk * kChunk;
    tiles.await_empty(sm);
    const uint32_t full = tiles.full(sm), to = tiles.buffer(sm);
    // T - I and P, or T - I alone, and the factors
    const uint32_t triangles = needs_query ? 2 * kTriangleTileBytes : kTriangleTileBytes;
    tiles.expect(sm, (needs_query ? 2 : 1) * kTileBytes + triangles + kFactorBytes);
    load_key_tile(to, key_map, full, token, key_head, p.key_head_dim);
    if (needs_query)
      load_key_tile(to + kTileBytes, query_map, full, token, key_head, p.key_head_dim);
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

/// Whole warps: the walk of the piece that begins with chunk `begin`, of its sequence's `chunks`.
__device__ __forceinline__ void set_walk(const KernelParams& a, Chain& chain, int begin, int chunks,
                                         int lane) {
  const int end = min(begin + a.piece_chunks, chunks);
  // chunks from the piece to the sequence's beginning, or to its end
  const int beyond = chain.backwards ? chunks - end : begin;
  int own = chunks_to_forget(beyond, lane, [&](int i) {
    const int chunk = chain.backwards ? end + i : begin - 1 - i;
    const int64_t record =
        (chain.first_slot + chunk) * a.backward.forward.num_value_heads + chain.head;
    const uint8_t* const factors = a.work.records + record * kRecordBytes + kFactors;
    const auto factor = [&](uint32_t offset) {
      return *reinterpret_cast<const float*>(factors + offset);
    };
    return transition_bound(factor(Factor::cumulative + backward_sm90::kLastToken),
                            factor(Factor::largest_key_step));
  });
  if (own < 0) own = beyond;
  chain.from_state = own == beyond;
  chain.to_sequence_end = chain.backwards ? begin == 0 : end == chunks;
  chain.early_steps = own;
  chain.steps = own + end - begin;
  chain.first_chunk = chain.backwards ? end + own - 1 : begin - own;
}

/// stored_map: of the gradients of values, or of a forward call's outputs.
template <int MathWarpgroups, Part part>
__global__ void __launch_bounds__(ChainLayout<MathWarpgroups>::kThreads, 1)
    chains_kernel(const __grid_constant__ CUtensorMap query_map,
                  const __grid_constant__ CUtensorMap key_map,
                  const __grid_constant__ CUtensorMap value_map,
                  const __grid_constant__ CUtensorMap d_output_map,
                  const __grid_constant__ CUtensorMap stored_map, const KernelParams a) {
  using Layout = ChainLayout<MathWarpgroups>;
  constexpr int kHalves = 2 / MathWarpgroups;
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  const uint32_t sm = aligned_shared_address(raw);
  const GatedDeltaParams& p = a.backward.forward;
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  wait_for_prerequisites();  // blocks without work, too: the next kernel waits for this one alone
  launch_dependents();

  Chain chain;
  int item = blockIdx.x;  // those backwards, which take longer, come first
  const int parts = kHalves * a.slices;
  chain.panel = item % parts * MathWarpgroups;
  item /= parts;
  chain.head = item % p.num_value_heads;
  item /= p.num_value_heads;
  chain.backwards = part == Part::both ? item < a.piece_slots : part == Part::backward;
  // the longest walks of either direction come first, where gates do not forget
  const int piece_slot =
      chain.backwards ? item : (part == Part::both ? 2 : 1) * a.piece_slots - 1 - item;
  const int lane = threadIdx.x % 32;
  const SlotPlace place = place_of_slot(p, piece_slot, lane, [&](int64_t offset, int n) {
    return first_piece_slot(offset, n, a.piece_chunks);
  });
  const int piece =
      piece_slot - static_cast<int>(first_piece_slot(place.begin, place.sequence, a.piece_chunks));
  chain.first_token = place.begin;
  chain.tokens = place.end - place.begin;
  const int chunks = static_cast<int>(chunks_of(chain.tokens));
  if (piece > 0 && piece >= (chunks - 1) / a.piece_chunks + 1) return;
  const int begin = piece * a.piece_chunks;
  chain.row = p.slot_index ? __ldg(p.slot_index.word(place.sequence)) : place.sequence;
  chain.first_slot = first_chunk_slot(place.begin, place.sequence);
  const int wg = warp / 4, t = threadIdx.x % 128;
  if (chain.row < 0) {  // padding
    if ((chain.backwards || part == Part::forward) && piece == 0 && wg < MathWarpgroups) {
      const int panel = chain.panel + wg;
      const int64_t stride = int64_t{p.num_value_heads} * p.value_head_dim;
      void* const array = part == Part::forward ? a.forward.output : p.output;
      store_padding(static_cast<Token*>(array) + chain.first_token * stride +
                        chain.head * p.value_head_dim + panel * kPanel,
                    stride, panel * kPanel < p.value_head_dim ? static_cast<int>(chain.tokens) : 0,
                    t);
    }
    return;
  }
  set_walk(a, chain, begin, chunks, lane);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Layout::kTileStages; i++) {
      mbarrier_init(sm + Layout::kTilesFull + 8 * i, 1);
      mbarrier_init(sm + Layout::kTilesEmpty + 8 * i, 128 * MathWarpgroups);
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
      load_chain<MathWarpgroups, part>(a, chain, sm, &query_map, &key_map,
                                       chain.backwards ? &d_output_map : &value_map);
    return;
  }
  if constexpr (MathWarpgroups == 2) registers_increase<232>();
  ChainMath<MathWarpgroups, part == Part::forward> math(a, chain, sm, wg, t);
  if constexpr (part == Part::forward) {
    math.run_forwards(&stored_map);
  } else if (part == Part::backward || chain.backwards) {
    math.run_backwards(&stored_map);
  } else {
    math.run_forwards(nullptr);
  }
}

template <int MathWarpgroups, Part part>
void enqueue(const Launch& launch, cudaStream_t stream) {
  using Layout = ChainLayout<MathWarpgroups>;
  const TensorMaps& maps = launch.maps;
  const KernelParams& params = launch.params;
  const auto kernel = chains_kernel<MathWarpgroups, part>;
  constexpr int kDirections = part == Part::both ? 2 : 1, kHalves = 2 / MathWarpgroups;
  const unsigned int blocks =
      grid_blocks(int64_t{kDirections * kHalves * params.slices} * params.piece_slots *
                      params.backward.forward.num_value_heads,
                  launch.name);
  launch_overlapping(kernel, blocks, Layout::kThreads, Layout::kBytes, stream, maps.query, maps.key,
                     MathWarpgroups == 2 ? maps.value : maps.value_panel,
                     MathWarpgroups == 2 ? maps.d_output : maps.d_output_panel,
                     part == Part::forward ? maps.output_panel : maps.d_value_panel, params);
}
template <int MathWarpgroups>
void enqueue(const Launch& launch, cudaStream_t stream) {
  if (launch.is_step) {
    enqueue<MathWarpgroups, Part::forward>(launch, stream);
    enqueue<MathWarpgroups, Part::backward>(launch, stream);
  } else {
    enqueue<MathWarpgroups, Part::both>(launch, stream);
  }
}

}  // namespace

void enqueue_chains(const Launch& launch, cudaStream_t stream) {
  launch.halves == 1 ? enqueue<2>(launch, stream) : enqueue<1>(launch, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
