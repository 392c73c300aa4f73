#include "cuda/staging.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "cuda/check.h"

namespace gdn::cuda {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

}  // namespace

Staging::~Staging() {
  for (Block& block : blocks_) {
    if (block.copied != nullptr) {
      cudaEventSynchronize(block.copied);
      cudaEventDestroy(block.copied);
    }
    if (block.memory != nullptr) cudaFreeHost(block.memory);
  }
}

void Staging::make() {
  if (blocks_[1].copied != nullptr) return;
  for (Block& block : blocks_) {
    GDN_CUDA_CHECK(cudaMallocHost(&block.memory, kBlockBytes));
    GDN_CUDA_CHECK(cudaEventCreateWithFlags(&block.copied, cudaEventDisableTiming));
  }
}

void Staging::upload(void* destination, const void* source, std::int64_t bytes,
                     cudaStream_t stream) {
  make();
  for (std::int64_t at = 0; at < bytes; at += kBlockBytes) {
    const auto n = static_cast<std::size_t>(std::min(kBlockBytes, bytes - at));
    const Block& block = blocks_[turn_];
    turn_ ^= 1;
    GDN_CUDA_CHECK(cudaEventSynchronize(block.copied));  // what it held before is on the device
    std::memcpy(block.memory, static_cast<const char*>(source) + at, n);
    GDN_CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(destination) + at, block.memory, n,
                                   cudaMemcpyHostToDevice, stream));
    GDN_CUDA_CHECK(cudaEventRecord(block.copied, stream));
  }
}

void Staging::download(void* destination, const void* source, std::int64_t bytes,
                       cudaStream_t stream) {
  make();
  const auto size = [&](std::int64_t at) {
    return static_cast<std::size_t>(std::min(kBlockBytes, bytes - at));
  };
  const auto begin = [&](std::int64_t at, const Block& block) {
    GDN_CUDA_CHECK(cudaEventSynchronize(block.copied));
    GDN_CUDA_CHECK(cudaMemcpyAsync(block.memory, static_cast<const char*>(source) + at, size(at),
                                   cudaMemcpyDeviceToHost, stream));
    GDN_CUDA_CHECK(cudaEventRecord(block.copied, stream));
  };
  if (bytes > 0) begin(0, blocks_[turn_]);
  for (std::int64_t at = 0; at < bytes; at += kBlockBytes) {
    const Block& block = blocks_[turn_];
    turn_ ^= 1;
    if (at + kBlockBytes < bytes) begin(at + kBlockBytes, blocks_[turn_]);
    GDN_CUDA_CHECK(cudaEventSynchronize(block.copied));
    std::memcpy(static_cast<char*>(destination) + at, block.memory, size(at));
  }
}

}  // namespace gdn::cuda
