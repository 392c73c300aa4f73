// The kernel of cuda/channel_sm90: gated_delta with one decay per key channel in one launch, for
// Hopper, Dk = Dv = 128, bfloat16 or float16 tokens. A block takes whole (sequence, value head) work
// items, longest first, in chunks of 16 tokens, and has 16 warps (channel_kernel.cuh):
//
//   two warpgroups of math (math.cuh), 64 columns of V each, the state in registers;
//   seven auxiliary warps (auxiliary.cuh), each with a chunk of its own: scaled keys and queries, the
//     triangles and the inverse;
//   one warp that loads K, Q and gates, up to twelve chunks ahead, and V, up to six, and stores O
//     (copies.cuh).
//
// Chunks are of 16 tokens since one warp makes all of such a chunk from registers: there are no
// blocks off the diagonal, no anchors between blocks, and no barrier between warps.
//
// One item takes some 1.0 us a chunk, so that with few heads most multiprocessors stand idle. Long
// sequences are then cut into pieces (work_item.cuh): the same kernel in two other forms, with
// chain.cu between them, where planner.cpp expects these three launches to take less time than one.
// 12/12 heads 1x8192 takes .185 ms so with weak gates, and .107 with strong ones, an H200. What is said
// here of times else is of the one launch.
//
// With states inside the call sequences are whole, and done from checkpoint to checkpoint: checkpoints.cu.
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
//   the first and the last of these in pieces                    1.369 / .206
//
// With seven auxiliary warps for six and one that loads and stores, 2026-11-28: .514 for .570 of that day's run, logits
// .624, norm=1 .598; 96/96 1x8192 .508.
// "Before": logits and bounded gates read one by one and decoded by expf and log1pf.
// Short sequences, 32/32 heads, H200, 1 / 16 / 128 of them. Float32 states in kv, 1 to 16 tokens:
// .0115 / .032 / .192 to .206; in vk, 1 to 4, .0157 / .051 / .29; bfloat16 ones in vk .0155 / .051 /
// .33. cuda/decode: kv, 3 tokens, .0110 / .0375 / .220; vk, 4 tokens, .0122 / .0418 / .244, bfloat16
// .0121 / .0298 / .178; a token more adds .0018 / .006 / .035 (bfloat16 .0018 / .0045 / .033), so
// that in vk the two cross, by that slope, at some 5 tokens with float32 states and at some 8 with
// bfloat16.
#include "cuda/gated_delta/channel_sm90/channel_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

void enqueue(const ChannelLaunch& launch, DType token_dtype, cudaStream_t stream) {
  launch_by_type<Work::sequences>(launch, token_dtype, stream);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
