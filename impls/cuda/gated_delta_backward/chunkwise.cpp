// cuda/chunkwise of gated_delta_backward: the gradients of the chunkwise form (docs/contract.md, section 2),
// in separate kernels, each of which is one file of chunk/ and gives the formulas of its stage there.
//
//   chunk_map        chunk -> sequence, from the sequence offsets on the device
//   stage_gates      (norms of q and k,) decays, their sums in a chunk, beta: those of the forward call
//   stage_tiles      tokens as float32 tiles
//   stage_prepare    T = L^-1 and P, and what a step of either chain is made of
//   stage_chains     S forwards and D, the gradient of the state, backwards: serial over chunks, both at once
//   stage_states     in two levels alone: S and D of the chunks between those that the chains kept
//   stage_gradients  all gradients of a chunk, d_q and d_k by value head
//   sums             over value heads and over the batch, in a fixed order (sums.cuh)
//
// The states at the chunks and V' are made again as the forward call made them. Nothing is multiplied by T
// from both sides: with Y = T^T dV' the gradient of L is -Y V'^T.
//
// Every product is one of tensor cores in split TF32 with the error of float32, whatever the token dtype
// (cuda/gated_delta/chunk/fragments.cuh): any Dk up to 256, any Dv, chunks of 16, 32 and 64.
//
// Workspace: of each chunk and value head at most 4 (4 C Dk + 3 C Dv + 2 Dk Dv) bytes, with Dk and Dv in
// multiples of 16. With two value heads to a key head, chunk 64 and D 128 that is 320 KB: of 4 x 8192 tokens
// and 32 heads 5 GB. The summands of d_q and d_k take the place of what the chains have read by then.
//
// Bound by: memory, by that workspace; and by the latency of the chains where sequences and heads are few.
// 16-bit operands would take half the bytes and a sixth of the instructions of a product.
//
// Reached, H200, 16/32 heads of 128, bfloat16 tokens, cold L2: 1x4096 3.29 ms, 4x8192 24.6 ms.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta_backward/arguments.cuh"
#include "cuda/gated_delta_backward/chunk/chunk_gradients.cuh"
#include "cuda/gated_delta_backward/chunk/form.h"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::GDN_CUDA_TARGET {
namespace chunk_gradients {
namespace {

constexpr std::int64_t kDefaultChunk = 64;
constexpr std::int64_t kTileTokens = 256;  ///< of the outer of two levels
constexpr std::int64_t kMostGroups = 8;    ///< of value heads, whose states are made again in turn

std::int64_t chunk_of(const Problem& problem) {
  return problem.chunk == 0 ? kDefaultChunk : problem.chunk;
}

struct Kernels {
  void (*configure)(const ChunkGradientsLaunch&);
  void (*enqueue)(const ChunkGradientsLaunch&, cudaStream_t);
};
/// `chunk` is one of 16, 32, 64.
Kernels kernels_of(std::int64_t chunk) {
  switch (chunk) {
    case 16:
      return {configure_chunk_gradients<16>, enqueue_chunk_gradients<16>};
    case 32:
      return {configure_chunk_gradients<32>, enqueue_chunk_gradients<32>};
    default:
      return {configure_chunk_gradients<64>, enqueue_chunk_gradients<64>};
  }
}

/// Bytes of the workspace's arrays.
struct WorkspaceSizes {
  std::int64_t max_chunks, first_chunk, sequence, norms, gates;
  std::int64_t tokens_of_keys, tokens_of_values;  ///< a tile of each chunk and key or value head
  std::int64_t rows_of_keys;  ///< of each chunk and value head; twice that is what summands need
  std::int64_t tile_chunks, group_heads;
  std::int64_t states;       ///< of each chunk and value head of a group
  std::int64_t kept_states;  ///< of each tile and value head; 0 where tiles are chunks
  std::int64_t summands_of_gates;
  std::int64_t total() const {
    return first_chunk + sequence + 2 * norms + gates + 2 * tokens_of_keys + 3 * tokens_of_values +
           2 * rows_of_keys + 2 * states + 2 * kept_states + summands_of_gates;
  }
};

WorkspaceSizes workspace_sizes(const Problem& p, Form form) {
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t C = chunk_of(p);
  const std::int64_t keys = 16 * std::int64_t{blocks_of_16(static_cast<int>(p.key_head_dim))};
  const std::int64_t values = 16 * std::int64_t{blocks_of_16(static_cast<int>(p.value_head_dim))};
  WorkspaceSizes s;
  s.max_chunks = max_chunks(p.total_tokens(), p.num_sequences(), C);
  const std::int64_t chunk_heads = s.max_chunks * p.num_value_heads;
  s.first_chunk = 4 * (p.num_sequences() + 1);
  s.sequence = 4 * s.max_chunks;
  s.norms = p.normalize_qk ? kFloat * p.total_tokens() * p.num_key_heads : 0;
  s.gates = chunk_heads * 7 * C * kFloat;
  s.tokens_of_keys = s.max_chunks * p.num_key_heads * C * keys * kFloat;
  s.tokens_of_values = chunk_heads * C * values * kFloat;
  s.rows_of_keys = chunk_heads * C * keys * kFloat;
  const bool two_level = form == Form::two_level;
  s.tile_chunks = two_level ? kTileTokens / C : 1;
  s.group_heads =
      two_level ? (p.num_value_heads + kMostGroups - 1) / kMostGroups : p.num_value_heads;
  s.states = s.max_chunks * s.group_heads * keys * values * kFloat;
  s.kept_states = two_level ? max_tiles(s.max_chunks, p.num_sequences(), s.tile_chunks) *
                                  p.num_value_heads * keys * values * kFloat
                            : 0;
  s.summands_of_gates = GradientParts::gate_floats(p, 1) * kFloat;
  return s;
}

class Chunkwise final : public Implementation {
 public:
  explicit Chunkwise(Form form) : form_(form) {
    const bool two_level = form == Form::two_level;
    description_ = {
        .name = two_level ? "cuda/chunkwise_two_level" : "cuda/chunkwise",
        .operation = gated_delta_backward_operation(),
        .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                    "scale", "gate", "bound", "beta"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "chunkwise",
        .summary =
            two_level ? "as cuda/chunkwise, with the states of every 256 tokens kept and those of "
                        "the chunks between made again: less memory"
                      : "the gradients of the WY form in separate kernels, products in split TF32; "
                        "bound by the float32 matrices that they hand over",
        .resources = "up to 62 KB of shared memory",
        .min_compute_capability = 80,
        .rank = two_level ? 25 : 30,
        .examples = {"gated_delta_backward:heads=1/2,dim=16x24,seq=70+3,dtype=f32,h0=normal",
                     "gated_delta_backward:heads=1/2,dim=128x72,seq=40+2,dtype=bf16,gate=logits,"
                     "beta=logit,norm=1,chunk=16",
                     "gated_delta_backward:heads=1/2,dim=192x40,seq=40+0+6,dtype=f16,state=bf16,"
                     "layout=vk,h0=normal,slots=padding,pool_pad=8,gate=bounded,beta=logit2,"
                     "chunk=32"}};
  }

  const Description& description() const override { return description_; }

  Support supports(const Problem& problem) const override {
    const std::int64_t C = chunk_of(problem);
    if (C != 16 && C != 32 && C != 64) {
      return Support::no("chunk=" + std::to_string(C) + " is not 16, 32 or 64");
    }
    if (problem.key_head_dim > kMostKeyChannels) {
      return Support::no("Dk=" + std::to_string(problem.key_head_dim) +
                         ": the sums of d_q and d_k are written for Dk up to " +
                         std::to_string(kMostKeyChannels));
    }
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return workspace_sizes(problem, form_).total();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    ChunkGradientsLaunch launch;
    launch.params = make_backward_params(problem, arguments);
    const Kernels kernels = kernels_of(chunk_of(problem));
    GDN_CUDA_CHECK(cudaSetDevice(device_index(device)));
    kernels.configure(launch);

    const WorkspaceSizes sizes = workspace_sizes(problem, form_);
    const std::int64_t chunk_heads = sizes.max_chunks * problem.num_value_heads;
    grid_blocks(chunk_heads, description().name);
    if (form_ == Form::two_level) {
      grid_blocks(2 * sizes.max_chunks * sizes.group_heads * problem.value_head_dim,
                  description().name);
    }
    grid_blocks(2 * problem.num_sequences() * problem.num_value_heads * problem.value_head_dim,
                description().name);
    std::vector<DeviceBuffer> workspaces;
    const auto allocate = [&](std::int64_t bytes) {
      workspaces.push_back(device.allocate(bytes));
      return workspaces.back().as<float>();
    };
    ChunkGradients& w = launch.chunks;
    w.forward.max_chunks = sizes.max_chunks;
    w.forward.map.first_chunk = reinterpret_cast<std::int32_t*>(allocate(sizes.first_chunk));
    w.forward.map.sequence = reinterpret_cast<std::int32_t*>(allocate(sizes.sequence));
    w.forward.query_norm = allocate(sizes.norms);
    w.forward.key_norm = allocate(sizes.norms);
    w.forward.gates = allocate(sizes.gates);
    w.query = allocate(sizes.tokens_of_keys);
    w.key = allocate(sizes.tokens_of_keys);
    w.d_output = allocate(sizes.tokens_of_values);
    w.values = allocate(sizes.tokens_of_values);
    w.d_values = allocate(sizes.tokens_of_values);
    w.of_state = allocate(2 * sizes.rows_of_keys);
    w.of_d_state = w.of_state + sizes.rows_of_keys / static_cast<std::int64_t>(sizeof(float));
    w.heads = {0, static_cast<int>(sizes.group_heads)};
    w.states = allocate(sizes.states);
    w.d_states = allocate(sizes.states);
    w.tile_chunks = static_cast<int>(sizes.tile_chunks);
    w.kept_states = w.tile_chunks > 1 ? allocate(sizes.kept_states) : w.states;
    w.kept_d_states = w.tile_chunks > 1 ? allocate(sizes.kept_states) : w.d_states;
    launch.parts.keys = w.of_state;  // 2 Dk floats of each token and head: no more
    launch.parts.gates = allocate(sizes.summands_of_gates);
    launch.parts.tokens = problem.total_tokens();

    PlanInfo info;
    info.chunk = chunk_of(problem);
    info.launches = gradient_sum_launches(launch.params, launch.parts);
    if (chunk_heads > 0) info.launches += 2;
    if (launch.parts.tokens > 0) {
      const std::int64_t groups =
          (problem.num_value_heads + sizes.group_heads - 1) / sizes.group_heads;
      const auto of_groups = static_cast<int>(w.tile_chunks > 1 ? 2 * groups : groups);
      info.launches += 3 + (problem.normalize_qk ? 1 : 0) + of_groups;
    }
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces), [launch, kernels, chunk_heads](cudaStream_t stream) {
          if (chunk_heads > 0) kernels.enqueue(launch, stream);
          enqueue_gradient_sums(launch.params, launch.parts, stream);
        });
  }

 private:
  Form form_;
  Description description_;
};

}  // namespace

const Implementation& implementation(Form form) {
  static const Chunkwise one_level(Form::one_level), two_level(Form::two_level);
  return form == Form::one_level ? one_level : two_level;
}

}  // namespace chunk_gradients

const Implementation& gated_delta_backward_chunkwise() {
  return chunk_gradients::implementation(chunk_gradients::Form::one_level);
}

}  // namespace gdn::GDN_CUDA_TARGET
