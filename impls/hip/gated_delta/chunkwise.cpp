// Plans hip/chunkwise (chunkwise.hip): three launches and the workspace between them; with checkpoints a fourth,
// which cuts sequences at them (chunkwise_walk.h).
#include "hip/gated_delta/arguments.h"
#include "hip/gated_delta/chunk_choice.h"
#include "hip/kernel_launcher.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::hip {
namespace {

/// Sizes of the workspace regions, in floats.
struct Regions {
  /// What the kernels have for sequences: N, or with checkpoints their segments (chunkwise_walk.h).
  std::int64_t sequences = 0;
  std::int64_t slots =
      0;  ///< chunks of all sequences fit in T / C + sequences, wherever the cuts are
  std::int64_t carried = 0;
  std::int64_t update = 0;
  std::int64_t state = 0;
  std::int64_t bytes() const {
    return (carried + update + state) * static_cast<std::int64_t>(sizeof(float));
  }
  static std::int64_t segment_bytes(const Problem& problem) {
    if (problem.checkpoints == 0) return 0;
    return (2 * segments(problem) + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
  }
  static std::int64_t segments(const Problem& problem) {
    return problem.num_sequences() * (problem.checkpoints + 1);
  }
};
std::int64_t column_tiles(const Problem& problem) { return (problem.value_head_dim + 127) / 128; }

Regions regions_of(const Problem& problem) {
  const std::int64_t chunk = choose_chunk(problem).chunk;
  Regions regions;
  regions.sequences = Regions::segments(problem);
  regions.slots = problem.total_tokens() / chunk + regions.sequences;
  const std::int64_t heads = regions.slots * problem.num_value_heads;
  regions.carried = heads * chunk * problem.key_head_dim;
  regions.update = heads * chunk * problem.value_head_dim;
  regions.state = heads * column_tiles(problem) * choose_chunk(problem).rows * 128;
  return regions;
}

/// With one decay for each key channel (chunkwise_channel.hip), of a problem that chunk_support() accepts.
Support channel_support(const Problem& problem) {
  if (problem.key_head_dim > 128) {
    return Support::no("decay=channel with Dk=" + std::to_string(problem.key_head_dim) +
                       ": it is built for up to 128");
  }
  if (problem.chunk != 0 && problem.chunk != 16) {
    return Support::no("decay=channel with chunk=" + std::to_string(problem.chunk) +
                       ": it is built for 16");
  }
  return Support::yes();
}

class Chunkwise final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "hip/chunkwise",
        .operation = gated_delta_operation(),
        .honours =
            recurrence_options() + HonouredFields{"decay", "checkpoints", "checkpoint_dtype"},
        .backend = "hip",
        .form = "chunkwise",
        .summary =
            "three kernels, two of them parallel over chunks; bound by what lies in memory "
            "between them",
        .resources = "gfx906, up to 55 KB of LDS",
        .rank = 30,
        .examples = {
            "gated_delta:heads=1/2,dim=64,seq=20+3,h0=normal,dtype=f32",
            "gated_delta:heads=1/2,dim=64x72,seq=20+3+0+70,h0=normal,dtype=bf16,slots=padding,"
            "layout=vk,checkpoints=3,checkpoint_dtype=bf16",
            "gated_delta:heads=1/1,dim=136x36,seq=37+1,dtype=f16,state=bf16,ht=0,norm=1,"
            "checkpoints=4,checkpoint_dtype=f32",
            "gated_delta:heads=1/2,dim=64,seq=20+3+0+37,h0=normal,dtype=f32,decay=channel,"
            "slots=padding",
            "gated_delta:heads=2/2,dim=72x136,seq=20+3,h0=normal,dtype=f16,decay=channel,norm=1,"
            "layout=vk,gate=logits",
            "gated_delta:heads=1/2,dim=64x40,seq=20+3+0+37,h0=normal,dtype=bf16,decay=channel,"
            "slots=padding,checkpoints=3,checkpoint_dtype=f32"}};
    return description;
  }

  Support supports(const Problem& problem) const override {
    const Support support = chunk_support(problem);
    if (problem.decay == DecayPer::channel) return support ? channel_support(problem) : support;
    if (support && problem.chunk == 16 && problem.key_head_dim <= 128) {
      return Support::no("chunk=16; up to Dk=128 it is built for 32");
    }
    if (support && problem.num_sequences() > kLargestIndex / (problem.checkpoints + 1)) {
      return Support::no("sequences=" + std::to_string(problem.num_sequences()) +
                         " with checkpoints=" + std::to_string(problem.checkpoints) +
                         ": more than 2^31 parts of sequences");
    }
    return support;
  }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return regions_of(problem).bytes() + Regions::segment_bytes(problem);
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
    const CheckpointParams given = make_checkpoint_params(problem, arguments);
    ChunkwiseCheckpointParams walked{params, given.checkpoints};
    SegmentParams segments{given.delta, given.checkpoints, nullptr, nullptr};
    const bool has_checkpoints = problem.checkpoints > 0;
    if (has_checkpoints) {
      workspaces.push_back(device.allocate(Regions::segment_bytes(problem)));
      segments.offsets = workspaces.back().as<std::int64_t>();
      segments.slot_index = segments.offsets + regions.sequences + 1;
      params.delta.num_sequences = static_cast<std::int32_t>(regions.sequences);
      params.delta.sequence_offsets = segments.offsets;
      params.delta.slot_index = segments.slot_index;
      walked.chunkwise = params;
    }
    const ChunkChoice choice = choose_chunk(problem);
    const auto slots = static_cast<std::uint32_t>(regions.slots);
    const auto heads = static_cast<std::uint32_t>(problem.num_value_heads);
    const auto tiles = static_cast<std::uint32_t>(column_tiles(problem));
    const auto sequences = static_cast<std::uint32_t>(problem.num_sequences());
    PlanInfo info;
    info.chunk = choice.chunk;
    info.launches = has_checkpoints ? 4 : 3;
    info.choice = "columns=128 rows=" + std::to_string(choice.rows);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        [params, walked, segments, has_checkpoints, slots, heads, tiles, sequences,
         of = std::string(choice.of_channels ? "chunkwise_channel_" : "chunkwise_"),
         part = "_" + choice.kernel_part(),
         walk = std::string(has_checkpoints ? "checkpoints_walk_" : "chunkwise_") +
                (choice.of_channels ? "channel_" : "") + (has_checkpoints ? "" : "walk_") +
                choice.kernel_part()](KernelLauncher& launcher) {
          const Extent block{256, 1, 1};
          if (has_checkpoints) {
            launcher.launch("checkpoints_segments",
                            {(sequences + kSegmentThreads - 1) / kSegmentThreads, 1, 1},
                            {kSegmentThreads, 1, 1}, &segments, sizeof(segments));
          }
          launcher.launch(of + "prepare" + part, {slots, heads, 1}, block, &params, sizeof(params));
          launcher.launch(walk, {tiles, heads, sequences}, block, &walked,
                          has_checkpoints ? sizeof(walked) : sizeof(params));
          launcher.launch(of + "outputs" + part, {slots, heads, tiles}, block, &params,
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
