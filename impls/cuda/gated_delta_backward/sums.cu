#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/gated_delta_backward/gate_slopes.cuh"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kLaneKeys = kMostKeyChannels / kWarp;
constexpr unsigned int kAllLanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, offset);
  }
  return x;
}

/// A warp for each token, key head, and query (0) or key (1): the sum over value heads and their parts, and
/// from the gradient of y = x / n, n = sqrt(|x|^2 + eps), to that of x: (dy - y (y . dy)) / n.
__global__ void __launch_bounds__(kThreads)
    sum_keys_kernel(const BackwardParams backward, const GradientParts parts) {
  const GatedDeltaParams& p = backward.forward;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t tokens = p.sequence_offsets[p.num_sequences];
  const std::int64_t count = tokens * p.num_key_heads * 2;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
       i < count; i += step) {
    const int of_key = static_cast<int>(i % 2);
    const int key_head = static_cast<int>(i / 2 % p.num_key_heads);
    const std::int64_t token = i / 2 / p.num_key_heads;
    const int first_head = key_head * p.value_heads_per_key_head;

    float gradient[kLaneKeys] = {};
    for (int head = first_head; head < first_head + p.value_heads_per_key_head; ++head) {
      for (int part = 0; part < parts.parts; ++part) {
        const float* const summands = parts.keys +
                                      parts.index(p, part, token, head, p.key_head_dim) +
                                      of_key * p.key_head_dim;
#pragma unroll
        for (int j = 0; j < kLaneKeys; ++j) {
          const int k = lane + j * kWarp;
          if (k < p.key_head_dim) gradient[j] += summands[k];
        }
      }
    }
    if (p.normalize_qk) {
      const void* const array = of_key ? p.key : p.query;
      const std::int64_t first = token * (of_key ? p.key_token_stride : p.query_token_stride) +
                                 static_cast<std::int64_t>(key_head) * p.key_head_dim;
      float x[kLaneKeys];
      float squares = 0;
#pragma unroll
      for (int j = 0; j < kLaneKeys; ++j) {
        const int k = lane + j * kWarp;
        x[j] = k < p.key_head_dim ? load_element(array, first + k, backward.token_dtype) : 0.0f;
        squares = fmaf(x[j], x[j], squares);
      }
      const float length = sqrtf(warp_sum(squares) + kNormEpsilon);
      float along = 0;
#pragma unroll
      for (int j = 0; j < kLaneKeys; ++j) {
        x[j] /= length;
        along = fmaf(x[j], gradient[j], along);
      }
      along = warp_sum(along);
#pragma unroll
      for (int j = 0; j < kLaneKeys; ++j) {
        gradient[j] = fmaf(-x[j], along, gradient[j]) / length;
      }
    }
    const std::int64_t first = (token * p.num_key_heads + key_head) * p.key_head_dim;
#pragma unroll
    for (int j = 0; j < kLaneKeys; ++j) {
      const int k = lane + j * kWarp;
      if (k >= p.key_head_dim) continue;
      store_element(of_key ? backward.d_key : backward.d_query, first + k, backward.token_dtype,
                    gradient[j]);
    }
  }
}

/// Value heads that a block of gate_gradients_kernel takes, side by side: a power of two.
__host__ __device__ constexpr int heads_side_by_side(int heads) {
  int side_by_side = 1;
  while (side_by_side < heads && side_by_side < kWarp) side_by_side *= 2;
  return side_by_side;
}

/// A block for kTokensOfBatchSum tokens and some value heads: the gradients of their gates and betas, and these tokens'
/// parts of d_A_log and d_dt_bias.
__global__ void __launch_bounds__(kThreads)
    gate_gradients_kernel(const BackwardParams backward, const GradientParts parts) {
  __shared__ double shared[2][kThreads];
  const GatedDeltaParams& p = backward.forward;
  const int width = heads_side_by_side(p.num_value_heads);
  const int groups = (p.num_value_heads + width - 1) / width;
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.x) % groups * width + thread % width;
  const std::int64_t block = static_cast<int>(blockIdx.x) / groups;
  const std::int64_t tokens = p.sequence_offsets[p.num_sequences];
  const std::int64_t end = min(tokens, (block + 1) * kTokensOfBatchSum);
  double of_A_log = 0;
  double of_bias = 0;
  if (head < p.num_value_heads) {
    const HeadGates of_head = head_gates(p.gates, head, head);
    for (std::int64_t token = block * kTokensOfBatchSum + thread / width; token < end;
         token += kThreads / width) {
      float d_gate = 0;
      float d_beta = 0;
      for (int part = 0; part < parts.parts; ++part) {
        const float* const summands = parts.gates + parts.index(p, part, token, head, 1);
        d_gate += summands[0];
        d_beta += summands[1];
      }
      const std::int64_t at = token * p.num_value_heads + head;
      backward.d_beta[at] = d_beta * beta_slope(p.gates, load_number(p.gates.beta, token, head));
      // After a full reset nothing depends on the gate, whatever its own derivative is.
      if (d_gate != 0) {
        const GateSlopes slopes =
            gate_slopes(p.gates, load_number(p.gates.gate, token, head), of_head);
        of_A_log += static_cast<double>(d_gate) * slopes.of_A_log;
        d_gate *= slopes.of_gate;
      }
      backward.d_gate[at] = d_gate;
      of_bias += d_gate;
    }
  }
  if (backward.d_A_log == nullptr) return;
  shared[0][thread] = of_A_log;
  shared[1][thread] = of_bias;
  __syncthreads();
  if (thread >= 2 * width) return;
  const int which = thread / width;
  double sum = 0;
  for (int i = thread % width; i < kThreads; i += width) sum += shared[which][i];
  if (head < p.num_value_heads)
    parts.batch_sums(p)[2 * (block * p.num_value_heads + head) + which] = sum;
}

/// The sum over the block's threads, in the same order always; to every thread.
__device__ double block_sum(double x, double* shared) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // the sum before has been read
  shared[thread] = x;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] += shared[thread + half];
  }
  __syncthreads();
  return shared[0];
}

/// A block for each value head: d_A_log and d_dt_bias.
__global__ void __launch_bounds__(kThreads)
    batch_sums_kernel(const BackwardParams backward, const GradientParts parts) {
  __shared__ double shared[kThreads];
  const int heads = backward.forward.num_value_heads, head = static_cast<int>(blockIdx.x);
  const std::int64_t blocks = parts.batch_sum_blocks();
  double of_A_log = 0;
  double of_bias = 0;
  for (std::int64_t block = threadIdx.x; block < blocks; block += kThreads) {
    const double* const sums = parts.batch_sums(backward.forward) + 2 * (block * heads + head);
    of_A_log += sums[0];
    of_bias += sums[1];
  }
  of_A_log = block_sum(of_A_log, shared);
  of_bias = block_sum(of_bias, shared);
  if (threadIdx.x == 0) {
    backward.d_A_log[head] = static_cast<float>(of_A_log);
    backward.d_dt_bias[head] = static_cast<float>(of_bias);
  }
}

}  // namespace

void enqueue_gradient_sums(const BackwardParams& params, const GradientParts& parts,
                           cudaStream_t stream) {
  const std::int64_t rows = parts.tokens * params.forward.num_key_heads * 2;
  if (rows > 0) {
    const auto blocks =
        static_cast<unsigned int>(std::min<std::int64_t>((rows + kWarps - 1) / kWarps, 1 << 16));
    launch_kernel(sum_keys_kernel, blocks, kThreads, 0, stream, params, parts);
  }
  enqueue_gate_sums(params, parts, stream);
}

void enqueue_gate_sums(const BackwardParams& params, const GradientParts& parts,
                       cudaStream_t stream) {
  const int heads = params.forward.num_value_heads, width = heads_side_by_side(heads);
  const std::int64_t blocks = parts.batch_sum_blocks() * ((heads + width - 1) / width);
  if (blocks > 0) {
    launch_kernel(gate_gradients_kernel, grid_blocks(blocks, "gradients of gates"), kThreads, 0,
                  stream, params, parts);
  }
  if (params.d_A_log != nullptr) {
    launch_kernel(batch_sums_kernel, static_cast<unsigned int>(heads), kThreads, 0, stream, params,
                  parts);
  }
}
int gate_sum_launches(const BackwardParams& params, const GradientParts& parts) {
  return (parts.tokens > 0 ? 1 : 0) + (params.d_A_log != nullptr ? 1 : 0);
}

}  // namespace gdn::GDN_CUDA_TARGET
