// cuda/chunkwise of gated_delta_ring: the tokens of a sequence are a chunk, whose products with the state and with the
// records of the ring are taken by tensor cores (ring_records.cuh); the tokens' own records go to the ring. The state
// is read, and written where the sequence folds.
//
// Bound by: latency, of the states' way from device memory and the chain of what follows it, as cuda/chunkwise of
// gated_delta_verify is; a call that folds, as far as its code tells, by instructions.
//
// Reached, H200, 16/32 heads of 128, rings of 16, logits and normalised keys, cold L2, by a bench of the kernel alone,
// microseconds, sequences x tokens: with 4 records / with as many as leave room for the tokens, and a fold / each
// sequence at another call of a cycle whose tokens all stay:
//
//                    1x4       16x4           128x4            512x4            128x1            128x8
//     bfloat16 vk    11/13/9   17.2/27/23.7   69.3/159/95.3    226/593/320      65.5/160/76.9    96/172/146
//     bfloat16 kv    11/14/9   18.0/30/28.0   74.1/179/101     248/655/348      70.4/177/81.8    125/201/168
//     float32 vk     11/13/9   29.0/53/35.0   120/267/157      424/1010/564     112/266/127      192/336/283
//     float32 kv     10/13/9   26.0/49/32.5   115/272/155      413/1026/559     108/275/125      203/352/284
//
// The one sequence of 1x4 does not fold in its call of the cycle.
//
// Lost, bfloat16 vk, 128x4: a fold of the registers that the products were taken of, 174 for 158 (and 72 to 89 without
// one, the next rows being asked for later); what a fold needs of the records made for every 32 keys, 177 to 192; 16
// warps on a multiprocessor for 12, with 470 bytes of spills, 81 to 98 without a fold.
#include <cstdint>
#include <string>

#include "cuda/gated_delta_ring/chunkwise_launch.h"
#include "cuda/gated_delta_ring/launch_step.cuh"
#include "cuda/gated_delta_ring/steps.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr std::int64_t kMostTokens = 16;  ///< of a sequence: a chunk of the widest kernel

Support supports_chunkwise(const Problem& problem) {
  const Support rings = supports_rings(problem);
  if (!rings.ok) return rings;
  if (problem.token_dtype != DType::bfloat16) return Support::no("tokens: bf16 only");
  if (problem.state_dtype == DType::float16) return Support::no("states: bf16 or f32");
  if (problem.sequences.longest() > kMostTokens) {
    return Support::no("a sequence of " + std::to_string(problem.sequences.longest()) +
                       " tokens: at most " + std::to_string(kMostTokens));
  }
  return Support::yes();
}

const char* const kChunkwiseName = "cuda/chunkwise";

RingLaunch launch_chunks(const Problem& problem, const GatedDeltaParams& params,
                         const RingParams& ring) {
  const ChunkwiseRingKernel kernel = problem.state_dtype == DType::bfloat16
                                         ? chunkwise_ring_kernel_bf16(problem)
                                         : chunkwise_ring_kernel_f32(problem);
  return {step_of_ring(kernel, kChunkwiseName, problem, params, ring), kernel.block_values,
          kernel.threads, kernel.chunk};
}

}  // namespace

const Implementation& gated_delta_ring_chunkwise() {
  static const RingImplementation implementation(
      {.name = kChunkwiseName,
       .form = "chunkwise",
       .summary = "tokens as a chunk: products with the state and the ring's records by tensor "
                  "cores; bound by latency",
       .rank = 30,
       .supports = supports_chunkwise,
       .examples =
           {"gated_delta_ring:heads=2/4,dim=128,seq=4+3+1,h0=normal,dtype=bf16",
            "gated_delta_ring:heads=2/4,dim=128,seq=4+3,h0=normal,dtype=bf16,state=bf16,layout=vk",
            "gated_delta_ring:heads=1/3,dim=96x80,seq=7+1+0+4+5,h0=normal,dtype=bf16,state=bf16,"
            "layout=vk,slots=permuted,gate=logits,norm=1",
            "gated_delta_ring:heads=1/2,dim=192x136,seq=2+1+9,h0=normal,dtype=bf16,ring=32,"
            "slots=padding,pool_pad=16,norm=1,gate=logits,beta=logit",
            "gated_delta_ring:heads=1/2,dim=256x72,seq=2+16,h0=normal,dtype=bf16,layout=vk"},
       .launch = launch_chunks});
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
