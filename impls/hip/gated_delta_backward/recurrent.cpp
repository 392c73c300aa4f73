// hip/recurrent of gated_delta_backward: see recurrent.hip.
#include <algorithm>
#include <cmath>
#include <limits>

#include "hip/gated_delta/recurrent_plan.h"
#include "hip/gated_delta_backward/arguments.h"
#include "interface/error.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::hip {
namespace {

constexpr std::int64_t kMostBlocks = 240;  ///< a wave for each SIMD of an MI50's 60 CUs
constexpr std::int64_t kColumns = 32;      ///< of a tile
constexpr std::int64_t kLanes = 64;
constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));

std::int64_t rows_of(const Problem& p) {
  return p.key_head_dim <= 64 ? 64 : p.key_head_dim <= 128 ? 128 : 256;
}

/// Of the launches and of what lies in the workspace between them.
struct Sizes {
  std::int64_t tiles;   ///< of a head
  std::int64_t items;   ///< tiles of all sequences
  std::int64_t blocks;  ///< 0 without sequences
  int segment_log2;
  std::int64_t segment;
  std::int64_t checkpoint_bytes, kept_bytes, state_bytes;
  SummandBytes summands;

  std::int64_t bytes() const {
    return checkpoint_bytes + kept_bytes + 2 * state_bytes + summands.keys + summands.gates +
           summands.A_log;
  }
};

Sizes sizes_of(const Problem& p) {
  const std::int64_t tile_bytes = rows_of(p) * kColumns * kFloat;
  const std::int64_t tokens = p.total_tokens();
  Sizes s{};
  s.tiles = (p.value_head_dim + kColumns - 1) / kColumns;
  s.items = p.num_sequences() * p.num_value_heads * s.tiles;
  s.blocks = std::min(s.items, kMostBlocks);
  const double per_block = static_cast<double>(tokens * p.num_value_heads * s.tiles) /
                           static_cast<double>(std::max<std::int64_t>(s.blocks, 1));
  s.segment_log2 = per_block > 1 ? static_cast<int>(std::lround(std::log2(per_block) / 2)) : 0;
  s.segment = std::int64_t{1} << s.segment_log2;
  s.checkpoint_bytes = tokens / s.segment * p.num_value_heads * s.tiles * tile_bytes;
  s.kept_bytes = s.blocks * (s.segment + 1) * (tile_bytes + 4 * kLanes * kFloat);
  s.state_bytes = s.items * tile_bytes;
  s.summands = summand_bytes(p, s.tiles);
  return s;
}

class BackwardRecurrent final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/recurrent",
        .operation = gated_delta_backward_operation(),
        .honours = {"slots", "state", "layout", "h0", "ht", "pool_pad", "pool_rows", "norm",
                    "scale", "gate", "bound", "beta"},
        .backend = "hip",
        .form = "recurrent",
        .summary =
            "the gradients one token at a time in registers, from states that are kept and run "
            "again; bound by VALU issue",
        .resources = "gfx906",
        .rank = 20,
        .examples = {"gated_delta_backward:heads=1/2,dim=16x24,seq=20+3,dtype=f32,h0=normal",
                     "gated_delta_backward:heads=1/2,dim=128x40,seq=4+2,dtype=bf16,gate=logits,"
                     "beta=logit,norm=1",
                     "gated_delta_backward:heads=1/2,dim=132x20,seq=3+0+6,dtype=f16,state=bf16,"
                     "layout=vk,h0=normal,slots=padding,pool_pad=8,gate=bounded,beta=logit2"}};
    return description;
  }

  Support supports(const Problem& problem) const override { return Recurrent::rows_fit(problem); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return sizes_of(problem).bytes();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const Sizes sizes = sizes_of(problem);
    if (sizes.items > std::numeric_limits<std::int32_t>::max()) {
      throw Error(ErrorKind::unsupported,
                  std::to_string(sizes.items) + " tiles of columns are more than a launch takes");
    }
    BackwardParams params = make_backward_params(problem, arguments);
    params.tiles = static_cast<std::int32_t>(sizes.tiles);
    params.segment_log2 = sizes.segment_log2;
    params.items = static_cast<std::uint32_t>(sizes.items);
    std::vector<DeviceBuffer> workspaces;
    const auto workspace = [&](std::int64_t bytes) {
      workspaces.push_back(device.allocate(bytes));
      return workspaces.back().as<float>();
    };
    params.checkpoints = workspace(sizes.checkpoint_bytes);
    params.kept = workspace(sizes.kept_bytes);
    params.initial = workspace(sizes.state_bytes);
    params.gradient = workspace(sizes.state_bytes);
    params.key_parts = workspace(sizes.summands.keys);
    params.gate_parts = workspace(sizes.summands.gates);
    if (params.d_A_log != nullptr) params.A_log_terms = workspace(sizes.summands.A_log);

    const std::string rows = std::to_string(rows_of(problem));
    const Extent pools = {static_cast<std::uint32_t>(sizes.tiles),
                          static_cast<std::uint32_t>(problem.num_value_heads),
                          static_cast<std::uint32_t>(problem.num_sequences())};
    std::vector<BackwardStep> steps = {
        {"backward_load_" + rows, pools, kLanes},
        {"backward_walk_" + rows + "_" + kernel_suffix(problem.token_dtype),
         {static_cast<std::uint32_t>(sizes.blocks), 1, 1},
         kLanes},
        {"backward_store_" + rows, pools, kLanes}};
    if (sizes.blocks == 0) steps.clear();
    const std::vector<BackwardStep> sums = gradient_sums(problem);
    steps.insert(steps.end(), sums.begin(), sums.end());
    PlanInfo info;
    info.launches = static_cast<int>(steps.size());
    info.choice = "tiles=" + std::to_string(sizes.tiles) +
                  " blocks=" + std::to_string(sizes.blocks) +
                  " segment=" + std::to_string(sizes.segment);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, steps](KernelLauncher& launcher) { enqueue(steps, params, launcher); });
  }
};

}  // namespace

const Implementation& gated_delta_backward_recurrent() {
  static const BackwardRecurrent implementation;
  return implementation;
}

}  // namespace gdn::hip
