// All gradients of a chunk and value head from the states and gradients at its ends, S and D:
//
//     dP = lower(dO V'^T),    dL = -strict_lower(Y V'^T),    N = diag(beta) (dL * D_ij)
//     d_q = diag(gamma) dO S^T + (dP * D_ij) K
//     d_k = diag(gamma_C / gamma) V' D^T - diag(beta gamma) Y S^T + (dP * D_ij)^T Q + (N + N^T) K
//     d_v = diag(beta) Y
//     d_beta_i = Y_i . v_i - k_i . (diag(gamma) Y S^T)_i + sum_j dL_ij D_ij k_i . k_j
//
// That is Y . r with the r of the recurrence, and no quotient by beta, which may be zero. With
// a_i = q_i . (diag(gamma) dO S^T)_i, z_i = -k_i . (diag(beta gamma) Y S^T)_i,
// e_i = k_i . (diag(gamma_C / gamma) V' D^T)_i and M_ij = P_ij dP_ij + L_ij dL_ij for i > j:
//
//     d_log_decay_t = gamma_C <D, S> + sum_{i >= t} (a_i + z_i) + sum_{j < t} e_j + sum_{i >= t > j} M_ij
//
// Every term holds the factor exp(g_t): sums of rows less sums of columns are the same number, but of terms
// that do not, and lose it where it is small. A full reset gives zeros exactly. A d_decay is this by the
// decay, where that is not so small that nothing is left to divide; there it is
// <S before the token, D behind its decay>, element by element.
//
// A block for each chunk and value head of a group. Summands of d_q and d_k are stored apart for each value head
// (sums.cuh).
//
// Bound by: issue, of loads above all: a product of 16 x 16 x 16 loads its operands from the L1, and one of
// them from shared memory, for 12 instructions of the tensor cores.
#pragma once

#include "cuda/gated_delta_backward/chunk/chunk_gradients.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kGradientWarps = 8;
constexpr int kGradientThreads = 32 * kGradientWarps;
constexpr int kGradientGroup = 2;  ///< blocks of 16 key channels that a warp sums at a time
constexpr int kGradientGroups = kMostKeyChannels / 16 / kGradientGroup;
/// Decays below it are not divided by.
constexpr float kLeastDivisor = 1e-20f;

template <int C>
struct GradientShared {
  ChunkGates<C> gates;
  float dP[C * kTriangleStride<C>];  ///< dP * D_ij
  float N[C * kTriangleStride<C>];
  float M[C * (C + 1)];                ///< strictly lower part; later its exclusive sums along rows
  float of_query[kGradientGroups][C];  ///< a, by groups of key channels
  float of_d_state[kGradientGroups][C];  ///< e
  float of_written[kGradientGroups][C];  ///< k . (diag(gamma) Y S^T)
  float of_products[C / 16][C];          ///< sum_j dL_ij D_ij k_i . k_j, by blocks of j
  float of_value[C];                     ///< Y . v
  float before[C];                       ///< of a token: decays from the chunk's tokens to it
  float behind[C];                       ///< and from it to them
  float warp_sums[kGradientWarps];
};

/// The sum over the block's threads, in the same order always; to all of them.
__device__ __forceinline__ float gradient_block_sum(float x, float* warp_sums) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  __syncthreads();  // the sum before has been read
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kGradientWarps; ++warp) sum += warp_sums[warp];
  return sum;
}

template <int C>
class ChunkGradientsBlock {
  static constexpr int kBlocks = C / 16;
  static constexpr int kStride = kTriangleStride<C>;
  static constexpr int kMStride = C + 1;

 public:
  __device__ __forceinline__ ChunkGradientsBlock(const BackwardParams& backward,
                                                 const ChunkGradients& w,
                                                 const GradientParts& parts,
                                                 GradientShared<C>& shared, const ChunkSpan& span,
                                                 int chunk, int head)
      : b_(backward),
        p_(backward.forward),
        parts_(parts),
        shared_(shared),
        gates_(shared.gates),
        tiles_(p_, w, chunk, head),
        span_(span),
        head_(head),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % 32),
        warp_(thread_ / 32),
        key_blocks_(tiles_.key_stride / 16),
        value_blocks_(tiles_.value_stride / 16) {}

  __device__ void run() {
    constexpr int kGateFloats = static_cast<int>(sizeof(ChunkGates<C>) / sizeof(float));
    for (int r = thread_; r < kGateFloats; r += kGradientThreads) {
      reinterpret_cast<float*>(&shared_.gates)[r] =
          reinterpret_cast<const float*>(&tiles_.gates())[r];
    }
    for (int e = thread_; e < C * kMStride; e += kGradientThreads) shared_.M[e] = 0;
    __syncthreads();
    for (int item = warp_; item < triangle_blocks(C); item += kGradientWarps) {
      int i = 0;
      while (triangle_block(i + 1, 0) <= item) ++i;
      pair_gradients(i, item - triangle_block(i, 0));
    }
    value_gradients();
    __syncthreads();
    const int groups = (key_blocks_ + kGradientGroup - 1) / kGradientGroup;
    for (int item = warp_; item < 2 * kBlocks * groups; item += kGradientWarps) {
      const int i = item / 2 / groups, group = item / 2 % groups;
      if (item % 2) {
        key_gradients(i, group);
      } else {
        query_gradients(i, group);
      }
    }
    if (thread_ < C) {  // M's rows to their exclusive sums
      float sum = 0;
      for (int c = 0; c < C; ++c) {
        float& at = shared_.M[thread_ * kMStride + c];
        const float here = at;
        at = sum;
        sum += here;
      }
    }
    float product = 0;
    const int elements = tiles_.value_stride * tiles_.key_stride;
    for (int e = thread_; e < elements; e += kGradientThreads) {
      product = fmaf(tiles_.state()[e], tiles_.d_state()[e], product);
    }
    product = gradient_block_sum(product, shared_.warp_sums);  // and the barrier
    gate_gradients(groups, gates_.gamma[C - 1] * product);
    if (p_.gates.gate_encoding == GateEncoding::decay) gradients_of_small_decays();
  }

 private:
  using Group = Accumulator[kGradientGroup];

  /// Of the chunk's tokens in pairs: blocks (i, j) of dP * D_ij, N and M.
  __device__ void pair_gradients(int i, int j) {
    Accumulator dP = zero_accumulator(), dL = zero_accumulator();
    for (int vv = 0; vv < value_blocks_; ++vv) {
      const auto value =
          load_fragment(tiles_.values(), tiles_.value_stride, 16 * j, 16 * vv, lane_);
      multiply_add(
          dP, load_fragment(tiles_.d_output(), tiles_.value_stride, 16 * i, 16 * vv, lane_), value);
      multiply_add(
          dL, load_fragment(tiles_.d_values(), tiles_.value_stride, 16 * i, 16 * vv, lane_), value);
    }
    Accumulator of_query = zero_accumulator(), of_key = zero_accumulator();
    for (int kk = 0; kk < key_blocks_; ++kk) {
      const auto key = load_fragment(tiles_.key(), tiles_.key_stride, 16 * j, 16 * kk, lane_);
      multiply_add(of_query,
                   load_fragment(tiles_.query(), tiles_.key_stride, 16 * i, 16 * kk, lane_), key);
      multiply_add(of_key, load_fragment(tiles_.key(), tiles_.key_stride, 16 * i, 16 * kk, lane_),
                   key);
    }
    Accumulator N;
    float row_sums[2] = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int r = 16 * i + fragment_row(lane_, e), c = 16 * j + fragment_column(lane_, e);
      const float decay = decay_between(gates_, r, c);
      const float of_output = r >= c ? decay * dP.value[e] : 0.0f;
      const float of_L = r > c ? -decay * dL.value[e] : 0.0f;
      dP.value[e] = of_output;
      N.value[e] = gates_.beta[r] * of_L;
      row_sums[e / 2 % 2] = fmaf(of_L, of_key.value[e], row_sums[e / 2 % 2]);
      if (r > c) {
        shared_.M[r * kMStride + c] =
            fmaf(of_query.value[e], of_output, of_key.value[e] * N.value[e]);
      }
    }
    store_block(shared_.dP, kStride, 16 * i, 16 * j, dP, lane_);
    store_block(shared_.N, kStride, 16 * i, 16 * j, N, lane_);
    store_row_sums(row_sums, shared_.of_products[j] + 16 * i);
  }

  /// Rows lane / 4 and 8 below, summed over the four lanes that share them.
  __device__ __forceinline__ void store_row_sums(float (&sums)[2], float* rows) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums[half] += __shfl_xor_sync(~0u, sums[half], 1);
      sums[half] += __shfl_xor_sync(~0u, sums[half], 2);
      if (lane_ % 4 == 0) rows[lane_ / 4 + 8 * half] = sums[half];
    }
  }

  /// d_v, and Y . v of each token: a warp for a token at a time.
  __device__ void value_gradients() {
    for (int r = warp_; r < C; r += kGradientWarps) {
      float sum = 0;
      if (r < span_.length) {
        const std::int64_t token = span_.first_token + r;
        const std::int64_t first =
            token * p_.value_token_stride + static_cast<std::int64_t>(head_) * p_.value_head_dim;
        for (int v = lane_; v < p_.value_head_dim; v += 32) {
          const float y = tiles_.d_values()[r * tiles_.value_stride + v];
          sum = fmaf(y, load_element(p_.value, first + v, b_.token_dtype), sum);
          store_element(p_.output, output_index(p_, token, head_, v), p_.output_dtype,
                        gates_.beta[r] * y);
        }
      }
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
      if (lane_ == 0) shared_.of_value[r] = sum;
    }
  }

  /// rows [C, v] by a state [k, v]: 16 tokens, the group's key channels.
  __device__ __forceinline__ void multiply_state(const float* rows, const float* state, int i,
                                                 int group, Group& sums) const {
#pragma unroll
    for (int g = 0; g < kGradientGroup; ++g) sums[g] = zero_accumulator();
    for (int vv = 0; vv < value_blocks_; ++vv) {
      const auto operand = load_fragment(rows, tiles_.value_stride, 16 * i, 16 * vv, lane_);
#pragma unroll
      for (int g = 0; g < kGradientGroup; ++g) {
        const int kk = group * kGradientGroup + g;
        if (kk >= key_blocks_) continue;
        multiply_add(sums[g], operand,
                     load_fragment(state, tiles_.value_stride, 16 * kk, 16 * vv, lane_));
      }
    }
  }
  /// sums += a block of a triangle by 16 rows of the tile of queries or keys.
  __device__ __forceinline__ void add_rows(const Fragment<float>& triangle, const float* tile,
                                           int row, int group, Group& sums) const {
#pragma unroll
    for (int g = 0; g < kGradientGroup; ++g) {
      const int kk = group * kGradientGroup + g;
      if (kk >= key_blocks_) continue;
      multiply_add(sums[g], triangle,
                   load_fragment_transposed(tile, tiles_.key_stride, row, 16 * kk, lane_));
    }
  }
  /// Rows times their factors, and their products with the rows of a tile, of the group's key channels.
  __device__ __forceinline__ void scale_and_dot(const float* factors, const float* tile, int i,
                                                int group, Group& sums, float* dots) const {
    float row_sums[2] = {};
#pragma unroll
    for (int g = 0; g < kGradientGroup; ++g) {
      const int kk = group * kGradientGroup + g;
      if (kk >= key_blocks_) continue;
      const Accumulator rows =
          widen<float>(load_fragment(tile, tiles_.key_stride, 16 * i, 16 * kk, lane_));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        sums[g].value[e] *= factors[16 * i + fragment_row(lane_, e)];
        row_sums[e / 2 % 2] = fmaf(rows.value[e], sums[g].value[e], row_sums[e / 2 % 2]);
      }
    }
    store_row_sums(row_sums, dots + 16 * i);
  }

  __device__ void query_gradients(int i, int group) {
    Group sums;
    multiply_state(tiles_.d_output(), tiles_.state(), i, group, sums);
    scale_and_dot(gates_.gamma, tiles_.query(), i, group, sums, shared_.of_query[group]);
    for (int j = 0; j <= i; ++j) {
      add_rows(load_fragment(shared_.dP, kStride, 16 * i, 16 * j, lane_), tiles_.key(), 16 * j,
               group, sums);
    }
    store_summands(0, i, group, p_.scale, sums);
  }

  __device__ void key_gradients(int i, int group) {
    Group sums, read;
    multiply_state(tiles_.values(), tiles_.d_state(), i, group, sums);
    scale_and_dot(gates_.remaining, tiles_.key(), i, group, sums, shared_.of_d_state[group]);
    multiply_state(tiles_.d_values(), tiles_.state(), i, group, read);
    scale_and_dot(gates_.gamma, tiles_.key(), i, group, read, shared_.of_written[group]);
#pragma unroll
    for (int g = 0; g < kGradientGroup; ++g) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        sums[g].value[e] =
            fmaf(-gates_.beta[16 * i + fragment_row(lane_, e)], read[g].value[e], sums[g].value[e]);
      }
    }
    for (int j = 0; j <= i; ++j) {
      add_rows(load_fragment(shared_.N, kStride, 16 * i, 16 * j, lane_), tiles_.key(), 16 * j,
               group, sums);
    }
    for (int j = i; j < kBlocks; ++j) {
      add_rows(load_fragment_transposed(shared_.N, kStride, 16 * j, 16 * i, lane_), tiles_.key(),
               16 * j, group, sums);
      add_rows(load_fragment_transposed(shared_.dP, kStride, 16 * j, 16 * i, lane_), tiles_.query(),
               16 * j, group, sums);
    }
    store_summands(1, i, group, 1, sums);
  }

  __device__ __forceinline__ void store_summands(int of_key, int i, int group, float factor,
                                                 const Group& sums) const {
#pragma unroll
    for (int g = 0; g < kGradientGroup; ++g) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int r = 16 * i + fragment_row(lane_, e);
        const int k = 16 * (group * kGradientGroup + g) + fragment_column(lane_, e);
        if (r >= span_.length || k >= p_.key_head_dim) continue;
        parts_.keys[parts_.index(p_, 0, span_.first_token + r, head_, p_.key_head_dim) +
                    of_key * p_.key_head_dim + k] = factor * sums[g].value[e];
      }
    }
  }

  /// A thread for each token.
  __device__ void gate_gradients(int groups, float of_states) {
    if (thread_ >= span_.length) return;
    const int t = thread_;
    float d_gate = of_states, d_beta = shared_.of_value[t];
    for (int i = 0; i < span_.length; ++i) {
      for (int group = 0; group < groups; ++group) {
        if (i >= t) {
          d_gate += shared_.of_query[group][i];
          d_gate = fmaf(-gates_.beta[i], shared_.of_written[group][i], d_gate);
        } else {
          d_gate += shared_.of_d_state[group][i];
        }
      }
      if (i >= t) d_gate += shared_.M[i * kMStride + t];
    }
    for (int group = 0; group < groups; ++group) d_beta -= shared_.of_written[group][t];
    for (int j = 0; j <= t / 16; ++j) d_beta += shared_.of_products[j][t];
    const std::int64_t token = span_.first_token + t;
    if (p_.gates.gate_encoding == GateEncoding::decay) {
      d_gate /= fmaxf(decay_of(p_.gates, token, head_), kLeastDivisor);
    }
    float* const summands = parts_.gates + parts_.index(p_, 0, token, head_, 1);
    summands[0] = d_gate;
    summands[1] = d_beta;
  }

  /// <S before the token, D behind its decay> of the tokens whose decay is too small to divide by.
  __device__ void gradients_of_small_decays() {
    for (int t = 0; t < span_.length; ++t) {
      const std::int64_t token = span_.first_token + t;
      if (decay_of(p_.gates, token, head_) >= kLeastDivisor) continue;
      __syncthreads();  // the factors of the token before have been read
      if (thread_ < C) {
        const int i = thread_;
        shared_.before[i] = i < t ? decay_between(gates_, t - 1, i) : 0.0f;
        shared_.behind[i] = i >= t ? decay_between(gates_, i, t) : 0.0f;
      }
      __syncthreads();
      const float from_start = t > 0 ? gates_.gamma[t - 1] : 1.0f;
      float product = 0;
      const int elements = tiles_.value_stride * tiles_.key_stride;
      for (int e = thread_; e < elements; e += kGradientThreads) {
        const int k = e / tiles_.value_stride, v = e % tiles_.value_stride;
        float S = from_start * tiles_.state()[e], D = gates_.remaining[t] * tiles_.d_state()[e];
        for (int i = 0; i < span_.length; ++i) {
          const int key = i * tiles_.key_stride + k, value = i * tiles_.value_stride + v;
          if (i < t) {
            S = fmaf(shared_.before[i] * tiles_.key()[key], tiles_.values()[value], S);
          } else {
            D +=
                shared_.behind[i] * (tiles_.query()[key] * tiles_.d_output()[value] -
                                     gates_.beta[i] * tiles_.key()[key] * tiles_.d_values()[value]);
          }
        }
        product = fmaf(S, D, product);
      }
      product = gradient_block_sum(product, shared_.warp_sums);
      if (thread_ == 0) parts_.gates[parts_.index(p_, 0, token, head_, 1)] = product;
    }
  }

  const BackwardParams& b_;
  const GatedDeltaParams& p_;
  const GradientParts& parts_;
  GradientShared<C>& shared_;
  const ChunkGates<C>& gates_;
  const ChunkTiles<C> tiles_;
  const ChunkSpan span_;
  const int head_;
  const int thread_;
  const int lane_;
  const int warp_;
  const int key_blocks_;
  const int value_blocks_;
};

/// A padding sequence has no gradients: zeros.
__device__ __forceinline__ void store_zero_gradients(const GatedDeltaParams& p,
                                                     const GradientParts& parts,
                                                     const ChunkSpan& span, int head) {
  const int thread = static_cast<int>(threadIdx.x);
  const SequenceSpan tokens = {span.first_token, span.length, -1};
  store_zero_outputs(p, tokens, head, 0, p.value_head_dim, thread, kGradientThreads);
  for (int r = 0; r < span.length; ++r) {
    const std::int64_t token = span.first_token + r;
    for (int k = thread; k < 2 * p.key_head_dim; k += kGradientThreads) {
      parts.keys[parts.index(p, 0, token, head, p.key_head_dim) + k] = 0;
    }
    if (thread < 2) parts.gates[parts.index(p, 0, token, head, 1) + thread] = 0;
  }
}

template <int C>
__global__ void __launch_bounds__(kGradientThreads, 2)
    backward_gradients_kernel(const BackwardParams backward, const ChunkGradients w,
                              const GradientParts parts) {
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  auto& shared = *reinterpret_cast<GradientShared<C>*>(shared_bytes);
  const GatedDeltaParams& p = backward.forward;
  const int chunk = static_cast<int>(blockIdx.x / w.heads.count);
  const int head = w.heads.first + static_cast<int>(blockIdx.x % w.heads.count);
  const ChunkSpan span = chunk_span<C>(p, w.forward.map, chunk);
  if (span.length == 0) return;
  if (span.padding) return store_zero_gradients(p, parts, span, head);
  ChunkGradientsBlock<C>(backward, w, parts, shared, span, chunk, head).run();
}

}  // namespace gdn::GDN_CUDA_TARGET
