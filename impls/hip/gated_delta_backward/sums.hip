// Gradients of gated_delta_backward that are sums, from the summands that recurrent.hip leaves in
// the workspace: d_q and d_k over tiles and the value heads of a key head, what gates and betas are
// made of over tiles, d_A_log and d_dt_bias over the batch. Each in a fixed order, without atomics:
// the same bits always. Sums over the batch are float32 with what each addition rounds away added
// up beside it: kernels here have no float64.
//
// Bound by: memory traffic, every summand read once.
#include "hip/compensated_sum_device.h"
#include "hip/gated_delta_backward/gate_slopes_device.h"
#include "hip/gated_delta_backward/params.h"

namespace gdn::hip {
namespace {

constexpr int kThreads = kBackwardSumThreads;
constexpr int kSumWaves = kThreads / kWave;
constexpr int kLaneRows = 256 / kWave;  ///< of a wave's vector

/// A wave for each token, key head, and query (0) or key (1): the sum, then from the gradient of
/// y = x / n, n = sqrt(|x|^2 + eps), to that of x: (dy - y (y . dy)) / n. Grid: x = tokens,
/// y = key head, z = query or key.
__device__ __forceinline__ void sum_keys(const BackwardParams& b) {
  const GatedDeltaParams& p = b.delta;
  const int lane = static_cast<int>(threadIdx.x) % kWave;
  const int wave = uniform(static_cast<int>(threadIdx.x) / kWave);
  const int Dk = p.key_head_dim;
  const int key_head = static_cast<int>(blockIdx.y), of_key = static_cast<int>(blockIdx.z);
  const std::int64_t tokens = p.sequence_offsets[p.num_sequences];
  const std::int64_t step = static_cast<std::int64_t>(b.blocks) * kSumWaves;
  for (std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kSumWaves + wave;
       token < tokens; token += step) {
    float gradient[kLaneRows] = {};
    for (int in_group = 0; in_group < b.value_heads_per_key_head; ++in_group) {
      const int head = key_head * b.value_heads_per_key_head + in_group;
      for (int tile = 0; tile < b.tiles; ++tile) {
        const std::int64_t row = (tile * b.tokens + token) * p.num_value_heads + head;
        const float* const summands = b.key_parts + (2 * row + of_key) * b.key_width;
#pragma unroll
        for (int r = 0; r < kLaneRows; ++r) {
          const int k = lane + kWave * r;
          if (k < Dk) gradient[r] += summands[k];
        }
      }
    }
    if (p.normalize_qk != 0) {
      const void* const array = of_key != 0 ? p.key : p.query;
      const std::int64_t first = token * (of_key != 0 ? p.key_token_stride : p.query_token_stride) +
                                 static_cast<std::int64_t>(key_head) * Dk;
      float x[kLaneRows];
      float squares = 0.0f;
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r) {
        const int k = lane + kWave * r;
        x[r] = k < Dk ? load_element(array, p.token_element, first + k) : 0.0f;
        squares = fmaf(x[r], x[r], squares);
      }
      const float length = sqrtf(DppSum::sum(squares) + kNormEpsilon);
      float along = 0.0f;
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r) {
        x[r] /= length;
        along = fmaf(x[r], gradient[r], along);
      }
      along = DppSum::sum(along);
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r) gradient[r] = fmaf(-x[r], along, gradient[r]) / length;
    }
    const std::int64_t first = (token * b.num_key_heads + key_head) * Dk;
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const int k = lane + kWave * r;
      if (k < Dk) {
        store_element(of_key != 0 ? b.d_key : b.d_query, p.token_element, first + k, gradient[r]);
      }
    }
  }
}

/// A lane for each token and value head. Grid: x = tokens, y = value head.
__device__ __forceinline__ void sum_gates(const BackwardParams& b) {
  const GatedDeltaParams& p = b.delta;
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t tokens = p.sequence_offsets[p.num_sequences];
  const std::int64_t step = static_cast<std::int64_t>(b.blocks) * kThreads;
  for (std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       token < tokens; token += step) {
    const std::int64_t i = token * p.num_value_heads + head;
    float d_gate = 0.0f, d_beta = 0.0f;
    for (int tile = 0; tile < b.tiles; ++tile) {
      const float* const summands = b.gate_parts + 2 * (tile * b.tokens * p.num_value_heads + i);
      d_gate += summands[0];
      d_beta += summands[1];
    }
    b.d_beta[i] = d_beta * beta_slope(p, p.beta[token * p.beta_token_stride + head]);
    float of_A_log = 0.0f;
    // After a full reset nothing depends on the gate, whatever its own derivative is.
    if (d_gate != 0.0f) {
      const GateSlopes slopes =
          gate_slopes(p, head_gates(p, head), p.gate[token * p.gate_token_stride + head]);
      of_A_log = d_gate * slopes.of_A_log;
      d_gate *= slopes.of_gate;
    }
    b.d_gate[i] = d_gate;
    if (b.A_log_terms != nullptr) b.A_log_terms[i] = of_A_log;
  }
}

struct BatchSums {
  float sum[2][kThreads];  ///< of A_log, of dt_bias
  float rest[2][kThreads];

  __device__ __forceinline__ void store(int which, int thread, const CompensatedSum& x) {
    sum[which][thread] = x.sum;
    rest[which][thread] = x.rest;
  }
  __device__ __forceinline__ CompensatedSum load(int which, int thread) const {
    return {sum[which][thread], rest[which][thread]};
  }
};

/// A workgroup for each value head.
__device__ __forceinline__ void sum_batch(const BackwardParams& b) {
  GDN_LDS(shared, BatchSums);
  const GatedDeltaParams& p = b.delta;
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.x);
  const std::int64_t tokens = p.sequence_offsets[p.num_sequences];
  CompensatedSum of_A_log, of_bias;
  for (std::int64_t token = thread; token < tokens; token += kThreads) {
    of_A_log.add(b.A_log_terms[token * p.num_value_heads + head]);
    of_bias.add(b.d_gate[token * p.num_value_heads + head]);
  }
  shared.store(0, thread, of_A_log);
  shared.store(1, thread, of_bias);
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      of_A_log.add(shared.load(0, thread + half));
      of_bias.add(shared.load(1, thread + half));
      shared.store(0, thread, of_A_log);
      shared.store(1, thread, of_bias);
    }
  }
  if (thread != 0) return;
  b.d_A_log[head] = of_A_log.sum + of_A_log.rest;
  b.d_dt_bias[head] = of_bias.sum + of_bias.rest;
}

}  // namespace

extern "C" {
__global__ __launch_bounds__(kThreads) void backward_sum_keys(BackwardParams b) { sum_keys(b); }
__global__ __launch_bounds__(kThreads) void backward_sum_gates(BackwardParams b) { sum_gates(b); }
__global__ __launch_bounds__(kThreads) void backward_sum_batch(BackwardParams b) { sum_batch(b); }
}

}  // namespace gdn::hip
