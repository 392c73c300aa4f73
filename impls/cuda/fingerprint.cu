#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/check.h"
#include "cuda/fingerprint.h"
#include "interface/fingerprint.h"

namespace gdn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 512;

__global__ void fingerprint_kernel(const std::uint64_t* words, std::int64_t count, int last_bytes,
                                   unsigned long long* sum) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  std::uint64_t own = 0;
  for (std::int64_t i = first; i < count; i += std::int64_t{gridDim.x} * kThreads) {
    own += mixed_word(words[i], static_cast<std::uint64_t>(i));
  }
  if (first == 0 && last_bytes > 0) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(words + count);
    std::uint64_t last = 0;
    for (int b = 0; b < last_bytes; ++b) last |= static_cast<std::uint64_t>(bytes[b]) << (8 * b);
    own += mixed_word(last, static_cast<std::uint64_t>(count));
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    own += __shfl_xor_sync(~0u, own, distance);
  }
  // Sums of integers: the order of the warps changes nothing.
  if (threadIdx.x % 32 == 0) atomicAdd(sum, static_cast<unsigned long long>(own));
}

}  // namespace

void enqueue_fingerprint(const void* data, std::int64_t bytes, std::uint64_t* sum,
                         cudaStream_t stream) {
  GDN_CUDA_CHECK(cudaMemsetAsync(sum, 0, sizeof *sum, stream));
  const std::int64_t words = bytes / 8;
  const auto blocks = static_cast<unsigned int>(
      std::clamp<std::int64_t>((words + kThreads - 1) / kThreads, 1, kMostBlocks));
  fingerprint_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const std::uint64_t*>(data),
                                                      words, static_cast<int>(bytes % 8),
                                                      reinterpret_cast<unsigned long long*>(sum));
  GDN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace gdn::cuda
