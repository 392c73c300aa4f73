// cuda/records of gated_delta_verify: drafts run as in cuda/decode of gated_delta, of whose tiles and
// arithmetic it is made, but the states stay as they are; of each step is kept what it did
// (tile/step_records.cuh), and commit does that again to the states of sequences that accepted something.
//
// Bound by: device memory, which verify reads the states from, and commit reads and writes them. Records
// are 4 % of a float32 state of 128 x 128 for 4 tokens, written once and read once. From 4 tokens on verify is
// bound by instructions, some 420 of a warp and token with 64 elements a thread (tile/recurrence.cuh), and by
// the loads that none of them covers: a block loads its tile, and then it computes.
//
// Reached, H200, 16/32 heads of 128, bfloat16 tokens, cold L2, verify and commit of 128 sequences of 2 / 4 / 8
// tokens: float32 states in vk .208 / .255 / .378 ms, bfloat16 ones .146 / .184 / .286; of 4 tokens verify
// takes .149 and .119 (data/measured/h200-2026-11-25).
#include <cuda_runtime.h>

#include <string>

#include "cuda/gated_delta/arguments.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/recurrence.cuh"
#include "cuda/gated_delta/tile/replay.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_plan.h"
#include "cuda/target.h"
#include "interface/operations/gated_delta_verify.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

/// What both kernels take beside the problem.
struct DraftOptions {
  DType token_dtype;
  TileGrid grid;
  StepRecords records;
  const std::int64_t* accepted;  ///< [N], read by commit
};

template <typename Case>
__global__ void __launch_bounds__(Case::Shape::kThreads, Case::Shape::blocks(16))
    verify_kernel(const GatedDeltaParams p, const DraftOptions options) {
  using Recurrence = TileRecurrence<typename Case::State, Case::kLayout, Case::kKeyDim>;
  __shared__ typename Recurrence::Shared shared;
  __shared__ typename Recurrence::Staged staged;
  const int thread = static_cast<int>(threadIdx.x);
  const TilePlace place = options.grid.place(Case::Shape::kBlockValues);

  const SequenceSpan span = sequence_span(p, place.sequence);
  if (span.length == 0) return;
  if (span.is_padding()) {
    store_zero_outputs(p, span, place.head, place.first_value,
                       min(place.first_value + Case::Shape::kBlockValues, p.value_head_dim), thread,
                       Case::Shape::kThreads);
    return;
  }
  typename Recurrence::Tile tile(thread, place.first_value, p.value_head_dim);
  tile.load(p.pool, span.row, place.head, false);
  Recurrence(p, options.token_dtype, place, shared, tile)
      .run_keeping(span.first, span.length, options.records, staged);
}

template <typename Case>
__global__ void __launch_bounds__(Case::Shape::kThreads, Case::Shape::blocks())
    commit_kernel(const GatedDeltaParams p, const DraftOptions options) {
  const TilePlace place = options.grid.place(Case::Shape::kBlockValues);
  const SequenceSpan span = sequence_span(p, place.sequence);
  const std::int64_t accepted = options.accepted[place.sequence];
  if (accepted == 0 || span.is_padding()) return;  // its row stays as it is
  __shared__ StagedRecords<typename Case::Shape, Case::kKeyDim> staged;
  StateTile<typename Case::State, Case::kLayout, Case::kKeyDim> tile(
      static_cast<int>(threadIdx.x), place.first_value, p.value_head_dim);
  tile.load(p.pool, span.row, place.head, false);
  replay_steps(p, options.records, place, span.first, accepted, staged, tile);
  tile.store(p.pool, span.row, place.head);
}

// ---- host

using Kernel = void (*)(GatedDeltaParams, DraftOptions);

struct Launches {
  Kernel verify = nullptr;
  Kernel commit = nullptr;
  int block_values = 0;
  int threads = 0;
};

Launches launches_of(const Problem& problem) {
  return with_tile_case<Launches>(problem, [](auto tile_case) -> Launches {
    using Case = decltype(tile_case);
    return {verify_kernel<Case>, commit_kernel<Case>, Case::Shape::kBlockValues,
            Case::Shape::kThreads};
  });
}

/// Bytes of the records of a problem, each array at a multiple of 256.
struct RecordBytes {
  std::int64_t key, u, decay;
  explicit RecordBytes(const Problem& p) {
    const auto rounded = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
    const std::int64_t steps = p.total_tokens() * p.steps;
    constexpr std::int64_t kFloat = sizeof(float);
    key = rounded(steps * p.num_key_heads * p.key_head_dim *
                  static_cast<std::int64_t>(size_of(p.token_dtype)));
    u = rounded(steps * p.num_value_heads * p.value_head_dim * kFloat);
    decay = rounded(p.total_tokens() * p.num_value_heads * p.gates_per_head() * kFloat);
  }
  std::int64_t all() const { return key + u + decay; }
};

class Records final : public Implementation {
 public:
  const Description& description() const override {
    static const Description description = {
        .name = "cuda/records",
        .operation = gated_delta_verify_operation(),
        .honours = recurrence_options() + recurrence_variants(),
        .backend = "cuda",
        .form = "records",
        .summary =
            "keeps what each draft token did to the state and replays it at commit; bound "
            "by device memory",
        .resources = "",
        .min_compute_capability = 80,
        .rank = 20,
        .aligned = tile_alignment(),
        .examples = {
            "gated_delta_verify:heads=2/4,dim=128,seq=4+3+1,h0=normal,dtype=bf16",
            "gated_delta_verify:heads=2/"
            "4,dim=128,seq=4+3,h0=normal,dtype=bf16,state=bf16,layout=vk",
            "gated_delta_verify:heads=1/3,dim=96x80,seq=7+1+0+4+5,h0=normal,dtype=f32,state=bf16,"
            "layout=vk,slots=permuted,gate=logits,norm=1",
            "gated_delta_verify:heads=2/2,dim=64,seq=3+2+4,h0=normal,dtype=f16,steps=2,"
            "decay=channel,layout=vk",
            "gated_delta_verify:heads=1/2,dim=192x136,seq=2+1+9,h0=normal,dtype=bf16,"
            "slots=padding,pool_pad=16,norm=1,gate=logits,beta=logit",
            "gated_delta_verify:heads=1/2,dim=256x72,seq=2+5,h0=normal,dtype=f32,state=f16,norm=1,"
            "decay=channel",
            "gated_delta_verify:heads=2/6,dim=96x24,seq=3x3,dtype=f16,update=additive,steps=2"}};
    return description;
  }

  Support supports(const Problem& problem) const override { return supports_tiles(problem); }

  std::int64_t workspace_bytes(const Problem& problem) const override {
    return RecordBytes(problem).all();
  }

  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    require_runnable(*this, problem, device);
    const GatedDeltaParams params = make_params(problem, arguments);
    require_tile_alignment(params, problem);
    const Launches launches = launches_of(problem);
    const RecordBytes bytes(problem);
    std::vector<DeviceBuffer> workspaces;
    workspaces.push_back(device.allocate(bytes.all()));
    char* const first = workspaces[0].as<char>();
    const DraftOptions options = {
        problem.token_dtype,
        tile_grid(problem, launches.block_values),
        {first, reinterpret_cast<float*>(first + bytes.key),
         reinterpret_cast<float*>(first + bytes.key + bytes.u), problem.token_dtype},
        gated_delta_verify_arguments(problem, arguments).accepted};
    const unsigned int blocks =
        grid_blocks(tile_blocks(problem, launches.block_values), description().name);
    const auto enqueue = [=](Kernel kernel) -> LaunchPlan::Enqueue {
      return [=](cudaStream_t stream) {
        launch_kernel(kernel, blocks, static_cast<unsigned int>(launches.threads), 0, stream,
                      params, options);
      };
    };
    const LaunchPlan::Enqueue nothing = [](cudaStream_t) {};
    PlanInfo info;
    info.launches = blocks == 0 ? 0 : problem.final_state ? 2 : 1;
    info.choice = "keeps=records values=" + std::to_string(launches.block_values) +
                  " threads=" + std::to_string(launches.threads);
    return std::make_unique<LaunchPlan>(
        device, info, std::move(workspaces),
        std::vector<LaunchPlan::Enqueue>{
            blocks > 0 ? enqueue(launches.verify) : nothing,
            blocks > 0 && problem.final_state ? enqueue(launches.commit) : nothing});
  }
};

}  // namespace

const Implementation& gated_delta_verify_records() {
  static const Records implementation;
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
