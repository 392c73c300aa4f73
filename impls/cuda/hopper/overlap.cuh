// Overlap with the kernel before, for kernels that are compiled for every card and for sm_90a apart (SM90A_TOO):
// on Hopper they are launched so behind another kernel of their plan (launch_overlapping.cuh), on other cards never.
#pragma once

#include <cuda_runtime.h>

#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/launch_overlapping.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"
#include "interface/device.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

/// Whether such a kernel waits on this card (end_overlap). On later ones, too, it is made of the PTX of compute_80,
/// which does not.
inline bool can_overlap(const DeviceInfo& device) { return device.compute_capability == 90; }

/// With `overlaps` by launch_overlapping(), else by launch_kernel().
template <typename... Parameters, typename... Arguments>
void launch_behind(bool overlaps, void (*kernel)(Parameters...), unsigned int blocks,
                   unsigned int threads, cudaStream_t stream, const Arguments&... arguments) {
  if (overlaps) return launch_overlapping(kernel, blocks, threads, 0, stream, arguments...);
  launch_kernel(kernel, blocks, threads, 0, stream, arguments...);
}

#ifdef __CUDACC__

/// launch_dependents(), and wait_for_prerequisites(), in code of cards that have them. A kernel that was launched as
/// any other has nothing to wait for.
__device__ __forceinline__ void allow_overlap() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  launch_dependents();
#endif
}
__device__ __forceinline__ void end_overlap() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  wait_for_prerequisites();
#endif
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET::hopper
