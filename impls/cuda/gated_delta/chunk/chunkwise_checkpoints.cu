// The state pass of cuda/chunkwise that stores states inside the call. Dk up to 64 has no version of its own.
#include "cuda/gated_delta/chunk/chunkwise_instance.cuh"

namespace gdn::GDN_CUDA_TARGET {
namespace {

template <typename Element>
auto* checkpoint_states_kernel(const GatedDeltaParams& p) {
  constexpr int C = kChunkOfCheckpoints;
  if (p.additive_update) {
    return p.key_head_dim > 128 ? states_kernel<Element, C, 16, true, true>
                                : states_kernel<Element, C, 8, true, true>;
  }
  return p.key_head_dim > 128 ? states_kernel<Element, C, 16, false, true>
                              : states_kernel<Element, C, 8, false, true>;
}

}  // namespace

template <typename Element>
void configure_checkpoint_states(const ChunkwiseLaunch& launch) {
  allow_shared_memory(
      checkpoint_states_kernel<Element>(launch.params),
      static_cast<std::size_t>(states_shared_bytes<Element, kChunkOfCheckpoints>(launch)));
}

template <typename Element>
void enqueue_checkpoint_states(const ChunkwiseLaunch& launch, cudaStream_t stream) {
  enqueue_states<Element, kChunkOfCheckpoints>(
      launch, checkpoint_states_kernel<Element>(launch.params), stream);
}

template void configure_checkpoint_states<float>(const ChunkwiseLaunch&);
template void configure_checkpoint_states<__nv_bfloat16>(const ChunkwiseLaunch&);
template void configure_checkpoint_states<__half>(const ChunkwiseLaunch&);
template void enqueue_checkpoint_states<float>(const ChunkwiseLaunch&, cudaStream_t);
template void enqueue_checkpoint_states<__nv_bfloat16>(const ChunkwiseLaunch&, cudaStream_t);
template void enqueue_checkpoint_states<__half>(const ChunkwiseLaunch&, cudaStream_t);

}  // namespace gdn::GDN_CUDA_TARGET
