// Float32 values to int8 with a scale for each channel, in one launch: every channel is read twice, for its largest
// magnitude and to be rounded.
//
// Where a channel is contiguous (states [.., Dk, Dv], a channel a row) a warp has one. Where it is a column (states
// [.., Dv, Dk]) a block has 32 neighbouring ones, a lane each, and its eight warps divide the rows. Either way a warp
// reads 128 neighbouring bytes at a time, and writes 32.
//
// The largest magnitude is the largest of the values' bits without their signs, as integers: infinity lies above every
// finite number and NaN above infinity, and the order in which they are compared changes nothing.
//
// Bound by: device memory, 4 bytes read and 1 written for each value, if the second reading finds them in a cache: a
// column block of 128 rows is 16 KiB, a row 512 bytes. Not timed.
#include <cmath>
#include <cstdint>

#include "cuda/channel_quantization.h"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/shared_memory.cuh"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kLanes = 32;
constexpr int kWarps = 8;
constexpr std::uint32_t kInfinityBits = 0x7f800000u;
constexpr std::uint32_t kNaNBits = 0x7fc00000u;

__device__ __forceinline__ std::uint32_t magnitude_bits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

/// Of a channel of this largest magnitude.
__device__ __forceinline__ float scale_of(std::uint32_t largest) {
  if (largest > kInfinityBits) return __uint_as_float(kNaNBits);
  const float quotient = __uint_as_float(largest) / static_cast<float>(kLargestInt8);
  return quotient < kSmallestScale ? 0.0f : quotient;
}

__device__ __forceinline__ std::int8_t element_of(float value, float scale) {
  const bool is_zero = scale == 0.0f || magnitude_bits(scale) >= kInfinityBits;
  return is_zero ? std::int8_t{0} : static_cast<std::int8_t>(rintf(value / scale));
}

/// Grid: kWarps channels a block.
__global__ void __launch_bounds__(kLanes* kWarps) quantize_rows_kernel(ChannelQuantization q) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
  if (channel >= q.layout.outer) return;
  const float* const values = q.values + channel * q.layout.extent;
  std::uint32_t largest = 0;
  for (std::int64_t i = lane; i < q.layout.extent; i += kLanes)
    largest = max(largest, magnitude_bits(values[i]));
  largest = __reduce_max_sync(~0u, largest);
  const float scale = scale_of(largest);
  if (lane == 0) q.scales[channel] = scale;
  std::int8_t* const elements = q.elements + channel * q.layout.extent;
  for (std::int64_t i = lane; i < q.layout.extent; i += kLanes)
    elements[i] = element_of(values[i], scale);
}

/// Grid: kLanes channels a block, those of an outer place side by side.
__global__ void __launch_bounds__(kLanes* kWarps) quantize_columns_kernel(ChannelQuantization q) {
  GDN_DYNAMIC_SHARED_MEMORY(memory, 16);
  auto* const largest_of_rows = reinterpret_cast<std::uint32_t*>(memory);  // [kWarps][kLanes]
  const std::int64_t inner = q.layout.inner;
  const std::int64_t blocks = (inner + kLanes - 1) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t outer = blockIdx.x / blocks;
  const std::int64_t column = blockIdx.x % blocks * kLanes + lane;
  const bool has_column = column < inner;
  const std::int64_t first = outer * q.layout.extent * inner + column;
  std::uint32_t largest = 0;
  if (has_column) {
    for (std::int64_t i = warp; i < q.layout.extent; i += kWarps)
      largest = max(largest, magnitude_bits(q.values[first + i * inner]));
  }
  largest_of_rows[warp * kLanes + lane] = largest;
  __syncthreads();
#pragma unroll
  for (int other = 0; other < kWarps; ++other)
    largest = max(largest, largest_of_rows[other * kLanes + lane]);
  if (!has_column) return;
  const float scale = scale_of(largest);
  if (warp == 0) q.scales[outer * inner + column] = scale;
  for (std::int64_t i = warp; i < q.layout.extent; i += kWarps) {
    const std::int64_t at = first + i * inner;
    q.elements[at] = element_of(q.values[at], scale);
  }
}

}  // namespace

void enqueue_channel_quantization(const ChannelQuantization& quantization, cudaStream_t stream) {
  const ChannelLayout& layout = quantization.layout;
  if (layout.channels() == 0) return;
  const auto launch = [&](auto kernel, std::int64_t blocks, std::size_t shared_bytes) {
    launch_kernel(kernel, grid_blocks(blocks, "a quantization"), kLanes * kWarps, shared_bytes,
                  stream, quantization);
  };
  if (layout.inner == 1) {
    launch(quantize_rows_kernel, (layout.outer + kWarps - 1) / kWarps, 0);
  } else {
    launch(quantize_columns_kernel, layout.outer * ((layout.inner + kLanes - 1) / kLanes),
           sizeof(std::uint32_t) * kWarps * kLanes);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
