// cuda/chunkwise of gated_delta_verify: the tokens of a draft are a chunk, whose products with the state are
// taken by tensor cores (chunkwise_kernel.cuh), and of which records are kept as cuda/records keeps them.
//
// A warp makes what couples the tokens once, for two or four turns of values of its head where there are heads enough
// (turns_of_warps() in chunkwise_kernel.cuh): these are most of its instructions, some 700 of 1100 for 32 values.
//
// Bound by: latency, of the states' way from device memory and the chain of what follows it. Commit, which is that of
// cuda/records, reads and writes the states of sequences that accepted something.
//
// Reached, H200, 16/32 heads of 128, logits and normalised keys, cold L2, by a bench of the verify kernel alone,
// microseconds, sequences x tokens; before: one turn, four warps a block:
//
//                    1x4        16x4         128x4        512x4      128x8
//     bfloat16 vk    8.0 (8.0)  14.2 (14.0)  50.5 (51.7)  158 (169)   67 (88)
//     bfloat16 kv    8.7 (8.3)  15.4 (14.8)  61.2 (55.8)  209 (186)   79 (96)
//     float32 vk     7.9 (7.9)  19.4 (20.4)  82.0 (89.7)  285 (320)  115 (166)
//
// where the states' bytes alone are 32 us of 128 sequences in bfloat16 and 63 in float32, at the speed of a copy. By
// keys four tokens have one turn and lost a tenth all the same; two turns of two warps take 60 to 63 of 128x4.
//
// Lost, bfloat16 vk, 128x4: couplings made once a block, between barriers (72 by gdnbench bench, which was not run of
// what stands; cuda/records took 110 there); tokens' words that are zeros behind the end, in the place of
// another token's, 53.7; five blocks on a multiprocessor, with spills, 71.5, and three 56.7.
#include <cstdint>
#include <string>

#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta_verify/chunkwise_launch.h"
#include "cuda/gated_delta_verify/drafts.h"
#include "cuda/gated_delta_verify/record_commits.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

const char* const kChunkwiseName = "cuda/chunkwise";
constexpr std::int64_t kMostTokens = 16;  ///< of a sequence: a chunk of the widest kernel

Support supports_chunkwise(const Problem& problem) {
  const Support tiles = supports_tiles(problem);
  if (!tiles.ok) return tiles;
  if (problem.token_dtype != DType::bfloat16) return Support::no("tokens: bf16 only");
  if (problem.sequences.longest() > kMostTokens) {
    return Support::no("a sequence of " + std::to_string(problem.sequences.longest()) +
                       " tokens: at most " + std::to_string(kMostTokens));
  }
  return Support::yes();
}

ChunkwiseKernel kernel_of(const Problem& problem) {
  switch (problem.state_dtype) {
    case DType::bfloat16:
      return chunkwise_kernel_bf16(problem);
    case DType::float16:
      return chunkwise_kernel_f16(problem);
    case DType::float32:
    case DType::int8:
      break;
  }
  return chunkwise_kernel_f32(problem);
}

DraftLaunches launches_of_chunks(const Draft& draft) {
  const Problem& problem = draft.problem;
  const ChunkwiseKernel verifier = kernel_of(problem);
  const ChunkwiseOptions options = {tile_grid(problem, verifier.block_values),
                                    verifier.block_values, kept_records(draft)};
  const unsigned int blocks =
      grid_blocks(tile_blocks(problem, verifier.block_values), kChunkwiseName);
  const auto verify = [=, params = draft.params](cudaStream_t stream) {
    launch_kernel(verifier.kernel, blocks, static_cast<unsigned int>(verifier.threads), 0, stream,
                  params, options);
  };
  return {verify, commit_of_records(draft, kChunkwiseName), verifier.block_values, verifier.threads,
          verifier.chunk};
}

LaunchPlan::Enqueue commits_of_chunks(const Draft& first, const CommitCall* calls,
                                      std::int64_t count) {
  return commits_of_records(first, calls, count, kChunkwiseName);
}

}  // namespace

const Implementation& gated_delta_verify_chunkwise() {
  static const DraftImplementation implementation(
      {.name = kChunkwiseName,
       .form = "chunkwise",
       .keeps = "records",
       .summary =
           "a draft as a chunk: products with the state by tensor cores, records that commit "
           "replays; bound by latency",
       .rank = 30,
       .supports = supports_chunkwise,
       .honours = recurrence_options(),
       .examples =
           {"gated_delta_verify:heads=2/4,dim=128,seq=4+3+1,h0=normal,dtype=bf16",
            "gated_delta_verify:heads=2/"
            "4,dim=128,seq=4+3,h0=normal,dtype=bf16,state=bf16,layout=vk",
            "gated_delta_verify:heads=1/3,dim=96x80,seq=7+1+0+4+5,h0=normal,dtype=bf16,state=bf16,"
            "layout=vk,slots=permuted,gate=logits,norm=1",
            "gated_delta_verify:heads=1/2,dim=192x136,seq=2+1+9,h0=normal,dtype=bf16,state=f16,"
            "slots=padding,pool_pad=16,norm=1,gate=logits,beta=logit",
            "gated_delta_verify:heads=1/2,dim=256x72,seq=2+16,h0=normal,dtype=bf16,layout=vk"},
       .kept_bytes = record_bytes,
       .launches = launches_of_chunks,
       .commits = commits_of_chunks});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
