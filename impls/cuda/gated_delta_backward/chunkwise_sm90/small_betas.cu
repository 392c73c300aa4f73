// Fourth kernel of cuda/chunkwise_sm90 of gated_delta_backward: d_beta of tokens whose betas are too small to divide by,
// zeros among them (record.h). It is Y . r with
//
//     Y_i = (gamma_C / gamma_i) D^T k_i + sum_{j >= i} P_ji dO_j - sum_{j > i} Gam_ji (k_j . k_i) dV_j
//     r_i = v_i - gamma_i S^T k_i - sum_{j < i} Gam_ij (k_i . k_j) V'_j
//
// which is the gradient of the update and the update itself, both over beta. A block looks for chunks and value heads
// that have such tokens, and takes one token after the other, a thread having a column of V.
//
// Bound by: as a rule, the reading of a flag for each chunk and value head. Where all betas are small it takes long.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
#include "cuda/grid_blocks.h"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

using namespace hopper;

namespace {

using Token = __nv_bfloat16;

constexpr int kThreads = kValueDim;

/// A chunk of a slice of a value head in device memory.
struct ChunkHead {
  const uint8_t* record;
  const uint8_t* state;
  const uint8_t* d_state;
  const uint8_t* update;

  __device__ ChunkHead(const Workspace& work, int64_t record_index, int64_t index)
      : record(work.records + record_index * kRecordBytes),
        state(work.states + index * kStateBytes),
        d_state(work.d_states + index * kStateBytes),
        update(work.updates + index * kTileBytes) {}

  __device__ float factor(Factor which, int token) const {
    return *reinterpret_cast<const float*>(record + kFactors + which + 4 * token);
  }
  /// Element (row, column) of a tile whose panels of 64 columns are so many bytes apart.
  __device__ static float element(const uint8_t* tile, uint32_t panel_bytes, int row, int column) {
    return __bfloat162float(*reinterpret_cast<const Token*>(
        tile + column / kPanel * panel_bytes + swizzle_128(row, 2 * (column % kPanel))));
  }
};

/// The sum over the block, to every thread; `warp_sums` [4].
__device__ __forceinline__ float block_sum(float x, float* warp_sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(~0u, x, o);
  __syncthreads();  // the sums before have been read
  if (lane == 0) warp_sums[warp] = x;
  __syncthreads();
  return warp_sums[0] + warp_sums[1] + warp_sums[2] + warp_sums[3];
}

__device__ void store_beta_gradients(const KernelParams& a, const ChunkHead& chunk, int64_t token0,
                                     int valid, int head, int slice, float* warp_sums) {
  const GatedDeltaParams& p = a.backward.forward;
  const int v = static_cast<int>(threadIdx.x), key_head = head / p.value_heads_per_key_head,
            column = slice * kValueDim + v;
  const int64_t d_value_stride = int64_t{p.num_value_heads} * p.value_head_dim;
  const auto value_of = [&](const void* array, int64_t stride, int token) {
    return column < p.value_head_dim
               ? __bfloat162float(static_cast<const Token*>(
                     array)[(token0 + token) * stride + head * p.value_head_dim + column])
               : 0.f;
  };
  const auto key_of = [&](int token, int k) {
    return k < p.key_head_dim ? __bfloat162float(key_at<Token>(p, token0 + token, key_head)[k])
                              : 0.f;
  };
  for (int i = 0; i < valid; i++) {
    if (fabsf(chunk.factor(Factor::beta, i)) >= kLeastBeta) continue;
    float of_state = 0.f, of_gradient = 0.f;
    for (int k = 0; k < p.key_head_dim; k++) {
      const float x = key_of(i, k);
      of_state = fmaf(x, ChunkHead::element(chunk.state, kStatePanelBytes, v, k), of_state);
      of_gradient = fmaf(x, ChunkHead::element(chunk.d_state, kStatePanelBytes, v, k), of_gradient);
    }
    float r = value_of(p.value, p.value_token_stride, i) -
              chunk.factor(Factor::key_decayed, i) * of_state;
    float y = chunk.factor(Factor::key_update, i) * of_gradient;
    for (int j = 0; j < valid; j++) {
      const float product =
          block_sum(key_of(i, v) * key_of(j, v), warp_sums);  // a thread for each channel too
      const float between =
          exp2_flush(
              -fabsf(chunk.factor(Factor::cumulative, i) - chunk.factor(Factor::cumulative, j))) *
          chunk.factor(Factor::key_length, i) * chunk.factor(Factor::key_length, j) * product;
      if (j < i) {
        r = fmaf(-between, ChunkHead::element(chunk.update, kPanelBytes, j, v), r);
      } else {
        y = fmaf(ChunkHead::element(chunk.record + kP, 0, j, i),
                 value_of(a.backward.d_output, a.backward.d_output_token_stride, j), y);
        if (j > i) y = fmaf(-between, value_of(p.output, d_value_stride, j), y);
      }
    }
    const float d_beta = block_sum(y * r, warp_sums);
    if (v == 0) a.gate_gradients(token0 + i, head, slice)[1] = d_beta;
  }
}

__global__ void __launch_bounds__(kThreads)
    small_betas_kernel(const KernelParams a, const int64_t chunk_slices) {
  __shared__ float warp_sums[4];
  static_assert(kKeyDim == kValueDim);
  const GatedDeltaParams& p = a.backward.forward;
  wait_for_prerequisites();
  for (int64_t index = blockIdx.x; index < chunk_slices; index += gridDim.x) {
    const int slice = static_cast<int>(index % a.slices);
    const int64_t record = index / a.slices, slot = record / p.num_value_heads;
    const SlotPlace place =
        place_of_slot(p, slot, static_cast<int>(threadIdx.x) % 32, first_chunk_slot);
    const int64_t token0 =
        place.begin + (slot - first_chunk_slot(place.begin, place.sequence)) * kChunk;
    if (token0 >= place.end) continue;  // a slot past the sequence's last chunk
    if (p.slot_index && p.slot_index[place.sequence] < 0) continue;
    const ChunkHead chunk(a.work, record, index);
    if (chunk.factor(Factor::any_small_beta, 0) == 0.f) continue;
    store_beta_gradients(
        a, chunk, token0,
        static_cast<int>(place.end - token0 < kChunk ? place.end - token0 : kChunk),
        static_cast<int>(record % p.num_value_heads), slice, warp_sums);
  }
}

}  // namespace

void enqueue_small_betas(const Launch& launch, cudaStream_t stream) {
  constexpr int64_t kMostBlocks = 4096;
  const int64_t chunk_slices =
      launch.chunk_slots * launch.params.slices * launch.params.backward.forward.num_value_heads;
  launch_overlapping(small_betas_kernel,
                     static_cast<unsigned int>(std::min(chunk_slices, kMostBlocks)), kThreads, 0,
                     stream, launch.params, chunk_slices);
}

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
