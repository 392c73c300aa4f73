// Plans hip/chunkwise of gated_delta_backward (chunkwise.hip): three launches, those of sums.hip,
// and the workspace between them.
#include "hip/gated_delta/chunk_choice.h"
#include "hip/gated_delta_backward/arguments.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::hip {
namespace {

constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

std::int64_t value_width(const Problem& problem) { return (problem.value_head_dim + 3) / 4 * 4; }

/// Bytes of what lies in the workspace.
struct Sizes {
  std::int64_t slots;  ///< chunks of all sequences fit in T / C + N, wherever the cuts are
  std::int64_t keys;   ///< queries as well
  std::int64_t key_rows, value_rows, pairs, gates, states;
  SummandBytes summands;

  std::int64_t total() const {
    return 2 * keys + 2 * key_rows + 3 * value_rows + pairs + gates + 2 * states + summands.gates +
           summands.A_log;
  }
};

Sizes sizes_of(const Problem& problem) {
  const ChunkChoice choice = choose_chunk(problem);
  const std::int64_t C = choice.chunk;
  Sizes s{};
  s.slots = problem.total_tokens() / C + problem.num_sequences();
  const std::int64_t heads = s.slots * problem.num_value_heads;
  s.keys = s.slots * problem.num_key_heads * C * choice.rows * kFloat;
  s.key_rows = heads * C * choice.rows * kFloat;
  s.value_rows = heads * C * value_width(problem) * kFloat;
  s.pairs = heads * C * (C + 4) * kFloat;
  s.gates = heads * C * 6 * kFloat;
  s.states = heads * value_width(problem) * choice.rows * kFloat;
  s.summands = summand_bytes(problem, 1);
  return s;
}

class BackwardChunkwise final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/chunkwise",
        .operation = gated_delta_backward_operation(),
        .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                    "scale", "gate", "bound", "beta"},
        .backend = "hip",
        .form = "chunkwise",
        .summary =
            "the gradients of the WY form, two of three kernels parallel over chunks; bound by "
            "VALU issue",
        .resources = "gfx906, up to 39 KB of LDS",
        .rank = 30,
        .examples = {"gated_delta_backward:heads=1/2,dim=16x24,seq=40+3,dtype=f32,h0=normal",
                     "gated_delta_backward:heads=1/2,dim=128x40,seq=20+2,dtype=bf16,gate=logits,"
                     "beta=logit,norm=1,chunk=16",
                     "gated_delta_backward:heads=1/2,dim=132x20,seq=3+0+18,dtype=f16,state=bf16,"
                     "layout=vk,h0=normal,slots=padding,pool_pad=8,gate=bounded,beta=logit2"}};
    return description;
  }

  Support supports(const Problem& problem) const override { return chunk_support(problem); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return sizes_of(problem).total();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const ChunkChoice choice = choose_chunk(problem);
    const Sizes sizes = sizes_of(problem);
    BackwardChunkParams params{};
    params.backward = make_backward_params(problem, arguments);
    params.value_width = static_cast<std::int32_t>(value_width(problem));
    params.column_tiles = (params.value_width + 127) / 128;
    std::vector<DeviceBuffer> workspaces;
    const auto workspace = [&](std::int64_t bytes) {
      workspaces.push_back(device.allocate(bytes));
      return workspaces.back().as<float>();
    };
    params.query = workspace(sizes.keys);
    params.key = workspace(sizes.keys);
    params.of_state = workspace(2 * sizes.key_rows);
    params.of_d_state = params.of_state + sizes.key_rows / kFloat;
    params.d_output = workspace(sizes.value_rows);
    params.written = workspace(sizes.value_rows);
    params.d_written = workspace(sizes.value_rows);
    params.pairs = workspace(sizes.pairs);
    params.gates = workspace(sizes.gates);
    params.state = workspace(sizes.states);
    params.d_state = workspace(sizes.states);
    // Behind the chains nobody reads them: as many rows as tokens or more, none of them narrower.
    params.backward.key_parts = params.of_state;
    params.backward.gate_parts = workspace(sizes.summands.gates);
    if (params.backward.d_A_log != nullptr) {
      params.backward.A_log_terms = workspace(sizes.summands.A_log);
    }

    const std::string part = "_" + std::to_string(choice.chunk) + "_" + std::to_string(choice.rows);
    const auto slots = static_cast<std::uint32_t>(sizes.slots);
    const auto heads = static_cast<std::uint32_t>(problem.num_value_heads);
    const auto sequences = static_cast<std::uint32_t>(problem.num_sequences());
    const auto chains = static_cast<std::uint32_t>(2 * params.column_tiles);
    const std::vector<BackwardStep> sums = gradient_sums(problem);
    PlanInfo info;
    info.chunk = choice.chunk;
    info.launches = static_cast<int>(sums.size()) + (sequences > 0 ? 3 : 0);
    info.choice = "columns=128 rows=" + std::to_string(choice.rows);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, sums, part, slots, heads, sequences, chains](KernelLauncher& launcher) {
          const Extent block{256, 1, 1};
          const auto launch = [&](const char* step, Extent grid) {
            launcher.launch("backward_" + (step + part), grid, block, &params, sizeof(params));
          };
          if (sequences > 0) {
            launch("prepare", {slots, heads, 1});
            launch("chains", {chains, heads, sequences});
            launch("gradients", {slots, heads, 1});
          }
          enqueue(sums, params.backward, launcher);
        });
  }
};

}  // namespace

const Implementation& gated_delta_backward_chunkwise() {
  static const BackwardChunkwise implementation;
  return implementation;
}

}  // namespace gdn::hip
