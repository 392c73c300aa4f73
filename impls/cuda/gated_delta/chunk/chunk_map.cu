#include "cuda/gated_delta/chunk/chunk_map.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 1024;

/// One block: first_chunk by a running sum over the sequences, then each chunk's sequence by
/// bisection of it (empty sequences have no chunk).
__global__ void __launch_bounds__(kThreads)
    chunk_map_kernel(const GatedDeltaParams p, const ChunkMap map, int chunk_tokens) {
  __shared__ std::int32_t warp_sums[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  std::int32_t before = 0;  // chunks of the sequences of earlier rounds
  for (int round = 0; round < p.num_sequences; round += kThreads) {
    const int n = round + thread;
    std::int32_t sum = 0;
    if (n < p.num_sequences) {
      const std::int64_t length = p.sequence_offsets[n + 1] - p.sequence_offsets[n];
      sum = static_cast<std::int32_t>((length + chunk_tokens - 1) / chunk_tokens);
    }
    const std::int32_t count = sum;
    for (int step = 1; step < 32; step *= 2) {
      const std::int32_t other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    std::int32_t total = 0;
    for (int w = 0; w < 32; ++w) {
      if (w < warp) sum += warp_sums[w];
      total += warp_sums[w];
    }
    if (n < p.num_sequences) map.first_chunk[n] = before + sum - count;
    before += total;
    __syncthreads();
  }
  if (thread == 0) map.first_chunk[p.num_sequences] = before;
  __syncthreads();
  for (std::int32_t chunk = thread; chunk < before; chunk += kThreads) {
    int low = 0;  // first_chunk[low] <= chunk < first_chunk[high]
    int high = p.num_sequences;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (map.first_chunk[middle] <= chunk ? low : high) = middle;
    }
    map.sequence[chunk] = low;
  }
}

}  // namespace

void enqueue_chunk_map(const GatedDeltaParams& params, const ChunkMap& map, int chunk_tokens,
                       cudaStream_t stream) {
  launch_kernel(chunk_map_kernel, 1, kThreads, 0, stream, params, map, chunk_tokens);
}

}  // namespace gdn::GDN_CUDA_TARGET
