#include "cuda/allow_shared_memory.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "cuda/check.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

void allow_shared_memory(const void* kernel, std::size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, std::size_t> allowed;  // by device and kernel
  int device = 0;
  GDN_CUDA_CHECK(cudaGetDevice(&device));
  const std::lock_guard<std::mutex> lock(mutex);
  std::size_t& most = allowed[{device, kernel}];
  if (bytes <= most) return;
  GDN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(bytes)));
  most = bytes;
}

}  // namespace gdn::GDN_CUDA_TARGET
