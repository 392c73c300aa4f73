// Plans hip/chunkwise (chunkwise.hip): three launches and the workspace between them.
#include "hip/gated_delta/arguments.h"
#include "hip/gated_delta/chunk_choice.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::hip {
namespace {

/// Sizes of the workspace regions, in floats.
struct Regions {
  std::int64_t slots = 0;  ///< chunks of all sequences fit in T / C + N, wherever the cuts are
  std::int64_t carried = 0;
  std::int64_t update = 0;
  std::int64_t state = 0;
  std::int64_t bytes() const {
    return (carried + update + state) * static_cast<std::int64_t>(sizeof(float));
  }
};
std::int64_t column_tiles(const Problem& problem) { return (problem.value_head_dim + 127) / 128; }

Regions regions_of(const Problem& problem) {
  const std::int64_t chunk = choose_chunk(problem).chunk;
  Regions regions;
  regions.slots = problem.total_tokens() / chunk + problem.num_sequences();
  const std::int64_t heads = regions.slots * problem.num_value_heads;
  regions.carried = heads * chunk * problem.key_head_dim;
  regions.update = heads * chunk * problem.value_head_dim;
  regions.state = heads * column_tiles(problem) * choose_chunk(problem).rows * 128;
  return regions;
}

class Chunkwise final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/chunkwise",
        .operation = gated_delta_operation(),
        .honours = recurrence_options(),
        .backend = "hip",
        .form = "chunkwise",
        .summary =
            "three kernels, two of them parallel over chunks; bound by what lies in memory "
            "between them",
        .resources = "gfx906, up to 55 KB of LDS",
        .rank = 30,
        .examples = {"gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    const Support support = chunk_support(problem);
    if (support && problem.chunk == 16 && problem.key_head_dim <= 128) {
      return Support::no("chunk=16; up to Dk=128 it is built for 32");
    }
    return support;
  }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return regions_of(problem).bytes();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const Regions regions = regions_of(problem);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(regions.bytes()));
    ChunkwiseParams params{make_params(problem, arguments), nullptr, nullptr, nullptr,
                           column_tiles(problem)};
    params.state = workspaces.front().as<float>();  // first: it is accessed in 16-byte words
    params.carried = params.state + regions.state;
    params.update = params.carried + regions.carried;
    const ChunkChoice choice = choose_chunk(problem);
    const auto slots = static_cast<std::uint32_t>(regions.slots);
    const auto heads = static_cast<std::uint32_t>(problem.num_value_heads);
    const auto tiles = static_cast<std::uint32_t>(column_tiles(problem));
    const auto sequences = static_cast<std::uint32_t>(problem.num_sequences());
    PlanInfo info;
    info.chunk = choice.chunk;
    info.launches = 3;
    info.choice = "columns=128 rows=" + std::to_string(choice.rows);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, slots, heads, tiles, sequences,
         part = "_" + choice.kernel_part()](KernelLauncher& launcher) {
          const Extent block{256, 1, 1};
          launcher.launch("chunkwise_prepare" + part, {slots, heads, 1}, block, &params,
                          sizeof(params));
          launcher.launch("chunkwise_walk" + part, {tiles, heads, sequences}, block, &params,
                          sizeof(params));
          launcher.launch("chunkwise_outputs" + part, {slots, heads, tiles}, block, &params,
                          sizeof(params));
        });
  }
};

}  // namespace

const Implementation& gated_delta_chunkwise() {
  static const Chunkwise implementation;
  return implementation;
}

}  // namespace gdn::hip
