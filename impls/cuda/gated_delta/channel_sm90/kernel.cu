// The kernel of cuda/channel_sm90: gated_delta with one decay per key channel in one launch, for
// Hopper, Dk = Dv = 128, bfloat16 or float16 tokens. A block takes whole (sequence, value head) work
// items, longest first, in chunks of 16 tokens, and has 16 warps:
//
//   two warpgroups of math (math.cuh), 64 columns of V each, the state in registers;
//   six auxiliary warps (auxiliary.cuh), each with a chunk of its own: scaled keys and queries, the
//     triangles and the inverse;
//   one warp that loads K, Q and gates, up to twelve chunks ahead, and one that loads V, up to six
//     ahead, and stores O (copies.cuh).
//
// Chunks are of 16 tokens since one warp makes all of such a chunk from registers: there are no
// blocks off the diagonal, no anchors between blocks, and no barrier between warps.
//
// Bound by: the math warps, whose steps of 16 tokens are a chain of two wgmma and what stands
// between them, and by what the auxiliary warps take from them of the issue slots; memory comes
// after both.
//
// Reached, gdnbench bench, cold L2, 2026-11-26, bfloat16 tokens, ms. Encoded gates are decoded in
// registers (decoding.cuh) and cost a quarter of the time more. What lost: log.md.
//
//   32/32 heads, 4x8192                          H200   before   H100 80GB
//   float32 log decays, weak gates               .553    .554    .567
//   the same, strong gates                       .551            .567
//   the same, weak, norm=1                       .650    .642
//   bfloat16 logits, beta=logit                  .693   2.932
//   float32 logits                               .699
//   gate=bounded, float32 / bfloat16             .685   4.963    4.98 before
//                                                .668
//   1x32768 / 16x2048 / 12/12 heads 1x8192, weak                 2.185 / .600 / .552
//
// "Before": logits and bounded gates read one by one and decoded by expf and log1pf.
// Short sequences, 32/32 heads, H200, 1 / 16 / 128 of them. Float32 states in kv, 1 to 16 tokens:
// .0115 / .032 / .192 to .206; in vk, 1 to 4, .0157 / .051 / .29; bfloat16 ones in vk .0155 / .051 /
// .33. cuda/decode: kv, 3 tokens, .0110 / .0375 / .220; vk, 4 tokens, .0122 / .0418 / .244, bfloat16
// .0121 / .0298 / .178; a token more adds .0018 / .006 / .035 (bfloat16 .0018 / .0045 / .033), so
// that in vk the two cross, by that slope, at some 5 tokens with float32 states and at some 8 with
// bfloat16.
#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/gated_delta/channel_sm90/auxiliary.cuh"
#include "cuda/gated_delta/channel_sm90/copies.cuh"
#include "cuda/gated_delta/channel_sm90/launch.h"
#include "cuda/gated_delta/channel_sm90/math.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// One thread.
__device__ __forceinline__ void init_barriers(uint32_t sm) {
  const auto init = [&](uint32_t barriers, int stages, int arrivals) {
    for (int i = 0; i < stages; i++) mbarrier_init(barriers + 8 * i, arrivals);
  };
  init(sm + Layout::kLoaded, Layout::kSlots, 1);  // copies
  // Every lane arrives, for its own writes and reads.
  init(sm + Layout::kReady, Layout::kSlots, 32);  // the slot's auxiliary warp
  init(sm + Layout::kEmpty, Layout::kSlots, 32 * Layout::kMathWarps);
  init(sm + Layout::kValueFull, Layout::kValueSlots, 1);
  init(sm + Layout::kOutputFull, Layout::kValueSlots, 32 * Layout::kMathWarps);
  fence_mbarrier_init();
}

template <typename Token, bool Normalize, GateForm Form>
__global__ void __launch_bounds__(Layout::kThreads, 1)
    channel_kernel(const __grid_constant__ CUtensorMap query_map,
                   const __grid_constant__ CUtensorMap key_map,
                   const __grid_constant__ CUtensorMap gate_map,
                   const __grid_constant__ CUtensorMap value_map,
                   const __grid_constant__ CUtensorMap output_map, const ChannelParams a) {
  GDN_DYNAMIC_SHARED_MEMORY(raw, 1);
  const uint32_t sm = shared_address(
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023}));
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0),
            lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == Layout::kThreads - 32) {
    prefetch_tensor_map(&key_map);
    prefetch_tensor_map(&query_map);
    prefetch_tensor_map(&value_map);
    prefetch_tensor_map(&output_map);
    init_barriers(sm);
  }
  order_sequences(sm, a);  // ends with a barrier
  if (warp < Layout::kMathWarps) {
    registers_increase<160>();
    math_role<Token>(sm, a, warp / 4, static_cast<int>(threadIdx.x) % 128);
  } else {
    registers_decrease<96>();
    if (warp < Layout::kLoadingWarp) {
      auxiliary_role<Token, Normalize, Form>(sm, a, warp - Layout::kMathWarps, lane);
    } else if (warp == Layout::kValueWarp) {
      value_role(sm, &value_map, &output_map, a, lane);
    } else if (lane == 0) {
      loading_role<Form>(sm, &query_map, &key_map, &gate_map, a);
    }
  }
}

namespace {

template <typename Token, bool Normalize, GateForm Form>
void launch(const ChannelLaunch& launch, cudaStream_t stream) {
  const auto kernel = channel_kernel<Token, Normalize, Form>;
  allow_shared_memory(kernel, Layout::kBytes);
  launch_kernel(kernel, launch.blocks, Layout::kThreads, Layout::kBytes, stream, launch.query,
                launch.key, launch.gate, launch.value, launch.output, launch.params);
}
template <typename Token, bool Normalize>
void launch_by_gates(const ChannelLaunch& of, cudaStream_t stream) {
  switch (of.params.gate_form) {
    case GateForm::log_decays:
      return launch<Token, Normalize, GateForm::log_decays>(of, stream);
    case GateForm::floats:
      return launch<Token, Normalize, GateForm::floats>(of, stream);
    case GateForm::halves:
      return launch<Token, Normalize, GateForm::halves>(of, stream);
    case GateForm::read:
      return launch<Token, Normalize, GateForm::read>(of, stream);
  }
}
template <typename Token>
void launch_by_norm(const ChannelLaunch& of, cudaStream_t stream) {
  of.params.p.normalize_qk ? launch_by_gates<Token, true>(of, stream)
                           : launch_by_gates<Token, false>(of, stream);
}

}  // namespace

void enqueue(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream) {
  token_dtype == DType::bfloat16 ? launch_by_norm<__nv_bfloat16>(launch, stream)
                                 : launch_by_norm<__half>(launch, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
