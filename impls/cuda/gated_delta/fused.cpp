// cuda/fused: chunkwise form with the state on chip; the portable one, for every GPU since sm_80.
//
// One kernel (chunk/fused_kernel.cuh): a block walks the chunks of a (sequence, value head), or of
// a part of its value dimensions. Preparing warps make T = L^-1 and P = lower(Q K^T * D) of the
// next chunk while value warps, 16 value dimensions each with the state in registers, do the
// present one. Nothing but q, k, v and gates is read, nothing but outputs and the final state
// written.
//
// States inside the call (`checkpoints`) cut its chunks: a block stores the state where the tokens before a
// checkpoint end and starts anew behind it, whose first chunk's preparation nothing hides. 4 x 8192 tokens as
// below took 1.09 ms with four in each sequence, 1.25 with sixteen. chunk/fused_checkpoints.cu compiles the
// kernels for them.
//
// 16-bit tokens multiply on the tensor cores (mma.sync), float32 tokens in split TF32 with the
// error of float32 (chunk/fragments.cuh). Any Dk up to 256 and any Dv whose rows are multiples of
// 16 bytes; chunks of 16, 32, 64 as far as their tiles fit in shared memory.
//
// Bound by: the latency of a chunk. With one block a multiprocessor nothing hides the dependent
// products of the value warps and the substitution of the preparing ones: the tensor cores are
// mostly idle. Blocks that share a head repeat the preparing warps' work.
//
// Measured on an H200, bfloat16, heads 16/32, D 128, cold L2, ms (data/measured/h200-2026-11-26):
//     chunk          16     32     64
//     4 x 8192     1.07   0.93   1.10     (a block a head, 8 value and 4 preparing warps)
//     1 x 32768    3.36   2.81   3.54     (4 blocks a head, 2 value and 8 preparing warps)
// The preparing warps are what a chunk waits for, and a fifth of their time went into waiting for instructions:
// the loop is longer than the instruction cache, and each jump over code that is not run is a miss. One way of
// copying rows in the place of two, products whose fragments are loaded a step ahead, and norms in a rolled loop
// took 1.28, 1.08, 1.27 and 4.34, 3.76, 3.75 to the figures above; float32 tokens, 4 x 8192, took 6.0 to 4.7.
// Few long sequences are cuda/chunkwise's: its work before and after the state pass is parallel.
//
// Error: as cuda/chunkwise, but X = beta (V - gamma K S) is rounded as well: 0.24 to 0.49 in the
// case of repeated reflections described there.
#include <cuda_runtime.h>

#include <string>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/chunk/fragment_support.h"
#include "cuda/gated_delta/chunk/fragments.cuh"
#include "cuda/gated_delta/chunk/fused_launch.cuh"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

/// What a block may have on an H200 (sm_90); a device that has less says so when planning.
constexpr int kMaxSharedBytes = 232448;

/// The functions of fused_launch.cuh for one token dtype and chunk.
struct Kernels {
  int (*shared_bytes)(int, const FusedSplit&);
  void (*configure)(int, const FusedSplit&);
  void (*enqueue)(const GatedDeltaParams&, const FusedSplit&, cudaStream_t);
  int (*max_value_warps)(int);
};

template <typename Element, int C, bool kCheckpoints = false>
Kernels kernels() {
  return {fused_shared_bytes<Element, C, kCheckpoints>, configure_fused<Element, C, kCheckpoints>,
          enqueue_fused<Element, C, kCheckpoints>, max_value_warps<Element, C>};
}

std::int64_t chunk_of(const Problem& problem) {
  return problem.chunk != 0 ? problem.chunk : kDefaultFusedChunk;
}

/// For what chunk_support allows.
Kernels kernels_of(const Problem& problem) {
  const std::int64_t chunk = chunk_of(problem);
  return with_element_type(problem.token_dtype, [&](auto element) -> Kernels {
    using Element = decltype(element);
    if (problem.checkpoints > 0) return kernels<Element, kDefaultFusedChunk, true>();
    if (chunk == 16) return kernels<Element, 16>();
    if constexpr (sizeof(Element) == 2) {
      if (chunk == 64) return kernels<Element, 64>();
    }
    return kernels<Element, 32>();
  });
}

Support chunk_support(const Problem& problem) {
  const DType token_dtype = problem.token_dtype;
  const std::int64_t chunk = chunk_of(problem);
  if (problem.checkpoints > 0 && chunk != kDefaultFusedChunk) {
    return Support::no("chunk=" + std::to_string(chunk) +
                       " with checkpoints, which are compiled for chunk=" +
                       std::to_string(kDefaultFusedChunk) + " alone");
  }
  if (chunk == 16 || chunk == 32) return Support::yes();
  if (chunk == 64) {
    if (token_dtype != DType::float32) return Support::yes();
    return Support::no(
        "chunk=64 with float32 tokens: a value warp's state and the V' of 64 tokens do not fit in "
        "its "
        "registers (16 and 32 do)");
  }
  return Support::no("chunk=" + std::to_string(chunk) +
                     " is not 16, 32 or 64: the tiles of two chunks and a chunk's outputs have to "
                     "fit in one block's shared memory and registers");
}

/// Chooses how many value warps share a block: as many as leave no multiprocessor idle, fewer where
/// shared memory has no room for their columns of V. False where not even one fits.
bool choose_split(const Problem& problem, const Kernels& kernels, int max_shared_bytes,
                  int multiprocessors, FusedSplit& split) {
  const auto key_head_dim = static_cast<int>(problem.key_head_dim);
  const int value_blocks = blocks_of_16(static_cast<int>(problem.value_head_dim));
  const std::int64_t heads = problem.num_sequences() * problem.num_value_heads;
  const auto blocks = [&](int warps) { return heads * ((value_blocks + warps - 1) / warps); };
  int warps = kernels.max_value_warps(key_head_dim);
  while (warps > 1 && (warps / 2 >= value_blocks || blocks(warps / 2) <= multiprocessors)) {
    warps /= 2;
  }
  for (split.value_warps = warps; split.value_warps > 0; split.value_warps /= 2) {
    for (split.key_stages = 3; split.key_stages >= 2; --split.key_stages) {
      if (kernels.shared_bytes(key_head_dim, split) > max_shared_bytes) continue;
      const bool room =
          split.value_warps + 8 <= kernels.max_value_warps(key_head_dim) + kFewestPreparingWarps;
      split.preparing_warps = room ? 8 : kFewestPreparingWarps;
      return true;
    }
  }
  split = {1, kFewestPreparingWarps, 2};
  return false;
}

class Fused final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/fused",
        .operation = gated_delta_operation(),
        .honours = recurrence_options() +
                   HonouredFields{"output_slots", "checkpoints", "checkpoint_dtype"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "fused",
        .summary =
            "one kernel, state in registers, mma.sync; bound by tensor cores or a chunk's latency",
        .resources = "up to 227 KB of shared memory (fewer at small Dk and chunks)",
        .min_compute_capability = 80,
        .rank = 40,
        .aligned = token_alignment(),
        .examples = {
            "gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=bf16",
            "gated_delta:heads=1/2,dim=128,seq=70,h0=normal,dtype=f16,chunk=64",
            "gated_delta:heads=1/2,dim=64x72,seq=20+3+0+150,h0=normal,dtype=bf16,slots=padding,"
            "output_slots=other,layout=vk,checkpoints=3,checkpoint_dtype=bf16",
            "gated_delta:heads=1/1,dim=136x40,seq=70+1,dtype=f32,state=bf16,ht=0,norm=1,"
            "checkpoints=4,checkpoint_dtype=f32"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    if (Support support = chunk_support(problem); !support) return support;
    if (Support support = fragment_support(problem); !support) return support;
    FusedSplit split;
    return shared_memory_support(problem, kMaxSharedBytes, 1, split);
  }

  std::int64_t workspace_bytes(const Problem&) const override { return 0; }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    require_token_alignment(params, problem.token_dtype, 16);
    if (problem.total_tokens() > 0) require_pointer(params.output, 8, "output");

    int max_shared_bytes = 0;
    GDN_CUDA_CHECK(cudaDeviceGetAttribute(
        &max_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_index(device)));
    FusedSplit split;
    const Support fits =
        shared_memory_support(problem, max_shared_bytes, device.info().multiprocessors, split);
    if (!fits) throw Error(ErrorKind::unsupported, description().name + ": " + fits.reason);
    const Kernels kernels = kernels_of(problem);
    GDN_CUDA_CHECK(cudaSetDevice(device_index(device)));
    kernels.configure(params.key_head_dim, split);

    PlanInfo info;
    info.chunk = chunk_of(problem);
    info.launches = 1;
    info.choice = "value_warps=" + std::to_string(split.value_warps) +
                  " preparing_warps=" + std::to_string(split.preparing_warps) +
                  " key_stages=" + std::to_string(split.key_stages);
    return std::make_unique<LaunchPlan>(
        device, info, std::vector<DeviceBuffer>{},
        [params, split, kernels](cudaStream_t stream) { kernels.enqueue(params, split, stream); });
  }

 private:
  static Support shared_memory_support(const Problem& problem, int max_shared_bytes,
                                       int multiprocessors, FusedSplit& split) {
    const Kernels kernels = kernels_of(problem);
    if (choose_split(problem, kernels, max_shared_bytes, multiprocessors, split)) {
      return Support::yes();
    }
    return no_room(problem, chunk_of(problem),
                   kernels.shared_bytes(static_cast<int>(problem.key_head_dim), split),
                   max_shared_bytes);
  }
};

}  // namespace

const Implementation& gated_delta_fused() {
  static const Fused implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
