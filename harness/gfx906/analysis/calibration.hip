// Small kernels that each ask one thing of the card: what the cost model says of them is held
// against published figures.
#include <hip/hip_runtime.h>

#include "harness/gfx906/analysis/params.h"

namespace gdn::hip {
namespace {

__device__ __forceinline__ std::int64_t item() {
  return static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
}

/// kBodyOperations uses of `operation` per round, in `chains` independent chains.
template <int chains, typename T, typename F>
__device__ __forceinline__ void run_chains(const CalibrationParams& p, T start, F operation) {
  T x[chains];
#pragma unroll
  for (int c = 0; c < chains; ++c) x[c] = start;
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kBodyOperations / chains; ++i) {
#pragma unroll
      for (int c = 0; c < chains; ++c) x[c] = operation(x[c], c);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < chains; ++c) sum += static_cast<float>(x[c]);
  p.sink[item()] = sum;
}

using Half2 = _Float16 __attribute__((ext_vector_type(2)));

/// Reads of 1, 2 or 4 words of LDS, summed; neighbouring lanes `stride` words apart.
template <typename Vector, int stride>
__device__ __forceinline__ void read_lds(const CalibrationParams& p) {
  constexpr int kPerVector = sizeof(Vector) / 4;
  constexpr int kWords = 64 * stride + 32 * kBodyOperations + 32;
  alignas(16) __shared__ float words[kWords];
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += 256) words[i] = p.source[0];
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 64;
  Vector sum = {};
  for (int round = 0; round < p.rounds; ++round) {  // other addresses than in the round before
    const Vector* const from =
        reinterpret_cast<const Vector*>(&words[lane * stride + 32 * (round & 1)]);
#pragma unroll
    for (int i = 0; i < kBodyOperations; ++i) sum += from[i * 32 / kPerVector];
  }
  if constexpr (kPerVector == 1) {
    p.sink[item()] = sum;
  } else {
    p.sink[item()] = sum[0] + sum[kPerVector - 1];
  }
}
using Float2 = float __attribute__((ext_vector_type(2)));
using Float4 = float __attribute__((ext_vector_type(4)));

}  // namespace

extern "C" {

__global__ __launch_bounds__(256) void calibrate_fma_independent(CalibrationParams p) {
  run_chains<8>(p, p.source[0], [](float x, int) { return fmaf(x, 0.5f, 1.0f); });
}
__global__ __launch_bounds__(256) void calibrate_fma_dependent(CalibrationParams p) {
  run_chains<1>(p, p.source[0], [](float x, int) { return fmaf(x, 0.5f, 1.0f); });
}
__global__ __launch_bounds__(256) void calibrate_fma_float64(CalibrationParams p) {
  run_chains<8>(p, static_cast<double>(p.source[0]),
                [](double x, int) { return fma(x, 0.5, 1.0); });
}
__global__ __launch_bounds__(256) void calibrate_reciprocal(CalibrationParams p) {
  run_chains<8>(p, p.source[0], [](float x, int) { return __builtin_amdgcn_rcpf(x); });
}
__global__ __launch_bounds__(256) void calibrate_fma_packed_float16(CalibrationParams p) {
#pragma clang fp contract(fast)
  const auto h = static_cast<_Float16>(p.source[0]);
  Half2 x[8];
#pragma unroll
  for (int c = 0; c < 8; ++c) x[c] = Half2{h, h};
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kBodyOperations; ++i) x[i % 8] = x[i % 8] * Half2{h, h} + Half2{h, h};
  }
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < 8; ++c) sum += static_cast<float>(x[c][0]) + static_cast<float>(x[c][1]);
  p.sink[item()] = sum;
}
__global__ __launch_bounds__(256) void calibrate_dot2_float16(CalibrationParams p) {
  const auto h = static_cast<_Float16>(p.source[0]);
  run_chains<8>(p, p.source[0], [h](float x, int) {
    return __builtin_amdgcn_fdot2(Half2{h, h}, Half2{h, h}, x, false);
  });
}
__global__ __launch_bounds__(256) void calibrate_exchange_bpermute(CalibrationParams p) {
  const int from = (static_cast<int>(threadIdx.x) ^ 1) * 4;
  run_chains<8>(p, static_cast<int>(p.source[0]),
                [from](int x, int) { return __builtin_amdgcn_ds_bpermute(from, x); });
}
__global__ __launch_bounds__(256) void calibrate_exchange_dpp(CalibrationParams p) {
  run_chains<8>(p, static_cast<int>(p.source[0]), [](int x, int) {
    return __builtin_amdgcn_update_dpp(0, x, 0x111, 0xf, 0xf, true);  // row_shr:1
  });
}

__global__ __launch_bounds__(256) void calibrate_lds_read_b32(CalibrationParams p) {
  read_lds<float, 1>(p);
}
__global__ __launch_bounds__(256) void calibrate_lds_read_b64(CalibrationParams p) {
  read_lds<Float2, 2>(p);
}
__global__ __launch_bounds__(256) void calibrate_lds_read_b128(CalibrationParams p) {
  read_lds<Float4, 4>(p);
}
/// Every lane in the same bank.
__global__ __launch_bounds__(256) void calibrate_lds_read_conflict(CalibrationParams p) {
  read_lds<float, 32>(p);
}
/// Each address is what the previous read returned.
__global__ __launch_bounds__(256) void calibrate_lds_chase(CalibrationParams p) {
  __shared__ int next[64];  // in bytes: nothing is left to compute between two reads
  if (threadIdx.x < 64) next[threadIdx.x] = (static_cast<int>(threadIdx.x) + 1) % 64 * 4;
  __syncthreads();
  int at = static_cast<int>(threadIdx.x % 64) * 4;
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kBodyOperations; ++i) {
      at = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(next) + at);
    }
  }
  p.sink[item()] = static_cast<float>(at);
}
__global__ __launch_bounds__(256) void calibrate_memory_chase(CalibrationParams p) {
  std::int64_t at = threadIdx.x;
  const auto* const next = reinterpret_cast<const std::int64_t*>(p.source);
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kBodyOperations; ++i) at = next[at];
  }
  p.sink[item()] = static_cast<float>(static_cast<int>(at));
}
__global__ __launch_bounds__(256) void calibrate_memory_copy(CalibrationParams p) {
  const auto* const from = reinterpret_cast<const Float4*>(p.source);
  auto* const to = reinterpret_cast<Float4*>(p.destination);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * 256;
  for (std::int64_t i = item(); i < p.elements / 4; i += 4 * step) {
    Float4 x[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) x[k] = from[i + k * step];
#pragma unroll
    for (int k = 0; k < 4; ++k) to[i + k * step] = x[k];
  }
}
__global__ __launch_bounds__(256) void calibrate_memory_read(CalibrationParams p) {
  const auto* const from = reinterpret_cast<const Float4*>(p.source);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * 256;
  Float4 sum = {};
  for (std::int64_t i = item(); i < p.elements / 4; i += 4 * step) {
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += from[i + k * step];
  }
  p.sink[item()] = sum[0] + sum[1] + sum[2] + sum[3];
}

}  // extern "C"

}  // namespace gdn::hip
