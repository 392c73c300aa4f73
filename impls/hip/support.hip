// Kernels the HIP device uses itself: a wait that holds the stream while a measurement is queued,
// the two that measure what the card can do (copy bandwidth, float32 multiply-adds), and one that
// copies rows of pools.
#include <hip/hip_runtime.h>

#include "hip/support.h"

namespace gdn::hip {

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
