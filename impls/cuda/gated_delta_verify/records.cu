// cuda/records of gated_delta_verify: drafts run as in cuda/decode of gated_delta, of whose tiles and
// arithmetic it is made, but the states stay as they are; of each step is kept what it did
// (tile/step_records.cuh), and commit does that again to the states of sequences that accepted something.
//
// Bound by: device memory, which verify reads the states from, and commit reads and writes them. Records
// are 4 % of a float32 state of 128 x 128 for 4 tokens, written once and read once. From 4 tokens on verify is
// bound by instructions, some 400 of a warp and token with 64 elements a thread, 256 of which are the products
// themselves (tile/recurrence.cuh), and by how many warps a multiprocessor has to take them from. So its tiles
// have 64 elements a thread where registers allow (TileUse::drafts), and where 512 threads leave 128 registers
// each they have them (other_registers() in verify_kernel.cuh).
//
// Measured by a bench of the two kernels alone, H100 80GB, the shape below with a flushed L2, verify of 128
// sequences of 2 / 4 / 8 tokens in microseconds, with the same bits in outputs, records and committed states:
//
//                        before              after
//     float32 vk   123 / 157 / 260     111 / 124 / 195     64 elements a thread for 32, 4 blocks for 5
//     float32 kv   127 / 160 / 273     111 / 131 / 235     sums as words, addresses found once
//     bfloat16 vk  109 / 141 / 231      80 / 107 / 183     4 blocks for 3
//     bfloat16 kv  190 / 252 / 373      98 / 129 / 203     2 blocks for 1; one left nothing to run at barriers
//
// The compiled tiles are these, but what has since been done to have fewer registers spilled (one index for
// output and record, a count of 32 bits) is not in the figures. Commit, which is as it was, takes 135, 137, 77
// and 88 us for 4 tokens where a part, all, nothing and any number are accepted in turns.
//
// Lost, in the same bench, 128 sequences of 4 tokens, in microseconds against the best that does without:
//   - Persistent blocks whose next tile comes to shared memory by cp.async meanwhile: verify, float32 vk 133
//     (124), kv 142 (131), bfloat16 vk 116 (107), kv 135 (129). With several blocks on a multiprocessor one
//     loads while others compute. It gains where there are as many blocks (float32 vk, three: 133 for 142), but
//     a fourth one gains more. Commit, float32 vk 140 (135), kv 139 (137); bfloat16 kv 78 (88) and vk 74 (77)
//     gain, but kv takes 30 for 28 with 32 sequences.
//   - Asking the L2 for the tile that lies a quarter to one wave of blocks ahead: verify, float32 vk with three
//     blocks 130 for 142, less than the fourth block gains and not tried with it; kv 137 (131), bfloat16 the
//     same; 2 to 6 % more where the tokens are asked for too. Commit, float32 139 to 172 (135, 137), bfloat16
//     vk 77 to 86 (77), kv 82 to 94 (88), the later figures at a whole wave.
//   - More blocks of fewer elements: bfloat16 vk with 32 elements a thread and 5 blocks 136 (107). Tighter
//     registers: float32 vk of 32 elements with 6 blocks 160, with 5 150; kv with 4 blocks 144, with 3 131.
//
// Reached, H200, 16/32 heads of 128, bfloat16 tokens, cold L2, verify and commit of 128 sequences of 2 / 4 / 8
// tokens: float32 states in vk .208 / .255 / .378 ms, bfloat16 ones .146 / .184 / .286; of 4 tokens verify
// takes .149 and .119 (data/measured/h200-2026-11-25, before what the table above measures). With it, on an H200,
// verify and commit of 4 tokens: float32 vk .222 (.254 before), kv .239 (.240), bfloat16 vk .170 (.185), kv .199
// (.264) ms.
#include <cuda_runtime.h>

#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/gated_delta_verify/drafts.h"
#include "cuda/gated_delta_verify/record_commits.h"
#include "cuda/gated_delta_verify/verify_kernel.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

using RecordOptions = VerifyOptions<StepRecords>;

// ---- host

struct VerifyKernel {
  void (*kernel)(GatedDeltaParams, RecordOptions) = nullptr;
  int block_values = 0;
  int threads = 0;
};

VerifyKernel verify_kernel_of(const Problem& problem) {
  return with_tile_case<VerifyKernel>(problem, [](auto tile_case) -> VerifyKernel {
    using Drafts = typename decltype(tile_case)::DraftShape;
    return {verify_kernel<Drafts, StepRecords>, Drafts::kBlockValues, Drafts::kThreads};
  });
}

const char* const kRecordsName = "cuda/records";

DraftLaunches launches_keeping_records(const Draft& draft) {
  const Problem& problem = draft.problem;
  const VerifyKernel verifier = verify_kernel_of(problem);
  const RecordOptions options = {problem.token_dtype, tile_grid(problem, verifier.block_values),
                                 kept_records(draft)};
  const unsigned int blocks =
      grid_blocks(tile_blocks(problem, verifier.block_values), kRecordsName);
  const auto verify = [=, params = draft.params](cudaStream_t stream) {
    launch_kernel(verifier.kernel, blocks, static_cast<unsigned int>(verifier.threads), 0, stream,
                  params, options);
  };
  return {verify, commit_of_records(draft, kRecordsName), verifier.block_values, verifier.threads};
}

LaunchPlan::Enqueue commits_keeping_records(const Draft& first, const CommitCall* calls,
                                            std::int64_t count) {
  return commits_of_records(first, calls, count, kRecordsName);
}

}  // namespace

const Implementation& gated_delta_verify_records() {
  static const DraftImplementation implementation(
      {.name = kRecordsName,
       .form = "records",
       .keeps = "records",
       .summary = "keeps what each draft token did to the state and replays it at commit; bound "
                  "by device memory",
       .rank = 20,
       .supports = supports_tiles,
       .honours = recurrence_options() + recurrence_variants(),
       .examples = tile_draft_examples(),
       .kept_bytes = record_bytes,
       .launches = launches_keeping_records,
       .commits = commits_keeping_records});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
