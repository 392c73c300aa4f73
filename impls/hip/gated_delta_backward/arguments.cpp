#include "hip/gated_delta_backward/arguments.h"

#include <algorithm>

#include "hip/gated_delta/arguments.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::hip {
namespace {

constexpr std::int64_t kMostSumBlocks = 1 << 16;
constexpr std::int64_t kLanes = 64;
constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

bool has_A_log(const Problem& problem) {
  return problem.gate_encoding == GateEncoding::logits ||
         problem.gate_encoding == GateEncoding::bounded;
}

}  // namespace

std::int64_t padded_key_width(const Problem& problem) { return (problem.key_head_dim + 3) / 4 * 4; }

BackwardParams make_backward_params(const Problem& problem, const Arguments& arguments) {
  const GatedDeltaBackwardArguments given = gated_delta_backward_arguments(problem, arguments);
  GatedDeltaArguments forward = given.forward;
  forward.output = given.d_value;
  BackwardParams b{};
  b.delta = make_params(problem, forward);
  b.d_output = given.d_output;
  b.d_output_token_stride = given.d_output_token_stride;
  b.d_final_state = given.d_final_state;
  b.read_final_gradient = problem.final_state ? 1 : 0;
  b.d_initial_state = given.d_initial_state;
  b.d_query = given.d_query;
  b.d_key = given.d_key;
  b.d_gate = given.d_gate;
  b.d_beta = given.d_beta;
  b.d_A_log = given.d_A_log;
  b.d_dt_bias = given.d_dt_bias;
  b.tokens = problem.total_tokens();
  b.num_key_heads = static_cast<std::int32_t>(problem.num_key_heads);
  b.value_heads_per_key_head = static_cast<std::int32_t>(problem.value_heads_per_key_head());
  b.key_width = static_cast<std::int32_t>(padded_key_width(problem));
  b.tiles = 1;
  for (const void* array :
       {given.d_output, given.d_final_state, static_cast<const void*>(given.d_initial_state)}) {
    if (reinterpret_cast<std::uintptr_t>(array) % 16 != 0) b.delta.packets = 0;
  }
  if (given.d_output_token_stride % 8 != 0) b.delta.packets = 0;
  return b;
}

SummandBytes summand_bytes(const Problem& problem, std::int64_t tiles) {
  const std::int64_t rows = problem.total_tokens() * problem.num_value_heads;
  return {tiles * rows * 2 * padded_key_width(problem) * kFloat, tiles * rows * 2 * kFloat,
          has_A_log(problem) ? rows * kFloat : 0};
}

std::vector<BackwardStep> gradient_sums(const Problem& problem) {
  const auto blocks = [tokens = problem.total_tokens()](std::int64_t of_a_block) {
    const std::int64_t all = (tokens + of_a_block - 1) / of_a_block;
    return static_cast<std::uint32_t>(std::min(all, kMostSumBlocks));
  };
  const auto key_heads = static_cast<std::uint32_t>(problem.num_key_heads);
  const auto heads = static_cast<std::uint32_t>(problem.num_value_heads);
  std::vector<BackwardStep> steps = {
      {"backward_sum_keys",
       {blocks(kBackwardSumThreads / kLanes), key_heads, 2},
       kBackwardSumThreads},
      {"backward_sum_gates", {blocks(kBackwardSumThreads), heads, 1}, kBackwardSumThreads},
      {"backward_sum_batch", {has_A_log(problem) ? heads : 0, 1, 1}, kBackwardSumThreads}};
  std::erase_if(steps, [](const BackwardStep& step) { return step.grid.x == 0; });
  return steps;
}

void enqueue(const std::vector<BackwardStep>& steps, BackwardParams params,
             KernelLauncher& launcher) {
  for (const BackwardStep& step : steps) {
    params.blocks = step.grid.x;
    launcher.launch(step.kernel, step.grid, {step.threads, 1, 1}, &params, sizeof(params));
  }
}

}  // namespace gdn::hip
