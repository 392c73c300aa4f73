// cuda/chunkwise: the chunkwise WY form of docs/contract.md, section 2, in separate kernels, for
// reading: each stage is one file of chunk/, complete in itself.
//
//   chunk_map      chunk -> sequence, from the sequence offsets on the device
//                  (with checkpoints checkpoint_segments first: they cut sequences, and so chunks)
//   stage_gates    (norms of q and k,) decays, their sums in a chunk, beta
//   stage_inverse  K K^T, L = I + strict_lower(diag(beta) (K K^T * D)), T = L^-1
//   stage_wu       U = T diag(beta) V,  W = T diag(beta gamma) K
//   stage_states   V' = U - W S,  S <- gamma_C S + (diag(gamma_C / gamma) K)^T V': serial over
//                  chunks
//   stage_outputs  O = scale (diag(gamma) Q S + lower(Q K^T * D) V')
//
// Variants: with the additive update V' = diag(beta) V takes the place of stages inverse and wu
// (stage_additive) and the state pass has one product less; several steps per token are so many
// rows (step_rows). One decay per key channel stands inside the products K K^T and Q K^T, which
// these stages form without it: refused.
//
// Of states inside the call (`checkpoints`) the state pass alone knows: to all other stages the tokens
// between two of them are a sequence (checkpoint_segments). Four in each of four sequences of 8192 tokens,
// 16/32 heads of 128, bfloat16, cost 6 % of the time on an H200, sixteen 13 %.
//
// 16-bit tokens multiply on the tensor cores (mma.sync), float32 tokens in split TF32 with the
// error of float32 (chunk/fragments.cuh). Any Dk up to 256 and any Dv whose rows are multiples of
// 16 bytes; chunks of 16, 32, 64, 128.
//
// Bound by: memory traffic of what the stages hand over (T, W, U, V' and one S a chunk, about 4
// times the inputs and outputs at chunk 64 and D 128), by instruction issue in the inverse, and,
// where sequences and heads are few, by the latency of the state pass.
//
// Measured on an H200, bfloat16, heads 16/32, D 128, cold L2, no initial state, median of 7, ms,
// before the state pass got its barrier after the initial state and chunks 16 and 32 their smaller
// output groups (not timed since):
//     chunk          16     32     64    128
//     4 x 8192     2.47   1.70   1.47   2.64
//     1 x 32768    3.92   2.42   1.92   2.95
// of which at chunk 64 and 1 x 32768 (profiler): gates 0.02, inverse 0.23, W and U 0.29 (3.7 TB/s),
// states 0.89, outputs 0.49 (2.8 TB/s).
//
// Error: with 16-bit operands, keys that reflect the state again and again without decay (equal or
// alternating keys, beta 2, decay near 1) make the true result a difference of large V': 0.06 to
// 0.23 relative after 300 tokens in bfloat16.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/chunk/chunkwise_launch.cuh"
#include "cuda/gated_delta/chunk/fragment_support.h"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr std::int64_t kDefaultChunk = kChunkOfCheckpoints;
/// What a block may have on an H200 (sm_90); a device that has less says so when planning.
constexpr int kMaxSharedBytes = 232448;

/// The three functions of chunkwise_launch.cuh for one token dtype and chunk.
struct Kernels {
  int (*shared_bytes)(const ChunkwiseLaunch&);
  void (*configure)(const ChunkwiseLaunch&);
  void (*enqueue)(const ChunkwiseLaunch&, cudaStream_t);
};

template <typename Element, int C>
Kernels kernels() {
  return {chunkwise_shared_bytes<Element, C>, configure_chunkwise<Element, C>,
          enqueue_chunkwise<Element, C>};
}

/// `chunk` is one of 16, 32, 64, 128.
Kernels kernels_of(DType token_dtype, std::int64_t chunk) {
  return with_element_type(token_dtype, [&](auto element) -> Kernels {
    using Element = decltype(element);
    switch (chunk) {
      case 16:
        return kernels<Element, 16>();
      case 32:
        return kernels<Element, 32>();
      case 64:
        return kernels<Element, 64>();
      default:
        return kernels<Element, 128>();
    }
  });
}

std::int64_t chunk_of(const Problem& problem) {
  return problem.chunk == 0 ? kDefaultChunk : problem.chunk;
}

/// Splits of the state pass, from most to least wanted: both of the next chunk's operands in
/// flight, and as many warps sharing them as leave no multiprocessor idle.
bool choose_split(ChunkwiseLaunch& launch, const Kernels& kernels, int max_shared_bytes,
                  int multiprocessors) {
  const std::int64_t heads =
      std::int64_t{launch.params.num_sequences} * launch.params.num_value_heads;
  const int value_blocks = blocks_of_16(launch.params.value_head_dim);
  int wanted = 4;
  for (const int warps : {2, 1}) {
    if (heads * ((value_blocks + 2 * warps - 1) / (2 * warps)) < multiprocessors &&
        heads * ((value_blocks + warps - 1) / warps) <= multiprocessors) {
      wanted = warps;
    }
  }
  for (launch.state_stages = 2; launch.state_stages > 0; --launch.state_stages) {
    for (launch.state_warps = wanted; launch.state_warps > 0; launch.state_warps /= 2) {
      if (kernels.shared_bytes(launch) <= max_shared_bytes) return true;
    }
  }
  launch.state_stages = 1;
  launch.state_warps = 1;
  return false;
}

/// Device memory of the workspace's arrays, in the order of ChunkwiseWorkspace.
struct WorkspaceSizes {
  std::int64_t max_chunks = 0;
  std::int64_t first_chunk = 0, sequence = 0, norms = 0, gates = 0, inverse = 0, w = 0, values = 0,
               states = 0;
  std::int64_t row_offsets = 0, row_log_decay = 0;        ///< StepRows
  std::int64_t segment_offsets = 0, segment_slots = 0;    ///< CheckpointSegments
  std::int64_t row_key = 0, row_value = 0, row_beta = 0;  ///< of which a plan may need none
  std::int64_t total() const {
    return first_chunk + sequence + 2 * norms + gates + inverse + w + values + states +
           row_offsets + row_log_decay + segment_offsets + segment_slots + row_key + row_value +
           row_beta;
  }
};

WorkspaceSizes workspace_sizes(const Problem& problem) {
  const std::int64_t C = chunk_of(problem);
  const auto element = static_cast<std::int64_t>(size_of(problem.token_dtype));
  const std::int64_t block_bytes = kFragmentElements * element;
  const std::int64_t blocks = C / 16;
  const std::int64_t key_blocks = blocks_of_16(static_cast<int>(problem.key_head_dim));
  const std::int64_t value_blocks = blocks_of_16(static_cast<int>(problem.value_head_dim));
  WorkspaceSizes sizes;
  const std::int64_t rows = problem.total_tokens() * problem.steps;
  std::int64_t sequences = problem.num_sequences();  // as the chunk map has them
  sizes.max_chunks = max_chunks(rows, sequences, C);
  if (problem.checkpoints > 0) {
    sequences *= segments_of_sequence(problem.checkpoints);
    sizes.max_chunks = std::min(max_chunks(rows, sequences, C), rows);  // none is empty
    sizes.segment_offsets = 8 * (sequences + 1);
    sizes.segment_slots = 8 * sequences;
  }
  const std::int64_t chunk_heads = sizes.max_chunks * problem.num_value_heads;
  sizes.first_chunk = 4 * (sequences + 1);
  sizes.sequence = 4 * sizes.max_chunks;
  sizes.norms = problem.normalize_qk ? 4 * rows * problem.num_key_heads : 0;
  sizes.gates = chunk_heads * 7 * 4 * C;
  if (problem.update == UpdateRule::delta) {
    sizes.inverse = chunk_heads * triangle_blocks(static_cast<int>(C)) * kFragmentElements * 4;
    sizes.w = chunk_heads * blocks * key_blocks * block_bytes;
  }
  sizes.values = chunk_heads * blocks * value_blocks * block_bytes;
  sizes.states = chunk_heads * key_blocks * value_blocks * block_bytes;
  if (problem.steps > 1) {
    sizes.row_offsets = 8 * (problem.num_sequences() + 1);
    sizes.row_log_decay = 4 * rows * problem.num_value_heads;
    sizes.row_key = element * problem.total_tokens() * problem.keys_per_token();
    sizes.row_value = element * problem.total_tokens() * problem.values_per_token();
    sizes.row_beta = 4 * rows * problem.num_value_heads;
  }
  return sizes;
}

class Chunkwise final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/chunkwise",
        .operation = gated_delta_operation(),
        .honours = recurrence_options() + HonouredFields{"update", "steps", "output_slots",
                                                         "checkpoints", "checkpoint_dtype"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "chunkwise",
        .summary = "WY form in separate kernels on tensor cores; bound by what they hand over",
        .resources = "up to 227 KB of shared memory (fewer at small Dk and chunks)",
        .min_compute_capability = 80,
        .rank = 30,
        .aligned = token_alignment(),
        .examples = {
            "gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=bf16",
            "gated_delta:heads=1/2,dim=64,seq=70,h0=normal,dtype=f32,chunk=32",
            "gated_delta:heads=1/2,dim=64x72,seq=20+3+0+150,h0=normal,dtype=bf16,slots=padding,"
            "output_slots=other,layout=vk,checkpoints=3,checkpoint_dtype=bf16",
            "gated_delta:heads=1/2,dim=136x40,seq=70+1,dtype=f32,state=bf16,ht=0,norm=1,"
            "checkpoints=4,checkpoint_dtype=f32",
            "gated_delta:heads=1/2,dim=64,seq=50+9,dtype=f16,h0=normal,steps=2,update=additive,"
            "checkpoints=2"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    const std::int64_t C = chunk_of(problem);
    if (C != 16 && C != 32 && C != 64 && C != 128) {
      return Support::no("chunk=" + std::to_string(C) + " is not 16, 32, 64 or 128");
    }
    if (problem.checkpoints > 0 && C != kChunkOfCheckpoints) {
      return Support::no("chunk=" + std::to_string(C) +
                         " with checkpoints, which are compiled for chunk=" +
                         std::to_string(kChunkOfCheckpoints) + " alone");
    }
    if (problem.num_sequences() > kLargestIndex / segments_of_sequence(problem.checkpoints)) {
      return Support::no("sequences=" + std::to_string(problem.num_sequences()) +
                         " with checkpoints=" + std::to_string(problem.checkpoints) +
                         ": more than 2^31 parts of sequences");
    }
    if (Support support = fragment_support(problem); !support) return support;
    ChunkwiseLaunch launch;
    launch.params.key_head_dim = static_cast<std::int32_t>(problem.key_head_dim);
    launch.params.value_head_dim = static_cast<std::int32_t>(problem.value_head_dim);
    return shared_memory_support(problem, launch, kMaxSharedBytes, 1);
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return workspace_sizes(problem).total();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    ChunkwiseLaunch launch;
    launch.params = make_params(problem, arguments);
    require_token_alignment(launch.params, problem.token_dtype, 16);
    if (problem.total_tokens() > 0) require_pointer(launch.params.output, 8, "output");
    launch.token_capacity = problem.total_tokens();
    launch.tokens = launch.params;

    int max_shared_bytes = 0;
    GDN_CUDA_CHECK(cudaDeviceGetAttribute(
        &max_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_index(device)));
    const Support fits =
        shared_memory_support(problem, launch, max_shared_bytes, device.info().multiprocessors);
    if (!fits) throw Error(ErrorKind::unsupported, description().name + ": " + fits.reason);
    const Kernels kernels = kernels_of(problem.token_dtype, chunk_of(problem));
    GDN_CUDA_CHECK(cudaSetDevice(device_index(device)));
    kernels.configure(launch);

    const WorkspaceSizes sizes = workspace_sizes(problem);
    grid_blocks(sizes.max_chunks * problem.num_value_heads * 8, description().name);
    std::vector<DeviceBuffer> workspaces;
    const auto allocate = [&](std::int64_t bytes) {
      workspaces.push_back(device.allocate(bytes));
      return workspaces.back().data();
    };
    ChunkwiseWorkspace& w = launch.workspace;
    w.max_chunks = sizes.max_chunks;
    w.map.first_chunk = static_cast<std::int32_t*>(allocate(sizes.first_chunk));
    w.map.sequence = static_cast<std::int32_t*>(allocate(sizes.sequence));
    w.query_norm = static_cast<float*>(allocate(sizes.norms));
    w.key_norm = static_cast<float*>(allocate(sizes.norms));
    w.gates = allocate(sizes.gates);
    w.inverse = static_cast<float*>(allocate(sizes.inverse));
    w.w = allocate(sizes.w);
    w.values = allocate(sizes.values);
    w.states = allocate(sizes.states);
    if (problem.steps > 1) {
      launch.rows.sequence_offsets = static_cast<std::int64_t*>(allocate(sizes.row_offsets));
      launch.rows.log_decay = static_cast<float*>(allocate(sizes.row_log_decay));
      if (!keys_are_rows(launch.tokens)) launch.rows.key = allocate(sizes.row_key);
      if (!values_are_rows(launch.tokens)) launch.rows.value = allocate(sizes.row_value);
      if (!betas_are_rows(launch.tokens)) {
        launch.rows.beta = static_cast<float*>(allocate(sizes.row_beta));
      }
      launch.params = params_of_step_rows(launch.tokens, launch.rows);
    }
    if (problem.checkpoints > 0) {
      launch.segments.offsets = static_cast<std::int64_t*>(allocate(sizes.segment_offsets));
      launch.segments.slot_index = static_cast<std::int64_t*>(allocate(sizes.segment_slots));
      launch.params = params_of_segments(launch.params, launch.segments);
    }

    PlanInfo info;
    info.chunk = chunk_of(problem);
    if (launch.token_capacity > 0) {
      info.launches = (problem.update == UpdateRule::delta ? 6 : 5) +
                      (problem.normalize_qk ? 1 : 0) + (problem.steps > 1 ? 1 : 0) +
                      (problem.checkpoints > 0 ? 1 : 0);
    } else if (problem.checkpoints > 0 && problem.num_sequences() > 0) {
      info.launches = 2;  // zeros of checkpoints
    }
    info.choice = "state_warps=" + std::to_string(launch.state_warps) +
                  " state_stages=" + std::to_string(launch.state_stages);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [launch, kernels](cudaStream_t stream) { kernels.enqueue(launch, stream); });
  }

 private:
  /// Chooses the state pass's split for what a block may have; the reason where nothing fits.
  static Support shared_memory_support(const Problem& problem, ChunkwiseLaunch& launch,
                                       int max_shared_bytes, int multiprocessors) {
    const Kernels kernels = kernels_of(problem.token_dtype, chunk_of(problem));
    if (choose_split(launch, kernels, max_shared_bytes, multiprocessors)) return Support::yes();
    return no_room(problem, chunk_of(problem), kernels.shared_bytes(launch), max_shared_bytes);
  }
};

}  // namespace

const Implementation& gated_delta_chunkwise() {
  static const Chunkwise implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
