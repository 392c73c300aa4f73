// Kernels the HIP device uses itself: a wait that holds the stream while a measurement is queued,
// the two that measure what the card can do (copy bandwidth, float32 multiply-adds), one that copies
// rows of pools, and two that make integers with scales of float32 values: states in int8. Those read each value
// twice, for its channel's largest magnitude and to round it; device memory bounds them, by estimate.
#include <hip/hip_runtime.h>

#include "hip/lanes_device.h"
#include "hip/support.h"

namespace gdn::hip {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000u;

__device__ __forceinline__ std::uint32_t magnitude_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value) & 0x7fffffffu;
}
/// Of a channel of this largest magnitude, as bits without the sign: NaN lies above infinity.
__device__ __forceinline__ float scale_of(std::uint32_t largest) {
  if (largest > kInfinityBits) return __builtin_bit_cast(float, 0x7fc00000u);
  const float quotient = __builtin_bit_cast(float, largest) / 127.0f;
  return quotient < 0x1p-126f ? 0.0f : quotient;
}
__device__ __forceinline__ std::int8_t element_of(float value, float scale) {
  const bool is_zero = scale == 0.0f || magnitude_bits(scale) >= kInfinityBits;
  return is_zero ? std::int8_t{0} : static_cast<std::int8_t>(rintf(value / scale));
}
__device__ __forceinline__ std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return a < b ? b : a;
}

}  // namespace

extern "C" {

__global__ __launch_bounds__(64) void hold_stream(HoldParams p) {
  const volatile std::int32_t* const flag = p.flag;
  for (std::int64_t poll = 0; poll < p.max_polls && *flag == 0; ++poll) __builtin_amdgcn_s_sleep(8);
}

__global__ __launch_bounds__(256) void copy_words(CopyParams p) {
  const auto* const source = static_cast<const float4*>(p.source);
  auto* const destination = static_cast<float4*>(p.destination);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  for (std::int64_t i = first; i < p.elements; i += p.step) destination[i] = source[i];
}

__global__ __launch_bounds__(256) void copy_rows(RowCopyParams p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= p.elements) return;
  for (std::int64_t n = blockIdx.y; n < p.entries; n += p.entry_step) {
    const std::int64_t row = p.rows ? p.rows[n] : n;
    if (row < 0) continue;
    const std::int64_t from = row * p.from_row_stride + i * p.from_stride;
    const std::int64_t to = row * p.to_row_stride + i * p.to_stride;
    if (p.element_bytes == 2) {
      static_cast<std::uint16_t*>(p.to)[to] = static_cast<const std::uint16_t*>(p.from)[from];
    } else {
      static_cast<std::uint32_t*>(p.to)[to] = static_cast<const std::uint32_t*>(p.from)[from];
    }
  }
}

__global__ __launch_bounds__(256) void quantize_rows(QuantizeParams p) {
  const int lane = static_cast<int>(threadIdx.x) % kWave;
  constexpr int kChannels = 256 / kWave;  // of a workgroup
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kChannels + threadIdx.x / kWave;
  for (std::int64_t channel = first; channel < p.outer; channel += p.step * kChannels) {
    const float* const values = p.values + channel * p.extent;
    std::uint32_t largest = 0;
    for (std::int64_t i = lane; i < p.extent; i += kWave)
      largest = larger(largest, magnitude_bits(values[i]));
    for (int mask = kWave / 2; mask > 0; mask /= 2)
      largest = larger(largest, shuffle_xor(largest, mask));
    const float scale = scale_of(largest);
    if (lane == 0) p.scales[channel] = scale;
    std::int8_t* const elements = p.elements + channel * p.extent;
    for (std::int64_t i = lane; i < p.extent; i += kWave)
      elements[i] = element_of(values[i], scale);
  }
}

__global__ __launch_bounds__(64) void quantize_columns(QuantizeParams p) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 64 + threadIdx.x;
  if (column >= p.inner) return;
  for (std::int64_t outer = blockIdx.y; outer < p.outer; outer += p.step) {
    const std::int64_t begin = outer * p.extent * p.inner + column;
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < p.extent; ++i)
      largest = larger(largest, magnitude_bits(p.values[begin + i * p.inner]));
    const float scale = scale_of(largest);
    p.scales[outer * p.inner + column] = scale;
    for (std::int64_t i = 0; i < p.extent; ++i) {
      const std::int64_t at = begin + i * p.inner;
      p.elements[at] = element_of(p.values[at], scale);
    }
  }
}

__global__ __launch_bounds__(256) void fma_chain(FmaParams p) {
  constexpr int kChains = 8;
  float x[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) x[c] = static_cast<float>(threadIdx.x + c);
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kFmaPerRound / kChains; ++i) {
#pragma unroll
      for (int c = 0; c < kChains; ++c) x[c] = fmaf(x[c], 0.5f, 1.0f);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < kChains; ++c) sum += x[c];
  p.sink[static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x] = sum;
}

}  // extern "C"

}  // namespace gdn::hip
