// cuda/fused_sm90_one_launch: cuda/fused_sm90 in its one-launch form whatever the problem's size,
// to compare and to check. The kernel: fused_sm90_one_launch.cuh.
#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/fused_sm90.h"
#include "cuda/gated_delta/fused_sm90_one_launch.cuh"
#include "cuda/launch_kernel.cuh"

namespace gdn {
namespace cuda {
namespace fused_sm90 {
namespace {

template <typename Token>
void enqueue(const OneLaunch& launch, cudaStream_t stream) {
  const auto kernel = launch.arguments.p.normalize_qk ? one_launch_kernel<Token, true>
                                                      : one_launch_kernel<Token, false>;
  allow_shared_memory(kernel, OneLaunchLayout::kBytes);
  launch_kernel(kernel, launch.blocks, OneLaunchLayout::kThreads, OneLaunchLayout::kBytes, stream,
                launch.query, launch.key, launch.value, launch.output, launch.arguments);
}

}  // namespace

void enqueue_one_launch(const OneLaunch& launch, DType token_dtype, cudaStream_t stream) {
  token_dtype == DType::bfloat16 ? enqueue<__nv_bfloat16>(launch, stream)
                                 : enqueue<__half>(launch, stream);
}

}  // namespace fused_sm90
}  // namespace cuda

const Implementation& cuda_gated_delta_fused_sm90_one_launch() {
  return cuda::fused_sm90_implementation(cuda::FusedSm90Kind::one_launch);
}

}  // namespace gdn
