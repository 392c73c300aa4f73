// cuda/chunkwise_sm90 of gated_delta_backward: the chunkwise form of the gradients for Hopper, in kernels each of
// which is one file of chunkwise_sm90/ and gives the formulas there.
//
//   prepare      T = L^-1 and P of every chunk and value head, and factors of its tokens
//   chains       S forwards and D, the gradient of the state, backwards: serial over chunks, both at once
//   gradients    everything else, of a chunk and key head, summed over its value heads
//   small_betas  d_beta of tokens whose beta leaves nothing to divide by
//   sums         the gates' own gradients from those of decays and betas (sums.cuh)
//
// Products take bfloat16 operands and add up in float32: tokens as they are, and S, D, T, P, V', dV' and what is made
// of them rounded once.
//
// Workspace: of each chunk and value head 98 KB, S and D above all.
//
// Reached, H200, 16/32 heads of 128, cold L2: 4x8192 tokens 1.84 ms (chunkwise_sm90/log.md).
#include <cuda_runtime.h>

#include <utility>
#include <vector>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta_backward/arguments.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/hopper/tensor_map.h"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::GDN_CUDA_TARGET {
namespace backward_sm90 {
namespace {

TensorMaps make_tensor_maps(const BackwardParams& b, std::int64_t tokens) {
  const GatedDeltaParams& p = b.forward;
  const auto map = [&](const void* base, std::int64_t token_stride, int heads, int panels,
                       const char* name) {
    return hopper::make_tensor_map(base, DType::bfloat16,
                                   {{kPanel, 1, kPanel},
                                    {tokens, token_stride, kChunk},
                                    {2, kPanel, panels},
                                    {heads, 2 * kPanel, 1}},
                                   name);
  };
  const std::int64_t values = std::int64_t{p.num_value_heads} * kValueDim;
  const auto value = [&](int panels) {
    return map(p.value, p.value_token_stride, p.num_value_heads, panels, "v");
  };
  const auto d_output = [&](int panels) {
    return map(b.d_output, b.d_output_token_stride, p.num_value_heads, panels, "d_output");
  };
  const auto d_value = [&](int panels) {
    return map(p.output, values, p.num_value_heads, panels, "d_v");
  };
  return {.query = map(p.query, p.query_token_stride, p.num_key_heads, 2, "q"),
          .key = map(p.key, p.key_token_stride, p.num_key_heads, 2, "k"),
          .value = value(2),
          .d_output = d_output(2),
          .d_value = d_value(2),
          .value_panel = value(1),
          .d_output_panel = d_output(1),
          .d_value_panel = d_value(1)};
}

/// Bytes of the workspace's arrays.
struct WorkspaceSizes {
  std::int64_t records, states, updates, d_gates;
  std::int64_t total() const { return records + 2 * states + updates + d_gates; }
};
WorkspaceSizes workspace_sizes(const Problem& p) {
  const std::int64_t heads = chunk_slots(p.total_tokens(), p.num_sequences()) * p.num_value_heads;
  return {heads * kRecordBytes, heads * kStateBytes, heads * kTileBytes,
          GradientParts::gate_floats(p, 1) * static_cast<std::int64_t>(sizeof(float))};
}

class ChunkwiseSm90 final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/chunkwise_sm90",
        .operation = gated_delta_backward_operation(),
        .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                    "scale", "gate", "bound", "beta"},
        .gates_in_any_form = true,
        .backend = "cuda",
        .form = "chunkwise",
        .summary =
            "wgmma and TMA, bfloat16 operands: the chains of S and of its gradient with states in "
            "registers, then every chunk's gradients at once; bound by memory",
        .resources = "sm_90a, 227 KB shared memory",
        .min_compute_capability = 90,
        .exact_compute_capability = 90,
        .rank = 60,
        .aligned = {{"q", "k", "v", "d_output", "d_q", "d_k", "d_v"}, 16},
        .examples = {"gated_delta_backward:heads=1/2,dim=128,seq=20+3,h0=normal,dtype=bf16",
                     "gated_delta_backward:heads=1/2,dim=128,seq=70+3+0+130,dtype=bf16,h0=normal,"
                     "gate=logits,beta=logit,norm=1,layout=vk,state=bf16,slots=padding",
                     "gated_delta_backward:heads=1/3,dim=128,seq=64+65,dtype=bf16,gate=bounded,"
                     "beta=logit2,ht=0"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    if (problem.key_head_dim != kKeyDim || problem.value_head_dim != kValueDim)
      return Support::no("head dims " + std::to_string(problem.key_head_dim) + "x" +
                         std::to_string(problem.value_head_dim) + ": only 128x128");
    if (problem.token_dtype != DType::bfloat16)
      return Support::no("tokens of another type: only bfloat16");
    if (problem.gate_encoding == GateEncoding::decay)
      return Support::no("gate=decay: the gradient of a decay of 0 is not that of its logarithm");
    if (problem.chunk != 0 && problem.chunk != kChunk)
      return Support::no("chunk " + std::to_string(problem.chunk) + ": only 64");
    if (problem.total_tokens() > 2147483647 - kChunk) return Support::no("more than 2^31 tokens");
    return Support::yes();
  }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return workspace_sizes(problem).total();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    Launch launch;
    launch.name = description().name;
    BackwardParams& b = launch.params.backward;
    b = make_backward_params(problem, arguments);
    const WorkspaceSizes sizes = workspace_sizes(problem);
    std::vector<DeviceBuffer> workspaces;
    const auto allocate = [&](std::int64_t bytes) {
      workspaces.push_back(device.allocate(bytes));
      return workspaces.back().as<std::uint8_t>();
    };
    Workspace& work = launch.params.work;
    work.records = allocate(sizes.records);
    work.states = allocate(sizes.states);
    work.d_states = allocate(sizes.states);
    work.updates = allocate(sizes.updates);
    work.d_gates = reinterpret_cast<float*>(allocate(sizes.d_gates));
    GradientParts parts;
    parts.gates = work.d_gates;
    parts.tokens = problem.total_tokens();

    const bool any_tokens = problem.total_tokens() > 0;
    if (any_tokens) {
      require_token_alignment(b.forward, problem.token_dtype, 16);
      require_pointer(b.d_output, 16, "d_output");
      require_pointer(b.d_query, 16, "d_q");
      require_pointer(b.d_key, 16, "d_k");
      require_pointer(b.forward.output, 16, "d_v");
      launch.maps = make_tensor_maps(b, problem.total_tokens());
      launch.chunk_slots = chunk_slots(problem.total_tokens(), problem.num_sequences());
    }
    const std::int64_t chains = 2 * problem.num_sequences() * problem.num_value_heads;
    launch.multiprocessors = device.info().multiprocessors;
    launch.halves = 2 * chains <= device.info().multiprocessors ? 2 : 1;

    PlanInfo info;
    info.chunk = kChunk;
    info.launches = 1 + (any_tokens ? 3 : 0) + gate_sum_launches(b, parts);
    info.choice = launch.halves == 2 ? "chains in halves of V" : "chains whole";
    return std::make_unique<LaunchPlan>(device, info, std::move(workspaces),
                                        [launch, parts, any_tokens](cudaStream_t stream) {
                                          if (any_tokens) enqueue_prepare(launch, stream);
                                          enqueue_chains(launch, stream);
                                          if (any_tokens) {
                                            enqueue_gradients(launch, stream);
                                            enqueue_small_betas(launch, stream);
                                          }
                                          enqueue_gate_sums(launch.params.backward, parts, stream);
                                        });
  }
};

}  // namespace
}  // namespace backward_sm90

const Implementation& gated_delta_backward_chunkwise_sm90() {
  static const backward_sm90::ChunkwiseSm90 implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
