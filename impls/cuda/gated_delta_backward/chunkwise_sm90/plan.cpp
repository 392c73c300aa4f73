#include "cuda/gated_delta_backward/chunkwise_sm90/plan.h"

#include <cuda_runtime.h>

#include <utility>
#include <vector>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/chunk_sm90/key_tile_map.h"
#include "cuda/gated_delta/chunk_sm90/supports_head_dims.h"
#include "cuda/gated_delta_backward/arguments.cuh"
#include "cuda/gated_delta_backward/chunkwise_sm90/launches.h"
#include "cuda/gated_delta_backward/chunkwise_sm90/planner.h"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/hopper/tensor_map.h"
#include "cuda/launch_plan.h"
#include "cuda/require.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {
namespace {

TensorMaps make_tensor_maps(const KernelParams& params, std::int64_t tokens) {
  const BackwardParams& b = params.backward;
  const GatedDeltaParams& p = b.forward;
  const auto map = [&](const void* base, std::int64_t token_stride, int heads, int panels,
                       const char* name) {
    return hopper::make_tensor_map(base, DType::bfloat16,
                                   {{kPanel, 1, kPanel},
                                    {tokens, token_stride, kChunk},
                                    {p.value_head_dim / kPanel, kPanel, panels},
                                    {heads, p.value_head_dim, 1}},
                                   name);
  };
  const auto key_map = [&](const void* base, std::int64_t token_stride, const char* name) {
    return chunk_sm90::key_tile_map(base, tokens, token_stride, p.num_key_heads, p.key_head_dim,
                                    DType::bfloat16, name);
  };
  const std::int64_t values = std::int64_t{p.num_value_heads} * p.value_head_dim;
  const auto value = [&](int panels) {
    return map(p.value, p.value_token_stride, p.num_value_heads, panels, "v");
  };
  const auto d_output = [&](int panels) {
    return map(b.d_output, b.d_output_token_stride, p.num_value_heads, panels, "d_output");
  };
  const auto d_value = [&](int panels) {
    return map(p.output, values, p.num_value_heads, panels, "d_v");
  };
  return {.query = key_map(p.query, p.query_token_stride, "q"),
          .key = key_map(p.key, p.key_token_stride, "k"),
          .value = value(2),
          .d_output = d_output(2),
          .d_value = d_value(2),
          .value_panel = value(1),
          .d_output_panel = d_output(1),
          .d_value_panel = d_value(1),
          .output_panel = params.forward.output != nullptr
                              ? map(params.forward.output, values, p.num_value_heads, 1, "output")
                              : CUtensorMap{}};
}

/// Bytes of the workspace's arrays.
struct WorkspaceSizes {
  std::int64_t records, states, updates, d_gates;
  std::int64_t total() const { return records + 2 * states + updates + d_gates; }
};
WorkspaceSizes workspace_sizes(const Problem& p) {
  const std::int64_t heads = chunk_slots(p.total_tokens(), p.num_sequences()) * p.num_value_heads;
  const int slices = value_slices(static_cast<int>(p.value_head_dim));
  return {heads * kRecordBytes, heads * slices * kStateBytes, heads * slices * kTileBytes,
          GradientParts::gate_floats(p, slices) * static_cast<std::int64_t>(sizeof(float))};
}

}  // namespace

Support supports_shape(const Problem& problem) {
  if (const Support dims = supports_head_dims(problem); !dims) return dims;
  if (problem.token_dtype != DType::bfloat16)
    return Support::no("tokens of another type: only bfloat16");
  if (problem.gate_encoding == GateEncoding::decay)
    return Support::no("gate=decay: the gradient of a decay of 0 is not that of its logarithm");
  if (problem.chunk != 0 && problem.chunk != kChunk)
    return Support::no("chunk " + std::to_string(problem.chunk) + ": only 64");
  if (problem.total_tokens() > 2147483647 - kChunk) return Support::no("more than 2^31 tokens");
  return Support::yes();
}

std::int64_t workspace_bytes(const Problem& problem) { return workspace_sizes(problem).total(); }

std::unique_ptr<Plan> make_plan(const PlanRequest& request, Device& device) {
  const Problem& problem = request.problem;
  Launch launch;
  launch.name = request.name;
  KernelParams& params = launch.params;
  BackwardParams& b = params.backward;
  b = make_backward_params(problem, request.arguments);
  launch.is_step = request.forward != nullptr;
  if (launch.is_step) {
    params.forward = {request.forward->output, b.forward.pool};
    params.forward.final_states.data = request.forward->final_state;
    params.forward.final_states.write = problem.final_state;
  }
  const WorkspaceSizes sizes = workspace_sizes(problem);
  std::vector<DeviceBuffer> workspaces;
  const auto allocate = [&](std::int64_t bytes) {
    workspaces.push_back(device.allocate(bytes));
    return workspaces.back().as<std::uint8_t>();
  };
  Workspace& work = params.work;
  work.records = allocate(sizes.records);
  work.states = allocate(sizes.states);
  work.d_states = allocate(sizes.states);
  work.updates = allocate(sizes.updates);
  work.d_gates = reinterpret_cast<float*>(allocate(sizes.d_gates));
  GradientParts parts;
  parts.gates = work.d_gates;
  parts.tokens = params.tokens = problem.total_tokens();
  parts.parts = params.slices = value_slices(static_cast<int>(problem.value_head_dim));
  params.head_slices = params.slices * b.forward.value_heads_per_key_head;

  const bool any_tokens = problem.total_tokens() > 0;
  if (any_tokens) {
    require_token_alignment(b.forward, problem.token_dtype, 16);
    require_pointer(b.d_output, 16, "d_output");
    require_pointer(b.d_query, 16, "d_q");
    require_pointer(b.d_key, 16, "d_k");
    require_pointer(b.forward.output, 16, "d_v");
    if (launch.is_step) require_pointer(params.forward.output, 16, "output");
    launch.maps = make_tensor_maps(params, problem.total_tokens());
    launch.chunk_slots = chunk_slots(problem.total_tokens(), problem.num_sequences());
  }
  launch.multiprocessors = device.info().multiprocessors;
  const Division division = choose({.lengths = problem.sequences.lengths,
                                    .key_heads = problem.num_key_heads,
                                    .value_heads = problem.num_value_heads * params.slices,
                                    .directions = launch.is_step ? 1 : 2},
                                   costs_h200, launch.multiprocessors, request.may_cut);
  launch.halves = division.halves;
  params.piece_chunks = division.piece_chunks;
  params.piece_slots = static_cast<int>(
      piece_slots(problem.total_tokens(), problem.num_sequences(), division.piece_chunks));

  PlanInfo info;
  info.chunk = kChunk;
  info.launches = (launch.is_step ? 2 : 1) + (any_tokens ? 3 : 0) + gate_sum_launches(b, parts);
  info.choice = "v_split=" + std::to_string(division.halves) +
                " piece_chunks=" + std::to_string(division.in_pieces() ? division.piece_chunks : 0);
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

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
